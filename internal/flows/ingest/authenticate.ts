// Who may post to a webhook endpoint (docs/reference/webhook-endpoints.md#authentication): a signature over the bytes as they
// came, or a token. Shapes are checked before anything is compared, comparisons take constant time, and an empty secret opens
// nothing.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { sha256Bytes } from '../../base/hash.ts';
import type { Credential } from '../ports.ts';

/** A signature may name its algorithm, so spelled; digits are hexadecimal, two a byte. */
const algorithm = 'sha256=';
const digestBytes = 32;
const bearerShape = /^bearer +(.+)$/i;

type Held = Pick<Credential, 'key' | 'digest'>;

/** True when `header` is the HMAC-SHA256 of the body under the secret. */
export function isSigned(raw: Uint8Array, header: string | undefined, { key }: Held): boolean {
  if (header === undefined || key === undefined) return false;
  const isNamed = header.length > 2 * digestBytes && header.startsWith(algorithm);
  const hex = isNamed ? header.slice(algorithm.length) : header;
  // Decoding ends at the first character that is no digit.
  const given = hex.length === 2 * digestBytes ? Buffer.from(hex, 'hex') : Buffer.alloc(0);
  if (given.length !== digestBytes) return false;
  return timingSafeEqual(given, createHmac('sha256', key).update(raw).digest());
}

/** True when `header` is `Bearer` and the secret. Header bytes arrive as Latin-1, whatever they were. */
export function isBearer(header: string | undefined, { key, digest }: Held): boolean {
  const token = bearerShape.exec(header ?? '')?.[1];
  if (token === undefined || key === undefined) return false;
  // Digests are of one length, so that the length of the secret does not show either.
  return timingSafeEqual(sha256Bytes(Buffer.from(token, 'latin1')), digest);
}
