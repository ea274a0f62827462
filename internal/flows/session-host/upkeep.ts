// What sessions need while no process of theirs runs: lapsed leases are taken back, caps that have room again let
// sessions go on, inactive ones are archived, and slots with `replace: auto` get their successors. Any daemon may do any
// of it at any time: each change looks again under the project's routing lock.

import { isConnectionLoss, type Sql } from '../../adapters/store/store.ts';
import { blockedSessions, suspendLapsed, unblockSessions } from '../../adapters/store/sessions/hosts.ts';
import { dropHolds } from '../../adapters/store/sessions/holds.ts';
import { eventPayloads } from '../../adapters/store/events/event-reads.ts';
import { unlessBusy } from '../../adapters/store/routing/project-lock.ts';
import {
  inactiveSessions,
  isInactive,
  liveByState,
  type ReplaceableSlot,
  replaceableSlots,
  slotToFill,
  type SlotToFill,
} from '../../adapters/store/sessions/upkeep.ts';
import { lockSession } from '../../adapters/store/sessions/sessions.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { sessionStates, isLive, successorAfterMs } from '../../core/session/session.ts';
import type { Json } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { routedPayload } from '../ingest/ingest.ts';
import { logTurnFailed } from '../turn-failed.ts';
import { withSuccessorInHand } from './in-hand.ts';
import { modelOf } from './model.ts';
import { dropOldWork } from './snapshots.ts';
import { endSession, type NewSession, renderRefs, takeOver } from '../sessions/sessions.ts';

const perTurn = 200;
/** What a successor is told where the agent declares no `onReplace`. */
const successorSql =
  'You take the place of an earlier session of this agent, which was stopped. Look at what is open and go on with it.';

/**
 * One turn of upkeep, over all projects. What fails for one of them, or in one step, is told and passed over; a database that
 * is away fails the turn. `signal` ends it between two sessions: there may be thousands, and a daemon that stops has its own to
 * hand back.
 */
export async function upkeepTurn(ctx: FlowContext, signal?: AbortSignal): Promise<void> {
  // Where no session lives there is no lease, no cap and nothing to archive: an idle daemon asks for none of them.
  if ((await measure(ctx)) > 0) {
    await step(ctx, 'leases', () => suspend(ctx));
    await step(ctx, 'caps', () => unblock(ctx, signal));
    await step(ctx, 'inactive', () => archiveInactive(ctx, signal));
  }
  await step(ctx, 'kept work', () => dropOldWork(ctx));
  await step(ctx, 'holds', () => dropHolds(ctx.db));
  for (const slot of await replaceableSlots(ctx.db)) {
    if (signal?.aborted === true) return;
    if (!isDue(ctx, slot)) continue;
    const making = (): Promise<void> => withSuccessorInHand(ctx, slot, () => replace(ctx, slot), signal);
    await step(ctx, `slot of ${slot.agent}`, making, signal);
  }
}

async function step(ctx: FlowContext, name: string, act: () => Promise<unknown>, signal?: AbortSignal): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (signal?.aborted === true && error === signal.reason) return;
    if (isConnectionLoss(error)) throw error;
    logTurnFailed(ctx, 'session.upkeep_failed', error, { service: name });
  }
}

async function suspend(ctx: FlowContext): Promise<void> {
  const lapsed = await ctx.db.tx(suspendLapsed);
  if (lapsed.length > 0) ctx.runtime.log.warn({ sessions: lapsed }, 'session.lease_lapsed');
}

/** Sessions that live, after their gauge is set. */
async function measure(ctx: FlowContext): Promise<number> {
  const gauge = ctx.metrics.gauge('svc_sessions', 'Live sessions of the installation by state', ['state']);
  const live = await liveByState(ctx.db);
  for (const state of sessionStates.filter(isLive)) gauge.set({ state }, live.get(state) ?? 0);
  return [...live.values()].reduce((sum, count) => sum + count, 0);
}

/** Behind which blocked session each daemon goes on to look: all have their turn, however many stay blocked. */
const lookedAt = new WeakMap<object, string>();

async function unblock(ctx: FlowContext, signal?: AbortSignal): Promise<void> {
  const free: string[] = [];
  const blocked = await blockedSessions(ctx.db, lookedAt.get(ctx.metrics) ?? null, perTurn);
  for (const session of blocked) {
    if (signal?.aborted === true) break;
    await step(ctx, `caps of ${session.agent}`, async () => {
      const refused = await ctx.models?.check({
        spender: { ...session, agentName: session.agent },
        model: modelOf(ctx, session.spec),
        ...(session.spec.spendCaps !== undefined && { caps: session.spec.spendCaps }),
      });
      if (refused === null) free.push(session.sessionId);
    });
  }
  const last = blocked.at(-1);
  if (blocked.length === perTurn && last !== undefined) lookedAt.set(ctx.metrics, last.sessionId);
  else lookedAt.delete(ctx.metrics);
  await unblockSessions(ctx.db, free);
  if (free.length > 0) ctx.runtime.log.info({ sessions: free }, 'session.unblocked');
}

async function archiveInactive(ctx: FlowContext, signal?: AbortSignal): Promise<void> {
  const busy = new Set<string>();
  for (let before = -1; before < busy.size; ) {
    before = busy.size;
    const found = await inactiveSessions(ctx.db, ctx.runtime.now(), perTurn, [...busy]);
    for (const { sessionId, projectId, seconds } of found) {
      if (signal?.aborted === true) return;
      if (busy.has(projectId)) continue;
      let isArchived: boolean | undefined;
      await step(ctx, `inactive of project ${projectId}`, async () => {
        isArchived = await unlessBusy(ctx.db, projectId, async (tx) => {
          if (!(await isInactive(tx, sessionId, ctx.runtime.now()))) return false;
          return endSession(ctx, tx, sessionId, 'archived', `nothing happened for ${seconds} s`);
        });
      });
      if (isArchived === undefined) busy.add(projectId);
      else if (isArchived) ctx.runtime.log.info({ sessionId, reason: 'inactive' }, 'session.archived');
    }
    // A project that somebody holds, or that fails, may have all that were found: then those of the others are looked for.
    if (found.length < perTurn) return;
  }
}

const isDue = (ctx: FlowContext, { endedAt, failedInARow }: ReplaceableSlot): boolean =>
  endedAt === null || ctx.runtime.now().getTime() >= endedAt.getTime() + successorAfterMs(failedInARow);

async function replace(ctx: FlowContext, seen: ReplaceableSlot): Promise<void> {
  const made = await unlessBusy(ctx.db, seen.projectId, async (tx) => {
    // Before it is looked at again: its host may be beginning a turn.
    await lockSession(tx, seen.sessionId);
    const slot = await slotToFill(tx, seen.agentId);
    if (slot === undefined || slot.sessionId !== seen.sessionId) return undefined;
    const successor = successorOf(ctx, slot, await payloadOf(tx, slot));
    await takeOver(ctx, tx, slot.sessionId, successor, reasonOf(slot));
    return successor.id;
  });
  if (made === undefined) return;
  ctx.runtime.log.info({ sessionId: seen.sessionId, successor: made, why: seen.why }, 'session.replaced');
}

const reasonOf = ({ why, revision }: ReplaceableSlot): string =>
  ({
    stale: `the agent is at revision ${revision} now`,
    environment: 'the environment of the agent is another one now',
    failed: 'it failed',
  })[why];

/**
 * Of the event that the work began with; empty where there was none, it is not stored any more, or no mount asks for any of it:
 * what came in may be many megabytes, and this is done again and again.
 */
async function payloadOf(tx: Sql, { projectId, eventId, spec }: SlotToFill): Promise<Json> {
  if (eventId === null || !spec.mounts.some(({ ref }) => ref?.includes('{{') === true)) return {};
  const stored = (await eventPayloads(tx, projectId, [eventId])).get(eventId);
  return stored === undefined ? {} : routedPayload(stored);
}

/** `payload`: see `payloadOf`. */
function successorOf(ctx: FlowContext, slot: SlotToFill, payload: Json): NewSession {
  const { sessionId, agentId, agent, revision, spec, displayTitle, eventId, threads } = slot;
  return {
    id: timeOrderedId(ctx.runtime),
    agentId,
    agent,
    revision,
    origin: 'replacement',
    ...(eventId !== null && { eventId }),
    parentId: sessionId,
    displayTitle,
    hiddenContext: null,
    mountRefs: refsOf(slot, payload),
    slot: true,
    threads,
    start: { text: spec.onReplace ?? successorSql, sender: 'platform' },
  };
}

/** What the mounts of the latest spec are at, for the event that the work began with; where it is gone, as before. */
function refsOf({ spec, mountRefs, eventId }: SlotToFill, payload: Json): { readonly [mountPath: string]: string } {
  const refs = spec.mounts.flatMap((mount): [string, string][] => {
    const rendered = renderRefs([mount], { triggerEventId: eventId, payload });
    if (rendered.ok) return Object.entries(rendered.refs);
    const before = Object.hasOwn(mountRefs, mount.mountPath) ? mountRefs[mount.mountPath] : undefined;
    return before === undefined ? [] : [[mount.mountPath, before]];
  });
  return Object.fromEntries(refs);
}
