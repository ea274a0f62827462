// A signed webhook of ours to somebody's address: one POST of JSON, with a digest of its bytes under a key that both have
// (docs/reference/notifications.md#webhooks). Follows no redirect, sends nothing twice, and reaches public https addresses
// alone unless the installation allows private networks; no message holds the address, the key or the body.

import { createHmac } from 'node:crypto';
import { Agent, request } from 'undici';
import { guardedLookup, hostFault } from '../../../base/net/net.ts';
import { retryAfterOf } from '../../../base/net/retry-after.ts';
import { rateLimited, OutcomeUnknown, outsideFault } from '../../../domain/outside.ts';

export interface WebhookRequest {
  readonly url: string;
  /** Null: it is not signed. */
  readonly key: string | null;
  readonly body: string;
  /** The same for the same delivery: receivers tell deliveries apart by it. */
  readonly deliveryId: string;
  readonly condition: string;
  readonly allowPrivate: boolean;
}

const timeoutMs = 15_000;
const notSent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;
const open = new Agent();
const guarded = new Agent({ connect: { lookup: guardedLookup() } });

/** What is wrong with an address; undefined where a webhook may be sent there. */
export function webhookAddressFault(address: string, allowPrivate: boolean): string | undefined {
  const url = URL.parse(address);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return 'expected an http(s) address';
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    return 'it may hold no credentials and no fragment';
  if (allowPrivate) return undefined;
  if (url.protocol !== 'https:') return 'expected https';
  return hostFault(url.hostname) === null ? undefined : 'it is a private address';
}

/** `X-Signature` of a body: `sha256=` and the HMAC-SHA-256 in hex. */
export const signatureOf = (key: string, body: string): string =>
  `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;

/** Sends it, once. Throws Fault where it was refused or not sent, and OutcomeUnknown where it may have arrived. */
export async function sendWebhook(webhook: WebhookRequest): Promise<void> {
  const { url, key, body, deliveryId, condition, allowPrivate } = webhook;
  const fault = webhookAddressFault(url, allowPrivate);
  if (fault !== undefined) throw outsideFault('refused', `the address of the receiver cannot be used: ${fault}`);
  let status: number;
  let after: number | undefined;
  try {
    const answer = await request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'svc',
        'x-svc-delivery': deliveryId,
        'x-svc-condition': condition,
        ...(key !== null && { 'x-signature': signatureOf(key, body) }),
      },
      body,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      // A receiver is whoever a project names: one that trickles is never silent.
      signal: AbortSignal.timeout(2 * timeoutMs),
      dispatcher: allowPrivate ? open : guarded,
    });
    status = answer.statusCode;
    after = retryAfterOf(answer.headers);
    await answer.body.dump({ limit: 64 * 1024 }).catch(() => undefined);
  } catch (error) {
    const { name } = error as Error;
    if (name === 'PrivateAddressError') throw outsideFault('refused', 'the receiver has a private address');
    const at = name === 'TimeoutError' ? 'it took too long' : String((error as NodeJS.ErrnoException).code ?? '');
    if (!notSent.test(at)) throw new OutcomeUnknown(at === '' ? 'the connection broke' : at);
    throw outsideFault('provider-unavailable', 'the receiver could not be reached; nothing was sent');
  }
  if (status >= 200 && status < 300) return;
  if (status === 429 || status === 503) {
    throw rateLimited('the receiver asks for patience', Math.min(after ?? 60, 3_600));
  }
  if (status >= 500) throw new OutcomeUnknown(`an answer of ${status}`);
  throw outsideFault('refused', `the receiver answered ${status}`);
}
