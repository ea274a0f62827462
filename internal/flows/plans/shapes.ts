// Small shapes that the outbox and what it reads back share.

import { createHash } from 'node:crypto';
import { canonicalJson, type Json, type JsonObject } from '../../domain/json.ts';

/** Of what was made: its id, and where people see it. */
export const idAndUrl = (json: JsonObject): JsonObject => ({ id: json['id'] ?? null, url: json['html_url'] ?? null });

/** As the outbox compares what it finds. */
export const digestOf = (value: Json): string => createHash('sha256').update(canonicalJson(value)).digest('base64url');
