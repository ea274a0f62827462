// Proofs over received bytes: HMAC-SHA256 signatures and shared tokens, compared in constant time.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { sha256Bytes } from '../../base/hash.ts';

/** HMAC-SHA256 over the raw bytes. An empty key proves nothing, so it is refused. */
export function hmacSha256(key: Uint8Array | KeyObject, body: Uint8Array): Buffer {
  // Node takes its time to find out that plain bytes are no KeyObject; making one is cheaper.
  const held = key instanceof Uint8Array ? createSecretKey(key) : key;
  if (!held.symmetricKeySize) throw new Error('an empty HMAC key proves nothing');
  return createHmac('sha256', held).update(body).digest();
}

/**
 * Whether `signature` (hex, with or without `sha256=`) is the body's under `key`. The shape is checked first: Node's hex
 * decoder stops at the first bad character, and the comparison throws on unequal lengths. False for an empty key.
 */
export function hmacMatches(key: Uint8Array, body: Uint8Array, signature: string | undefined): boolean {
  const hex = /^(?:sha256=)?([0-9a-fA-F]{64})$/.exec(signature ?? '')?.[1];
  if (hex === undefined || key.length === 0) return false;
  return timingSafeEqual(Buffer.from(hex, 'hex'), hmacSha256(key, body));
}

/** Whether two secrets are equal, in a time that tells neither their lengths nor where they differ. False for empty ones. */
export function secretsMatch(expected: Uint8Array, given: Uint8Array): boolean {
  return timingSafeEqual(sha256Bytes(expected), sha256Bytes(given)) && expected.length > 0;
}
