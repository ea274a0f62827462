// A delivery to a webhook endpoint (spec, Webhook ingest; contract, section 3): who sent it, what it is called, whether
// it has been here before. In this order: endpoint, proof over the raw bytes, body, record.

import { createHash } from 'node:crypto';
import type { IngestEndpoint } from '../../adapters/store/endpoints.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../words/fault.ts';
import type { Json, JsonObject } from '../../words/json.ts';
import { type FlowContext, ingestOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { isBearer, isSigned } from './authenticate.ts';
import { parseBody } from './body.ts';
import type { Recorded } from './ingest.ts';

const eventMax = 512;
const dedupKeyMax = 1_024;
/** Slugs are at most a name of 128 characters and what is derived. */
const slugShape = /^[a-z0-9-]{1,160}$/;

export interface WebhookDelivery {
  readonly slug: string;
  readonly raw: Buffer;
  /** `x-svc-signature-256` */
  readonly signature: string | undefined;
  readonly authorization: string | undefined;
}

/**
 * Takes a delivery. Throws Fault `not_found` (also for a reservation), `unauthenticated`, `invalid`, or `unavailable`
 * where it could not be recorded.
 */
export async function takeWebhook(ctx: FlowContext, delivery: WebhookDelivery): Promise<Recorded> {
  const ports = ingestOf(ctx);
  const now = ctx.runtime.now();
  const endpoint = slugShape.test(delivery.slug) ? await ports.endpoint(delivery.slug, now) : undefined;
  if (endpoint === undefined) throw new Fault('not_found', 'not-found', 'There is no such endpoint.');
  await authenticate(ctx, endpoint, delivery);
  const body = parseBody(delivery.raw);
  const key = eventKey(body['event']);
  const recorded = await ports.record({
    id: timeOrderedId(ctx.runtime),
    projectId: endpoint.projectId,
    key,
    dedupHash: dedupHash(endpoint.id, body),
    raw: delivery.raw,
    payload: null,
    receivedAt: now,
    endpointId: endpoint.id,
  });
  ctx.runtime.log.debug({ endpoint: endpoint.name, eventRecordId: recorded.id }, 'event.received');
  return { eventRecordId: recorded.id, created: recorded.created, routerStatus: recorded.routerStatus };
}

async function authenticate(ctx: FlowContext, endpoint: IngestEndpoint, delivery: WebhookDelivery): Promise<void> {
  const { auth } = endpoint;
  if (auth.kind === 'none') return;
  // Read anew for every request, so that a rotated secret counts from the next one on.
  const project = {
    id: endpoint.projectId,
    slug: endpoint.projectSlug,
    orgId: endpoint.orgId,
    orgSlug: endpoint.orgSlug,
  };
  const name = auth.secretRef;
  const reader = { kind: 'endpoint', name: endpoint.name } as const;
  const secret = await ingestOf(ctx).fresh(`${endpoint.id} ${name}`, () => secretText(ctx, project, name, reader));
  const isProven =
    secret !== undefined &&
    (auth.kind === 'hmac_sha256'
      ? isSigned(delivery.raw, delivery.signature, secret)
      : isBearer(delivery.authorization, secret));
  if (!isProven) throw new Fault('unauthenticated', 'bad-credentials', 'The credentials are missing or wrong.');
}

const length = (text: string, max: number): number => (text.length <= max ? text.length : [...text].length);

/** The key that a body names by its `event`; anything but a non-empty string there is payload. */
export function eventKey(event: Json | undefined): string {
  if (typeof event !== 'string' || event === '') return 'webhook.received';
  if (length(event, eventMax) > eventMax) {
    throw new Fault('invalid', 'invalid-event', `"event" has more than ${eventMax} characters.`);
  }
  return event.startsWith('webhook.') ? event : `webhook.${event}`;
}

function dedupHash(endpointId: string, body: JsonObject): Buffer | null {
  if (!Object.hasOwn(body, 'dedupKey')) return null;
  const key = body['dedupKey'];
  if (typeof key !== 'string' || key === '' || length(key, dedupKeyMax) > dedupKeyMax) {
    throw new Fault('invalid', 'invalid-dedup-key', `"dedupKey" has to be a text of 1 to ${dedupKeyMax} characters.`);
  }
  // UTF-16, because halves of surrogate pairs are legal and all become the same character in UTF-8.
  return createHash('sha256').update(`webhook\0${endpointId}\0`).update(Buffer.from(key, 'utf16le')).digest();
}
