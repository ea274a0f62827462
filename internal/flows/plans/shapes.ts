// Small shapes that the outbox and what it reads back share.

import { sha256Bytes } from '../../base/hash.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';

/** As the outbox compares what it finds. */
export const digestOf = (value: Json): string => sha256Bytes(canonicalJson(value)).toString('base64url');
