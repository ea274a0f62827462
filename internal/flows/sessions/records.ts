// The one place that makes, tells and ends sessions. Every function wants a transaction that holds the project's routing
// lock (`inProject`), so that what it changes and what routing decides never cross; binding events are recorded in it,
// and their routing is asked for.

import {
  type Binding,
  type BindingsPage,
  findBindings,
  firstBindings,
  hasHeld,
  insertBindings,
  nextHeld,
  nextWaiting,
  type PageOfBindings,
  shiftBindings,
  updateBindings,
} from '../../adapters/store/routing/bindings.ts';
import { insertMessages, insertNotices, type MessageInsert } from '../../adapters/store/sessions/inbox.ts';
import {
  type Heir,
  inheritedMessages,
  passMessages,
  unheardMessages,
} from '../../adapters/store/sessions/passed-on.ts';
import { passChecks } from '../../adapters/store/sessions/checks.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import {
  type EndedSession,
  endSessionRow,
  insertSessions,
  lockSession,
  type SessionInsert,
} from '../../adapters/store/sessions/sessions.ts';
import { slotOf, slotsOf } from '../../adapters/store/sessions/slots.ts';
import { sessionSettings } from '../../base/config/session-settings.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../domain/fault.ts';
import { canonicalJson, type Json, type JsonObject } from '../../domain/json.ts';
import { messagesTable } from '../../domain/messages.ts';
import type { FlowContext } from '../context.ts';
import { enqueueRouting } from '../../adapters/store/events/events.ts';
import { recordTransitions, type Transition } from './transitions.ts';

export interface NewSession extends SessionInsert {
  /** What it is told first; `sender` says by whom. */
  readonly start: Pick<MessageInsert, 'text' | 'sender' | 'detail'>;
}

/**
 * Makes queued sessions with their claims and their first message. Before it comes what a session that failed in the slot has
 * left, also where it is not the platform that fills the slot again, and so does what that one held. A slot or thread that a
 * live session has already is a unique violation (23505): whoever wants to know before reads `session_claims` under the same
 * lock.
 */
export async function createSessions(ctx: FlowContext, tx: RoutingTx, sessions: readonly NewSession[]): Promise<void> {
  const now = ctx.runtime.now();
  const { messageMaxBytes: bytesMax } = sessionSettings(ctx.config.file);
  const filling = sessions.filter(({ slot, origin }) => slot && origin !== 'replacement');
  const slots = await slotsOf(
    tx,
    filling.map(({ agentId }) => ({ agentId, isCapped: true })),
  );
  const heirs = filling.flatMap(({ id, agentId }): Heir[] => {
    const failedId = slots.get(agentId)?.failedId ?? null;
    return failedId === null ? [] : [{ sessionId: id, failedId, bytesMax }];
  });
  const heirIds = new Set(heirs.map(({ sessionId }) => sessionId));
  const withThreads = sessions.map((one) =>
    heirIds.has(one.id) ? { ...one, threads: slots.get(one.agentId)?.threads ?? [] } : one,
  );
  await insertSessions(tx, withThreads, now);
  const left = await inheritedMessages(tx, heirs);
  await passChecks(
    tx,
    heirs.map(({ sessionId, failedId }) => ({ sessionId, before: failedId })),
  );
  const starts = sessions.map(({ id, start }): MessageInsert => ({ sessionId: id, mode: 'interrupt', ...start }));
  await passMessages(tx, left, now);
  await insertMessages(tx, starts, now);
  const agents = filling.filter(({ id }) => heirIds.has(id));
  await passWaiting(ctx, tx, new Map(agents.map(({ id, agentId }) => [agentId, { sessionId: id, depth: 0 }])));
}

/** Who gets an agent's claims that wait for a holder, and how many events of bindings came before those that tell of it. */
export interface ClaimHeir {
  readonly sessionId: string;
  readonly depth: number;
}

/** Passes the claims of agents that wait for a holder to these, by agent, each with its event. */
export async function passWaiting(
  ctx: FlowContext,
  tx: RoutingTx,
  heirs: ReadonlyMap<string, ClaimHeir>,
): Promise<void> {
  await moveAll(
    ctx,
    tx,
    (at) => nextWaiting(tx, [...heirs.keys()], at),
    (claim) => {
      const { sessionId, depth } = heirs.get(claim.agentId) as ClaimHeir;
      return passTo(claim, sessionId, depth);
    },
  );
}

/** Gives all that are found another holder, or none, a page at a time: there may be thousands, with notes of their own. */
async function moveAll(
  ctx: FlowContext,
  tx: RoutingTx,
  next: (at: PageOfBindings) => Promise<BindingsPage>,
  moveOf: (binding: Binding) => Move,
): Promise<void> {
  for (let at: PageOfBindings | undefined = firstBindings; at !== undefined; ) {
    const page: BindingsPage = await next(at);
    const moves = page.rows.map(moveOf);
    const now = ctx.runtime.now();
    await shiftBindings(
      tx,
      moves.map((one) => one.binding),
      now,
    );
    await tell(ctx, tx, toldIn(moves), now);
    at = page.next;
  }
}

/**
 * Says messages to live sessions, in the order given. Whether they live is the caller's to know, under the lock
 * (`requireLive`): a message to an ended session would wait for ever.
 */
export async function deliver(ctx: FlowContext, tx: RoutingTx, messages: readonly MessageInsert[]): Promise<void> {
  await insertMessages(tx, messages, ctx.runtime.now());
}

const noSession = (): Fault => new Fault('not_found', 'not-found', messagesTable.noSession);

/** The session, with its row locked. Throws Fault `not_found`, or `conflict` where it has ended. */
export async function requireLive(
  tx: RoutingTx,
  sessionId: string,
): Promise<{ readonly id: string; readonly agentId: string; readonly agent: string; readonly state: string }> {
  const found = await lockSession(tx, sessionId);
  if (found === undefined) throw noSession();
  if (!found.live) throw new Fault('conflict', 'session-ended', `The session is ${found.state}.`);
  return found;
}

/**
 * Ends a live session (docs/reference/sessions.md#slot): its claims are free, bindings with `continuity: session` are released,
 * those with `continuity: agent` stay without a holder, held ones too where it failed and the platform puts another one in
 * its place, and what had not reached it fails. False where it is not live.
 */
export async function endSession(
  ctx: FlowContext,
  tx: RoutingTx,
  sessionId: string,
  state: 'archived' | 'replaced' | 'failed',
  reason: string,
): Promise<boolean> {
  const now = ctx.runtime.now();
  // Before it is ended: a turn, or a question, that its host is writing has to be seen, or it would go on without its session.
  if ((await lockSession(tx, sessionId))?.live !== true) return false;
  const ended = await endSessionRow(tx, sessionId, { state, reason, now });
  if (ended === undefined) return false;
  await leaveBindings(ctx, tx, ended, state === 'failed');
  await insertNotices(tx, [{ sessionId, text: `The session is ${state}: ${reason}` }], now);
  return true;
}

async function leaveBindings(ctx: FlowContext, tx: RoutingTx, ended: EndedSession, isFailed: boolean): Promise<void> {
  // Whoever replaces it takes over what it held; were that free meanwhile, there would be nothing to take over.
  const asks = isFailed && (await hasHeld(tx, ended.id));
  const isReplaced = asks && (await slotOf(tx, ended.agentId)).failedId === ended.id;
  const waits = (one: Binding): boolean => one.continuity === 'agent' || (isReplaced && one.lifecycle === 'held');
  await moveAll(
    ctx,
    tx,
    (at) => nextHeld(tx, { sessionId: ended.id }, at),
    (one) => (waits(one) ? { binding: { ...one, sessionId: null }, told: null } : releaseOf(one)),
  );
}

interface Move {
  readonly binding: Binding;
  /** The transition that is told; null: none. */
  readonly told: Omit<Transition, 'binding'> | null;
}

const releaseOf = (binding: Binding): Move => ({
  binding: { ...binding, state: 'released' },
  told: { kind: 'unbound', eventContext: binding.eventContext?.unbound ?? null, depth: 0 },
});

/** Writes bindings that were there as they have become, tells their transitions and asks for the routing of those. */
async function move(ctx: FlowContext, tx: RoutingTx, moves: readonly Move[]): Promise<void> {
  const now = ctx.runtime.now();
  await updateBindings(
    tx,
    moves.map((one) => one.binding),
    now,
  );
  await tell(ctx, tx, toldIn(moves), now);
}

const toldIn = (moves: readonly Move[]): Transition[] =>
  moves.flatMap(({ binding, told }) => (told === null ? [] : [{ ...told, binding }]));

async function tell(ctx: FlowContext, tx: RoutingTx, told: readonly Transition[], now: Date): Promise<void> {
  if (told.length === 0) return;
  await recordTransitions(ctx, tx, told, now);
  await enqueueRouting(tx, ctx.ingest, [tx.projectId]);
}

/**
 * Puts a successor in a session's place (docs/reference/sessions.md#slot, docs/reference/routing.md#bindings). One that is
 * live is ended; the successor gets its bindings with `lifecycle: held` or `continuity: agent`, its agent's claims that wait
 * for a holder, its checks, and what had not reached it, or failed with it; its other bindings are released. Throws Fault
 * `not_found`.
 */
export async function takeOver(
  ctx: FlowContext,
  tx: RoutingTx,
  sessionId: string,
  successor: NewSession,
  reason: string,
): Promise<void> {
  const now = ctx.runtime.now();
  const before = await lockSession(tx, sessionId);
  if (before === undefined) throw noSession();
  const unheard = await unheardMessages(tx, sessionId, before.live);
  const { messageMaxBytes: bytesMax } = sessionSettings(ctx.config.file);
  await endSessionRow(tx, sessionId, { state: 'replaced', reason, now });
  await createSessions(ctx, tx, [successor]);
  const passed = unheard.map((message) => ({ ...message, sessionId: successor.id, bytesMax }));
  await passMessages(tx, passed, now);
  await passChecks(tx, [{ sessionId: successor.id, before: sessionId }]);
  await moveAll(
    ctx,
    tx,
    (at) => nextHeld(tx, { sessionId, agentId: before.agentId }, at),
    (binding) => {
      const stays = binding.lifecycle === 'held' || binding.continuity === 'agent';
      return stays ? passTo(binding, successor.id) : releaseOf(binding);
    },
  );
  if (!before.live) return;
  await insertNotices(tx, [{ sessionId, text: `The session is replaced by ${successor.id}: ${reason}` }], now);
}

const passTo = (binding: Binding, sessionId: string, depth = 0): Move => ({
  binding: { ...binding, sessionId },
  told: { kind: 'updated', eventContext: binding.eventContext?.updated ?? null, depth },
});

interface BindRequest {
  readonly sessionId: string;
  readonly target: Binding['target'];
  /** As the agent's policy for the target and the call together say. */
  readonly lifecycle: Binding['lifecycle'];
  readonly continuity: Binding['continuity'];
  readonly context: Binding['context'];
  readonly eventContext: Binding['eventContext'];
}

/**
 * Binds a live session to a target. Its own binding there is updated, told only where something changed; its agent's
 * claim that waits for a holder passes to it. Throws Fault as `requireLive`, and `conflict` where another live session
 * of its agent holds the target.
 */
export async function bindSession(ctx: FlowContext, tx: RoutingTx, request: BindRequest): Promise<Binding> {
  const now = ctx.runtime.now();
  const session = await requireLive(tx, request.sessionId);
  const [standing] = await findBindings(tx, { agentId: session.agentId, target: request.target });
  const { sessionId, target, lifecycle, continuity, context, eventContext } = request;
  const wanted = { sessionId, lifecycle, continuity, context, eventContext };
  if (standing === undefined) {
    const id = timeOrderedId(ctx.runtime);
    const made: Binding = { id, agentId: session.agentId, agent: session.agent, target, state: 'active', ...wanted };
    await insertBindings(tx, [made], now);
    await tell(ctx, tx, [{ kind: 'bound', binding: made, eventContext: eventContext?.bound ?? null, depth: 0 }], now);
    return made;
  }
  if (standing.sessionId !== null && standing.sessionId !== sessionId) {
    throw new Fault('conflict', 'target-bound', `Session ${standing.sessionId} of the same agent holds this target.`);
  }
  const moved: Binding = { ...standing, ...wanted };
  if (canonicalJson(asText(moved)) === canonicalJson(asText(standing))) return standing;
  await move(ctx, tx, [
    { binding: moved, told: { kind: 'updated', eventContext: eventContext?.updated ?? null, depth: 0 } },
  ]);
  return moved;
}

const asText = (binding: Binding): Json => binding as unknown as Json;

interface UnbindRequest {
  readonly by: { readonly id: string } | { readonly sessionId: string; readonly target: Binding['target'] };
  /** `session`: the holder itself, which a `held` binding refuses; `operator`: may release whatever is active. */
  readonly authority: 'session' | 'operator';
  /** Merged over the declared `unbound`. */
  readonly eventContext?: JsonObject | undefined;
}

/** Releases an active binding; undefined where there is none. Throws Fault `conflict` for a `held` one. */
export async function unbindSession(
  ctx: FlowContext,
  tx: RoutingTx,
  request: UnbindRequest,
): Promise<Binding | undefined> {
  const [standing] = await findBindings(tx, request.by);
  if (standing === undefined) return undefined;
  if (request.authority === 'session' && standing.lifecycle === 'held') {
    throw new Fault('conflict', 'binding-held', 'The binding is held: only the platform or an operator releases it.');
  }
  const over = request.eventContext;
  const declared = standing.eventContext?.unbound ?? null;
  const eventContext = over === undefined ? declared : { ...declared, ...over };
  const released: Binding = { ...standing, state: 'released' };
  await move(ctx, tx, [{ binding: released, told: { kind: 'unbound', eventContext, depth: 0 } }]);
  return released;
}
