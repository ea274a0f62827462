// Deliveries of providers (docs/reference/connections.md#intakes): proof over the raw bytes, one name for what happened, one record; in
// the same transaction what later deliveries need to know, and the syncs that a push asks for.

import { createHash } from 'node:crypto';
import * as chat from '../../adapters/providers/chat/chat.ts';
import * as codehost from '../../adapters/providers/codehost/codehost.ts';
import * as tracker from '../../adapters/providers/tracker/tracker.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { type NewEvent, type RecordedEvent, recordEvents } from '../../adapters/store/events/events.ts';
import { agentUsernames, factId, readFacts, writeFacts } from '../../adapters/store/connections/provider-facts.ts';
import { forgetWish, repositoriesOfPull, wishPlan } from '../../adapters/store/repositories/pull-plans.ts';
import { notePullDelivery } from '../../adapters/store/repositories/pull-polls.ts';
import { repositoriesOfPush, updateState } from '../../adapters/store/repositories/repositories.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { isListening } from '../../domain/connection.ts';
import type { Delivery, NamedEvent } from '../../domain/delivery.ts';
import { logRejected } from './rejected.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, textAt } from '../../domain/fields.ts';
import type { FlowContext } from '../context.ts';
import { enqueueSync } from '../enqueue.ts';
import { connectionSecrets } from '../sealed.ts';
import { answerIn, takeAnswer } from './answers.ts';
import { parseBody } from './body.ts';
import type { Intake } from './ingest.ts';
import { isOwnInstallation, takeInstallation } from './installation.ts';

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
  const event = header(headers, 'X-GitHub-Event');
  const deliveryId = header(headers, 'X-GitHub-Delivery');
  const body = parseBody(raw);
  if (!(await isOwnInstallation(ctx, connection, codehost.installationOf(body)))) {
    return { ignored: true, reason: 'other-installation' };
  }
  const change = codehost.installationChangeOf(event, body);
  if (change !== undefined) {
    const installationId = codehost.installationOf(body);
    const dedupHash = dedupHashOf(connection, deliveryId);
    return takeInstallation(ctx, connection, { change, installationId, dedupHash });
  }
  const { appId, botLogin } = connection.config;
  const self = {
    appId: idAt(appId),
    botLogin: textAt(botLogin),
    usernames: await usernamesFor(ctx, connection, raw),
  };
  const normalized = codehost.normalize(event, deliveryId, body, self);
  return record(ctx, connection, normalized, deliveryId, raw);
}

/** Takes an issue tracker's delivery, see `takeCodehost`. */
export async function takeTracker(ctx: FlowContext, delivery: ProviderDelivery): Promise<Intake> {
  const { connection, secret } = await connectionOf(ctx, 'tracker', delivery.connectionId);
  const { raw, headers } = delivery;
  if (!tracker.verifySignature(raw, headers['linear-signature'], secret)) throw badSignature(ctx, connection);
  const body = parseBody(raw);
  if (!tracker.isTimely(body, ctx.runtime.now().getTime())) throw badSignature(ctx, connection);
  const deliveryId = header(headers, 'Linear-Delivery');
  const self = {
    botUserId: idAt(connection.config['botUserId']),
    usernames: await usernamesFor(ctx, connection, raw),
  };
  return record(ctx, connection, tracker.normalize(body, self), deliveryId, raw);
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
  const body = parseBody(raw);
  const challenge = chat.challengeOf(body);
  if (challenge !== undefined) return { challenge };
  const { botUserId, workspaceId } = connection.config;
  const self = { botUserId: idAt(botUserId), workspaceId: idAt(workspaceId) };
  const normalized = chat.normalize(body, self);
  const eventId = chat.eventIdOf(body);
  if (normalized.kind === 'event' && eventId === undefined) {
    throw new Fault('invalid', 'invalid-body', 'The body has no event_id.');
  }
  return record(ctx, connection, normalized, eventId ?? '', raw);
}

/** An active connection of a provider and what proves its deliveries. Throws Fault `not_found`. */
export async function connectionOf(
  ctx: FlowContext,
  provider: IntakeProvider,
  id: string,
): Promise<{ connection: SealedConnection; secret: string }> {
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);
  const connection = isId ? await connectionById(ctx.db, id) : undefined;
  if (connection === undefined || connection.provider !== provider || !isListening(connection.status)) {
    throw new Fault('not_found', 'connection-not-found', 'there is no such connection');
  }
  const secret = connectionSecrets(ctx, connection)[provider === 'chat' ? 'signingSecret' : 'webhookSecret'];
  // Without one nothing can be proven; an empty key would be everybody's.
  return { connection, secret: typeof secret === 'string' ? secret : '' };
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
  createHash('sha256').update(`${provider}\0${id}\0${delivery}`).digest();

async function record(
  ctx: FlowContext,
  connection: SealedConnection,
  delivery: Delivery<{ readonly push?: codehost.PushHint; readonly pull?: codehost.PullHint }>,
  deliveryId: string,
  raw: Buffer,
): Promise<Intake> {
  if (delivery.kind === 'ignored') return { ignored: true, reason: delivery.reason };
  if (delivery.kind === 'malformed') throw new Fault('invalid', 'invalid-body', delivery.reason);
  const now = ctx.runtime.now();
  const made = (event: NamedEvent, part: string): NewEvent => ({
    id: timeOrderedId(ctx.runtime),
    projectId: connection.projectId,
    key: event.key,
    dedupHash: dedupHashOf(connection, `${deliveryId}${part}`),
    raw,
    payload: JSON.stringify({ ...event.payload, raw: undefined }),
    receivedAt: now,
    connectionId: connection.id,
    ...(isBindable(event.target) && { target: event.target }),
  });
  const recorded = await ctx.db.tx(async (tx) => {
    const known = await readFacts(tx, connection.id, delivery.needs ?? []);
    const finished = delivery.finish?.((fact) => known.get(factId(fact)));
    const { event, derived = [] } = finished ?? { event: delivery.event };
    const options = { routing: ctx.ingest?.needsJob() === true };
    const [found] = (await recordEvents(tx, [made(event, '')], options)) as [RecordedEvent];
    if (!found.created) return found;
    const answer = answerIn(event);
    const taken = answer && (await takeAnswer(ctx, tx, { connection, eventId: found.id, answer }));
    // Only behind the event that they follow from, which is unique per delivery: a delivery that comes again is held
    // against what was learned since, and would tell a change that never happened.
    const following = derived.map((one) => made(one, `\0${one.key}`));
    if (following.length > 0) await recordEvents(tx, following, options);
    await writeFacts(tx, connection.id, delivery.learns ?? [], now);
    if (delivery.push !== undefined) await askForSyncs(tx, connection, delivery.push, now);
    if (delivery.pull !== undefined) await askForPlans(tx, connection, delivery.pull, now);
    return taken === undefined ? found : { ...found, routerStatus: 'routed' as const };
  });
  if (recorded.created) ctx.ingest?.recorded(connection.projectId);
  const { key } = delivery.event;
  ctx.runtime.log.info({ event: key, eventRecordId: recorded.id, created: recorded.created }, 'event.received');
  return { eventRecordId: recorded.id, created: recorded.created, routerStatus: recorded.routerStatus };
}

/** A key that no binding can hold is none: the event takes `onUnmatched`, as one without a target does (docs/reference/events.md). */
const isBindable = (target: NamedEvent['target']): boolean =>
  target !== undefined && target.key.length <= targetKeyMax && !target.key.includes('\0');

/** Repositories of the connection's project that follow the branch which the pull request is to be merged into. */
async function askForPlans(tx: Sql, connection: SealedConnection, pull: codehost.PullHint, now: Date): Promise<void> {
  const { fullName, number, head, at = now } = pull;
  const lower = fullName.toLowerCase();
  for (const { id, branch, plan } of await repositoriesOfPull(tx, connection.projectId, { ...pull, fullName: lower })) {
    await notePullDelivery(tx, id, now);
    if ((branch ?? pull.defaultBranch) !== pull.base) continue;
    if (!pull.isOpen) await forgetWish(tx, id, number);
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
    await enqueueSync(tx, repository.id, 'push', push.commit);
  }
}
