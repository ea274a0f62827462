// Small shapes that the outbox and what it reads back share.

import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../../domain/json.ts';

/** As the outbox compares what it finds. */
export const digestOf = (value: Json): string => createHash('sha256').update(canonicalJson(value)).digest('base64url');
