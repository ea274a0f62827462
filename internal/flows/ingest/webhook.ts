// A delivery to a webhook endpoint (docs/reference/webhook-endpoints.md#requests;
// docs/reference/webhook-endpoints.md#answers): who sent it, what it is called, whether it has been here before. In this
// order: endpoint, proof over the raw bytes, body, record.

import { signatureHeader } from '../../../schemas/api/endpoints.ts';
import { logRejected, logUnreadable } from './rejected.ts';
import { hash } from 'node:crypto';
import type { IngestEndpoint } from '../../adapters/store/resources/endpoints.ts';
import type { SecretGuard } from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';
import { messagesTable } from '../../domain/messages.ts';
import { type FlowContext, ingestOf } from '../context.ts';
import type { Credential } from '../ports.ts';
import { isBearer, isSigned } from './authenticate.ts';
import { findEndpoint } from './receivers.ts';
import { parseBody } from './body.ts';
import { credentialKey, loadCredential } from './endpoint-secrets.ts';
import type { Recorded } from './outcome.ts';
import { noteSpan } from '../../base/trace/trace.ts';

const eventMax = 512;
const dedupKeyMax = 1_024;

export interface WebhookDelivery {
  readonly slug: string;
  readonly raw: Buffer;
  /** `x-svc-signature-256` */
  readonly signature: string | undefined;
  readonly authorization: string | undefined;
}

/** Rotations that one request may meet; more of them is no rotation but a fault. */
const rotationsMax = 10;

/**
 * Takes a delivery. Throws Fault `not_found` (also for a reservation), `unauthenticated`, `invalid`, or `unavailable`
 * where it could not be recorded.
 */
export async function takeWebhook(ctx: FlowContext, delivery: WebhookDelivery): Promise<Recorded> {
  const ports = ingestOf(ctx);
  const now = ctx.runtime.now();
  // Nothing is waited for that is known: a turn of the queue costs as much as a look.
  const endpoint = ports.knownEndpoint(delivery.slug) ?? (await findEndpoint(ctx, delivery.slug));
  if (endpoint === undefined) throw noEndpoint(ctx);
  const known = knownCredential(ctx, endpoint, delivery, now);
  let guard = known === undefined ? await authenticateAnew(ctx, endpoint, delivery) : known.guard;
  let event: NewEvent;
  try {
    // Names are texts: whether a double holds a number matters to whoever routes the event.
    const body = ports.keepsBodies() ? parseBody(delivery.raw) : parseBody(delivery.raw, parseJson);
    event = eventOf(ctx, endpoint, { raw: delivery.raw, body, now });
    ports.keepBody(event.id, body, delivery.raw.length);
  } catch (error) {
    // Only who is known to hold the secret hears what is wrong with the body.
    if (guard !== undefined) await authenticateAnew(ctx, endpoint, delivery);
    const { id, name, projectId } = endpoint;
    logUnreadable(ctx, { kind: 'endpoint', id, name, projectId }, error);
    throw error;
  }
  for (let rotations = 0; rotations < rotationsMax; rotations += 1) {
    const recorded = await ports.record(event, guard);
    if (recorded !== undefined) {
      const { id, created, routerStatus } = recorded;
      if (!created) ports.takeBody(event.id);
      else noteDelivery(ctx, event, endpoint.name);
      ctx.runtime.log.debug({ endpoint: endpoint.name, eventRecordId: id }, 'event.received');
      return { eventRecordId: id, created, routerStatus };
    }
    guard = await authenticateAnew(ctx, endpoint, delivery);
  }
  throw new Fault('unavailable', 'secret-changes', 'The secret of this endpoint keeps changing; try again.', {
    retryAfterSeconds: 1,
  });
}

function noEndpoint(ctx: FlowContext): Fault {
  const fault = new Fault('not_found', 'not-found', messagesTable.noEndpoint);
  logUnreadable(ctx, { kind: 'endpoint' }, fault);
  return fault;
}

const noteDelivery = (ctx: FlowContext, { id, key, receivedAt }: NewEvent, endpoint: string): void =>
  noteSpan({
    eventId: id,
    name: 'delivery',
    startMs: receivedAt.getTime(),
    endMs: ctx.runtime.now().getTime(),
    attributes: { 'svc.event.key': key, 'svc.endpoint': endpoint },
  });

function eventOf(
  ctx: FlowContext,
  endpoint: IngestEndpoint,
  { raw, body, now }: { readonly raw: Buffer; readonly body: JsonObject; readonly now: Date },
): NewEvent {
  const key = eventKey(body['event']);
  return {
    id: timeOrderedId(ctx.runtime, now),
    projectId: endpoint.projectId,
    key,
    dedupHash: dedupHash(endpoint.id, body),
    raw,
    payload: null,
    receivedAt: now,
    endpointId: endpoint.id,
  };
}

/** What proves the sender, as far as it is in memory; undefined: it has to be looked up, for better or worse. */
function knownCredential(
  ctx: FlowContext,
  endpoint: IngestEndpoint,
  delivery: WebhookDelivery,
  now: Date,
): Pick<Credential, 'guard'> | undefined {
  const { auth } = endpoint;
  if (auth.kind === 'none') return undefined;
  const known = ingestOf(ctx).secrets.known(credentialKey(endpoint, auth.secretRef), now);
  return known !== undefined && isProven(endpoint, delivery, known) ? known : undefined;
}

/**
 * Proves the sender by the secret as it is now, and answers with what that proof depends on; undefined: on nothing that
 * could have changed. Throws Fault `unauthenticated`.
 */
async function authenticateAnew(
  ctx: FlowContext,
  endpoint: IngestEndpoint,
  delivery: WebhookDelivery,
): Promise<SecretGuard | undefined> {
  const { auth } = endpoint;
  if (auth.kind === 'none') return undefined;
  const name = auth.secretRef;
  const credential = await ingestOf(ctx).secrets.read(credentialKey(endpoint, name), () =>
    loadCredential(ctx, endpoint, name),
  );
  if (credential === undefined || !isProven(endpoint, delivery, credential)) {
    const why = `The credentials are missing or wrong. ${wanted(endpoint)}`;
    logRejected(ctx, { kind: 'endpoint', id: endpoint.id, name: endpoint.name, projectId: endpoint.projectId }, why);
    throw new Fault('unauthenticated', 'bad-credentials', why);
  }
  return credential.guard;
}

/** What a caller has to send. The kind of proof is no secret: it stands in the agent's file. */
const wanted = ({ auth }: IngestEndpoint): string =>
  auth.kind === 'hmac_sha256'
    ? `Send the header ${signatureHeader} with the hex HMAC-SHA256 of the body as sent.`
    : 'Send the header Authorization with Bearer and the secret.';

const isProven = ({ auth }: IngestEndpoint, delivery: WebhookDelivery, credential: Credential): boolean =>
  auth.kind === 'hmac_sha256'
    ? isSigned(delivery.raw, delivery.signature, credential)
    : isBearer(delivery.authorization, credential);

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
  const scope = `webhook\0${endpointId}\0`;
  const named = Buffer.allocUnsafe(scope.length + 2 * key.length);
  named.write(scope, 'latin1');
  // UTF-16, because halves of surrogate pairs are legal and all become the same character in UTF-8.
  named.write(key, scope.length, 'utf16le');
  return hash('sha256', named, 'buffer');
}
