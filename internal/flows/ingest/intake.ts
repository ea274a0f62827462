// Deliveries of providers (contract, section 4): proof, name, record.

import { createHash } from 'node:crypto';
import { normalize, type PushHint, verifySignature } from '../../adapters/providers/codehost/codehost.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/credentials.ts';
import { recordEvent } from '../../adapters/store/events.ts';
import { repositoriesOfPush, updateState } from '../../adapters/store/repositories.ts';
import type { Sql } from '../../adapters/store/db.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../words/fault.ts';
import type { FlowContext } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import { connectionSecrets } from '../sealed.ts';
import { parseBody } from './body.ts';
import type { Intake } from './ingest.ts';

const headerMax = 200;

export interface CodehostDelivery {
  readonly connectionId: string;
  readonly raw: Buffer;
  readonly signature: string | undefined;
  readonly event: string | undefined;
  readonly deliveryId: string | undefined;
}

/**
 * Takes a code host's delivery. Throws Fault `not_found` (no such connection), `unauthenticated` (bad signature) or
 * `invalid` (a body that cannot be read).
 */
export async function takeCodehost(ctx: FlowContext, delivery: CodehostDelivery): Promise<Intake> {
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(delivery.connectionId);
  const connection = isId ? await connectionById(ctx.db, delivery.connectionId) : undefined;
  if (connection === undefined || connection.provider !== 'codehost' || connection.status !== 'active') {
    throw new Fault('not_found', 'connection-not-found', 'there is no such connection');
  }
  const secret = connectionSecrets(ctx, connection)['webhookSecret'];
  if (typeof secret !== 'string' || !verifySignature(delivery.raw, delivery.signature, secret)) {
    throw new Fault('unauthenticated', 'bad-signature', 'the signature is missing or is not that of the body');
  }
  const event = header(delivery.event, 'X-GitHub-Event');
  const deliveryId = header(delivery.deliveryId, 'X-GitHub-Delivery');
  const body = parseBody(delivery.raw);
  const normalized = normalize(event, deliveryId, body);
  if (normalized.kind === 'ignored') return { ignored: true, reason: normalized.reason };
  if (normalized.kind === 'malformed') throw new Fault('invalid', 'invalid-body', normalized.reason);
  const { key, payload, push } = normalized;
  const now = ctx.runtime.now();
  const recorded = await ctx.db.tx(async (tx) => {
    const found = await recordEvent(tx, {
      id: timeOrderedId(ctx.runtime),
      projectId: connection.projectId,
      key,
      dedupHash: createHash('sha256').update(`codehost\0${connection.id}\0${deliveryId}`).digest(),
      raw: delivery.raw,
      payload: JSON.stringify(payload),
      receivedAt: now,
    });
    if (found.created && push !== undefined) await askForSyncs(tx, connection, push, now);
    return found;
  });
  ctx.runtime.log.info({ event: key, eventRecordId: recorded.id, created: recorded.created }, 'event.received');
  return { eventRecordId: recorded.id, created: recorded.created, routerStatus: recorded.routerStatus };
}

function header(value: string | undefined, name: string): string {
  if (value === undefined || value === '' || value.length > headerMax) {
    throw new Fault('invalid', 'invalid-header', `${name} must be there, with at most ${headerMax} characters`);
  }
  return value;
}

/** Repositories of the connection's project that follow the pushed branch; one without a branch follows the default. */
async function askForSyncs(tx: Sql, connection: SealedConnection, push: PushHint, now: Date): Promise<void> {
  for (const repository of await repositoriesOfPush(tx, connection.projectId, push)) {
    const followed = repository.branch ?? push.defaultBranch ?? push.branch;
    if (repository.suspended || followed !== push.branch) continue;
    // The server was reached by somebody: whatever kept us from it may be over.
    await updateState(tx, repository.id, { failures: 0 }, now);
    await enqueueSync(tx, repository.id, 'push', now, push.commit);
  }
}
