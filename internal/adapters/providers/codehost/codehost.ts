// The code host's wire: proof of a webhook over its raw bytes, and the push event in the neutral vocabulary
// (contract, section 4: Intakes, Normalized payloads). Decides whether a delivery is the provider's and what it says;
// never looks at a project, a repository row or a trigger. The provider's own words end in this room.

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Json, JsonObject } from '../../../words/json.ts';
import { addressKeys, pushPayload } from './push.ts';

export { addressKey } from './push.ts';
export { type InstallationToken, mintInstallationToken, type MintRequest } from './token.ts';

/** 64 hexadecimal digits, with or without the name of the algorithm. */
const signatureShape = /^(?:sha256=)?([0-9a-f]{64})$/i;

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

/** What a delivery means to the service. */
export type Delivery =
  | { readonly kind: 'ignored'; readonly reason: string }
  | { readonly kind: 'malformed'; readonly reason: string }
  | { readonly kind: 'event'; readonly key: string; readonly payload: JsonObject; readonly push?: PushHint };

/** What a push says about who should look: a hint, never the truth (the server's own refs are). */
export interface PushHint {
  /** Normalised addresses of the repository, see `addressKey`. */
  readonly addresses: readonly string[];
  /** `owner/name`, lower case. */
  readonly fullName: string;
  readonly branch: string;
  readonly defaultBranch: string | undefined;
  /** Absent when the push deleted the branch. */
  readonly commit: string | undefined;
}

/** The event a delivery carries. `event` and `deliveryId` are the delivery's headers, `body` its parsed JSON. */
export function normalize(event: string, deliveryId: string, body: Json): Delivery {
  if (event !== 'push') return { kind: 'ignored', reason: `the event ${event.slice(0, 64)} is not in the catalog` };
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    return { kind: 'malformed', reason: 'the body is not a JSON object' };
  }
  const push = pushPayload(deliveryId, body as JsonObject);
  if (push === undefined) return { kind: 'malformed', reason: 'the push names no repository or no ref' };
  if (push.branch === undefined) return { kind: 'event', key: 'codehost.push', payload: push.payload };
  return {
    kind: 'event',
    key: 'codehost.push',
    payload: push.payload,
    push: {
      addresses: addressKeys(body as JsonObject),
      fullName: push.fullName.toLowerCase(),
      branch: push.branch,
      defaultBranch: push.defaultBranch,
      commit: push.deleted ? undefined : push.after,
    },
  };
}
