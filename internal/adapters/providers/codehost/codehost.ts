// The code host's wire: proof of a webhook over its raw bytes, and its events in the neutral vocabulary
// (docs/reference/connections.md#intakes: Intakes, Normalized payloads). Decides whether a delivery is the provider's and what it says;
// never looks at a project, a repository row or a trigger. The provider's own words end in this room.

import { createHmac, timingSafeEqual } from 'node:crypto';

export { installationChangeOf, installationOf, readInstallation } from './installation.ts';
export { type CodehostDelivery, normalize } from './normalize.ts';
export { isBotLogin } from './parts.ts';
export { addressKey, type PullHint, type PushHint } from './push.ts';
export { type ApiAnswer, type ApiRequest, callApi, fetchSigned, NotDone } from './api.ts';
export { callMcp } from './mcp.ts';
export { sealSecret } from './seal-secret.ts';
export {
  cloneUrl,
  type InstallationToken,
  mintInstallationToken,
  type MintReason,
  type MintRequest,
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
