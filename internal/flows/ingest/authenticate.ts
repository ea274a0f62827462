// Who may post to a webhook endpoint (spec, Authentication 1): a signature over the bytes as they came, or a token.
// Shapes are checked before anything is compared, comparisons take constant time, and an empty secret opens nothing.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** 64 hexadecimal digits, with or without the name of the algorithm. */
const signatureShape = /^(?:sha256=)?([0-9a-f]{64})$/i;
const bearerShape = /^bearer +(.+)$/i;

/** True when `header` is the HMAC-SHA256 of the body under the secret. */
export function isSigned(raw: Uint8Array, header: string | undefined, secret: string): boolean {
  const hex = signatureShape.exec(header ?? '')?.[1];
  if (hex === undefined || secret === '') return false;
  return timingSafeEqual(Buffer.from(hex, 'hex'), createHmac('sha256', secret).update(raw).digest());
}

/** True when `header` is `Bearer` and the secret. Header bytes arrive as Latin-1, whatever they were. */
export function isBearer(header: string | undefined, secret: string): boolean {
  const token = bearerShape.exec(header ?? '')?.[1];
  if (token === undefined || secret === '') return false;
  // Digests are of one length, so that the length of the secret does not show either.
  const given = createHash('sha256').update(Buffer.from(token, 'latin1')).digest();
  return timingSafeEqual(given, createHash('sha256').update(secret, 'utf8').digest());
}
