// Deliveries of providers (docs/reference/connections.md#intakes): proof over the raw bytes, one name for what happened, one record; in
// the same transaction what later deliveries need to know, and the syncs that a push asks for.

import { sha256Bytes } from '../../base/hash.ts';
import { wishSync } from '../../adapters/store/repositories/polls.ts';
import * as chat from '../../adapters/providers/chat/chat.ts';
import * as codehost from '../../adapters/providers/codehost/codehost.ts';
import * as tracker from '../../adapters/providers/tracker/tracker.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { recordWith } from '../../adapters/store/events/event-bodies.ts';
import { agentUsernames, readFacts, writeFacts } from '../../adapters/store/connections/provider-facts.ts';
import { endWish, repositoriesOfPull, wishPlan } from '../../adapters/store/repositories/pull-plans.ts';
import { notePullDelivery } from '../../adapters/store/repositories/pull-polls.ts';
import { repositoriesOfPush, updateState } from '../../adapters/store/repositories/repositories.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { isListening } from '../../domain/connection.ts';
import type { DeliveryTarget } from '../../domain/delivery.ts';
import { logRejected, logUnreadable } from './rejected.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, textAt } from '../../domain/fields.ts';
import type { FlowContext } from '../context.ts';
import { connectionSecrets } from '../sealed.ts';
import { takeAnswer } from './answers.ts';
import { parseBody } from './body.ts';
import type { Intake } from './outcome.ts';
import { findConnection } from './receivers.ts';
import { isOwnInstallation, takeInstallation } from './installation.ts';
import { largeFrom, readLarge } from './large.ts';
import { type DeliverySource, readHere, type ReadEvent, type ReadDelivery } from './reading.ts';
import { noteSpan } from '../../base/trace/trace.ts';

const headerMax = 200;
/** As the schema of bindings and claims has it. */
const targetKeyMax = 1_000;

export type IntakeProvider = 'codehost' | 'tracker' | 'chat';

/** What every provider sends: the bytes, and headers by their lower-case names. */
export interface ProviderDelivery {
  readonly connectionId: string;
  readonly raw: Buffer;
  readonly headers: { readonly [name: string]: string | undefined };
}

/**
 * Takes a code host's delivery. All of these throw Fault `not_found` (no such connection), `unauthenticated` (a bad
 * signature, or one outside its window) or `invalid` (a body or header that cannot be read).
 */
export async function takeCodehost(ctx: FlowContext, delivery: ProviderDelivery): Promise<Intake> {
  const { connection, secret } = await connectionOf(ctx, 'codehost', delivery.connectionId);
  const { raw, headers } = delivery;
  if (!codehost.verifySignature(raw, headers['x-hub-signature-256'], secret)) throw badSignature(ctx, connection);
  return proven(ctx, connection, async () => {
    const event = header(headers, 'X-GitHub-Event');
    const deliveryId = header(headers, 'X-GitHub-Delivery');
    const { appId, botLogin } = connection.config;
    const self = {
      appId: idAt(appId),
      botLogin: textAt(botLogin),
      usernames: await usernamesFor(ctx, connection, raw),
    };
    return read(
      ctx,
      { raw, projectId: connection.projectId },
      { provider: 'codehost', event, deliveryId, self },
      async (said) => {
        const { installationId, change } = said;
        if (!(await isOwnInstallation(ctx, connection, installationId))) {
          return { ignored: true, reason: 'other-installation' };
        }
        if (change !== undefined) {
          const dedupHash = dedupHashOf(connection, deliveryId);
          return takeInstallation(ctx, connection, { change, installationId, dedupHash });
        }
        return record(ctx, connection, said.delivery, deliveryId);
      },
    );
  });
}

/** Takes an issue tracker's delivery, see `takeCodehost`. */
export async function takeTracker(ctx: FlowContext, delivery: ProviderDelivery): Promise<Intake> {
  const { connection, secret } = await connectionOf(ctx, 'tracker', delivery.connectionId);
  const { raw, headers } = delivery;
  if (!tracker.verifySignature(raw, headers['linear-signature'], secret)) throw badSignature(ctx, connection);
  return proven(ctx, connection, async () => {
    const self = {
      botUserId: idAt(connection.config['botUserId']),
      usernames: await usernamesFor(ctx, connection, raw),
    };
    const nowMs = ctx.runtime.now().getTime();
    return read(ctx, { raw, projectId: connection.projectId }, { provider: 'tracker', nowMs, self }, async (said) => {
      if (!said.isTimely) throw badSignature(ctx, connection);
      return record(ctx, connection, said.delivery, header(headers, 'Linear-Delivery'));
    });
  });
}

/** Takes a chat provider's delivery, see `takeCodehost`; or gives its challenge back. */
export async function takeChat(
  ctx: FlowContext,
  delivery: ProviderDelivery,
): Promise<Intake | { readonly challenge: string }> {
  const { connection, secret } = await connectionOf(ctx, 'chat', delivery.connectionId);
  const { raw, headers } = delivery;
  const proof = { signature: headers['x-slack-signature'], timestamp: headers['x-slack-request-timestamp'] };
  if (!chat.verifySignature(raw, proof, secret, ctx.runtime.now().getTime())) throw badSignature(ctx, connection);
  return proven(ctx, connection, async () => {
    const { botUserId, workspaceId } = connection.config;
    const self = { botUserId: idAt(botUserId), workspaceId: idAt(workspaceId) };
    const of = { raw, projectId: connection.projectId };
    return read<Intake | { readonly challenge: string }>(ctx, of, { provider: 'chat', self }, async (said) => {
      const { challenge, eventId, delivery: spoken } = said;
      if (challenge !== undefined) return { challenge };
      if (spoken.kind === 'event' && eventId === undefined) {
        throw new Fault('invalid', 'invalid-body', 'The body has no event_id.');
      }
      return record(ctx, connection, spoken, eventId ?? '');
    });
  });
}

/** Reads a delivery whose sender is proven, and takes what it says: here, or where it is large in a thread of its own. */
const read = <T>(
  ctx: FlowContext,
  { raw, projectId }: { readonly raw: Buffer; readonly projectId: string },
  asked: DeliverySource,
  take: (said: ReadDelivery) => Promise<T>,
): Promise<T> =>
  raw.length > largeFrom ? readLarge(ctx, { raw, projectId }, asked, take) : take(readHere(asked, raw, parseBody(raw)));

/** An active connection of a provider and what proves its deliveries. Throws Fault `not_found`. */
export async function connectionOf(
  ctx: FlowContext,
  provider: IntakeProvider,
  id: string,
): Promise<{ connection: SealedConnection; secret: string }> {
  const connection = await findConnection(ctx, id);
  if (connection === undefined || connection.provider !== provider || !isListening(connection.status)) {
    const fault = new Fault('not_found', 'connection-not-found', 'there is no such connection');
    logUnreadable(ctx, { kind: 'connection' }, fault);
    throw fault;
  }
  const secret = connectionSecrets(ctx, connection)[provider === 'chat' ? 'signingSecret' : 'webhookSecret'];
  // Without one nothing can be proven; an empty key would be everybody's.
  return { connection, secret: typeof secret === 'string' ? secret : '' };
}

/** What is done with a delivery whose sender is proven; where it cannot be read, the log tells so. */
async function proven<T>(ctx: FlowContext, connection: SealedConnection, take: () => Promise<T>): Promise<T> {
  try {
    return await take();
  } catch (error) {
    const { id, name, projectId } = connection;
    // One that proves itself too late is told of where that is found.
    if (!(error instanceof Fault && error.kind === 'unauthenticated'))
      logUnreadable(ctx, { kind: 'connection', id, name, projectId }, error);
    throw error;
  }
}

function badSignature(ctx: FlowContext, { id, name, projectId }: SealedConnection): Fault {
  const why = 'the signature is missing, too old, or not that of the body';
  logRejected(ctx, { kind: 'connection', id, name, projectId }, why);
  return new Fault('unauthenticated', 'bad-signature', why);
}

function header(headers: ProviderDelivery['headers'], name: string): string {
  const value = headers[name.toLowerCase()];
  if (value === undefined || value === '' || value.length > headerMax) {
    throw new Fault('invalid', 'invalid-header', `${name} must be there, with at most ${headerMax} characters`);
  }
  return value;
}

/** Names are looked up only for a body that can name somebody. */
async function usernamesFor(ctx: FlowContext, connection: SealedConnection, raw: Buffer): Promise<string[]> {
  return raw.includes('@') || raw.includes('\\u0040') ? agentUsernames(ctx.db, connection.projectId) : [];
}

const dedupHashOf = ({ provider, id }: SealedConnection, delivery: string): Buffer =>
  sha256Bytes(`${provider}\0${id}\0${delivery}`);

async function record(
  ctx: FlowContext,
  connection: SealedConnection,
  delivery: ReadDelivery['delivery'],
  deliveryId: string,
): Promise<Intake> {
  if (delivery.kind === 'ignored') return { ignored: true, reason: delivery.reason };
  if (delivery.kind === 'malformed') throw new Fault('invalid', 'invalid-body', delivery.reason);
  const event = delivery as Extract<ReadDelivery['delivery'], { kind: 'event' }>;
  const now = ctx.runtime.now();
  const recorded = await ctx.db.tx(
    async (tx) => {
      const finished = await event.finish(await readFacts(tx, connection.id, event.needs));
      const { raw } = finished;
      const made = (of: ReadEvent, part: string): NewEvent => ({
        id: timeOrderedId(ctx.runtime),
        projectId: connection.projectId,
        key: of.key,
        dedupHash: dedupHashOf(connection, `${deliveryId}${part}`),
        ...(typeof of.payload === 'string'
          ? { raw, payload: of.payload }
          : { raw: null, payload: null, large: { raw, payload: of.payload } }),
        receivedAt: now,
        connectionId: connection.id,
        ...(of.target !== undefined && isBindable(of.target) && { target: of.target }),
      });
      // Only behind the event that they follow from, which is unique per delivery: a delivery that comes again is held
      // against what was learned since, and would tell a change that never happened.
      const following = finished.derived.map((one) => made(one, `\0${one.key}`));
      const options = { routing: ctx.ingest?.needsJob() === true };
      const found = await recordWith(tx, made(finished.event, ''), following, options);
      if (!found.created) return found;
      const { answer } = finished.event;
      const taken = answer && (await takeAnswer(ctx, tx, { connection, eventId: found.id, answer }));
      await writeFacts(tx, connection.id, event.learns, now);
      if (event.push !== undefined) await askForSyncs(tx, connection, event.push, now);
      if (event.pull !== undefined) await askForPlans(tx, connection, event.pull, now);
      return taken === undefined ? found : { ...found, routerStatus: 'routed' as const };
    },
    // What is large takes its time to be written.
    { patient: event.isLarge },
  );
  if (recorded.created) ctx.ingest?.recorded(connection.projectId, [recorded.id]);
  const { key } = event;
  if (recorded.created)
    noteSpan({
      eventId: recorded.id,
      name: 'delivery',
      startMs: now.getTime(),
      endMs: ctx.runtime.now().getTime(),
      attributes: { 'svc.event.key': key, 'svc.connection': connection.name },
    });
  ctx.runtime.log.info({ event: key, eventRecordId: recorded.id, created: recorded.created }, 'event.received');
  return { eventRecordId: recorded.id, created: recorded.created, routerStatus: recorded.routerStatus };
}

/** A key that no binding can hold is none: the event takes `onUnmatched`, as one without a target does (docs/reference/events.md). */
const isBindable = (target: DeliveryTarget): boolean => target.key.length <= targetKeyMax && !target.key.includes('\0');

/** Repositories of the connection's project that follow the branch which the pull request is to be merged into. */
async function askForPlans(tx: Sql, connection: SealedConnection, pull: codehost.PullHint, now: Date): Promise<void> {
  const { fullName, number, head, at = now } = pull;
  const lower = fullName.toLowerCase();
  for (const { id, branch, plan } of await repositoriesOfPull(tx, connection.projectId, { ...pull, fullName: lower })) {
    await notePullDelivery(tx, id, now);
    const isElsewhere = (branch ?? pull.defaultBranch) !== pull.base;
    const ended = !pull.isOpen ? 'over' : isElsewhere ? 'elsewhere' : undefined;
    if (ended !== undefined) await endWish(tx, { repositoryId: id, number, at, ended });
    else if (!pull.isFork || plan.forks === true) {
      await wishPlan(tx, { repositoryId: id, number, fullName, head, at });
    }
  }
}

/** Repositories of the connection's project that follow the pushed branch; one without a branch follows the default. */
async function askForSyncs(tx: Sql, connection: SealedConnection, push: codehost.PushHint, now: Date): Promise<void> {
  for (const repository of await repositoriesOfPush(tx, connection.projectId, push)) {
    const followed = repository.branch ?? push.defaultBranch ?? push.branch;
    if (repository.suspended || followed !== push.branch) continue;
    // The server was reached by somebody: whatever kept us from it may be over.
    await updateState(tx, repository.id, { failures: 0 }, now);
    await wishSync(tx, { repositoryId: repository.id, reason: 'push', hint: push.commit });
  }
}
