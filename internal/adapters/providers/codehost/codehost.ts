// The code host's wire: proof of a webhook over its raw bytes, and its events in the neutral vocabulary
// (docs/reference/connections.md#intakes, docs/reference/events.md#payloads). Decides whether a delivery is the provider's
// and what it says; never looks at a project, a repository row or a trigger. The provider's own words end in this room.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { outsideFault } from '../../../domain/outside.ts';

export { installationChangeOf, installationOf, readInstallation } from './installation.ts';
export { type CodehostDelivery, mentionedAs, normalize } from './normalize.ts';
export { addressIn, idAndUrl, isBotLogin, named } from './parts.ts';
export { addressKey, type PullHint, type PushHint } from './push.ts';
export { type ApiAnswer, type ApiRequest, callApi, fetchSigned, RefusedCall } from './api.ts';
export { isLimit, namedSeconds } from './limit.ts';
export { callMcp, mcpResource } from './mcp.ts';
export {
  cloneUrl,
  type InstallationToken,
  mintInstallationToken,
  type MintReason,
  type MintRequest,
  publicApiUrl,
} from './token.ts';

/** As the provider sends it, and nothing else (docs/reference/http-api.md#errors). */
const signatureShape = /^sha256=([0-9a-f]{64})$/;

/**
 * True when `header` is the HMAC-SHA256 of `rawBody` under `secret`, compared in constant time. The shape is checked
 * before anything is decoded, and an empty secret verifies nothing: an empty key would be everybody's.
 */
export function verifySignature(rawBody: Uint8Array, header: string | undefined, secret: string | Uint8Array): boolean {
  if (secret.length === 0 || header === undefined) return false;
  const hex = signatureShape.exec(header)?.[1];
  if (hex === undefined) return false;
  return timingSafeEqual(Buffer.from(hex, 'hex'), createHmac('sha256', secret).update(rawBody).digest());
}

// A secret of a repository as the code host takes it: a sealed box for the repository's public key (X25519,
// XSalsa20-Poly1305, a nonce of BLAKE2b), which Node's own crypto cannot make.

/** `publicKey`: base64, 32 bytes. Answers in base64. Throws Fault `provider-unavailable` where the key is none. */
export async function sealSecret(value: string, publicKey: string): Promise<string> {
  // Loaded by the first that needs it: most daemons never do, and it would cost each of their starts.
  const { default: sodium } = await import('libsodium-wrappers');
  await sodium.ready;
  const key = Buffer.from(publicKey, 'base64');
  if (key.length !== sodium.crypto_box_PUBLICKEYBYTES)
    throw outsideFault('provider-unavailable', 'the code host gave no key to seal for; nothing was done');
  return Buffer.from(sodium.crypto_box_seal(Buffer.from(value, 'utf8'), key)).toString('base64');
}
