// One routing transaction of a project: the oldest events that wait, all that they need read set-wise, decided in memory
// one after the other, written set-wise. Either all of it happens or nothing.

import { wholePayload } from '../../adapters/store/events/events.ts';
import {
  type EventBody,
  type PendingEvent,
  readBodies,
  type RoutingStart,
} from '../../adapters/store/routing/routing.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { sessionSettings } from '../../base/config/session-settings.ts';
import { mapInSlices, yieldToEventLoop } from '../../base/concurrency.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { Json } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { aloneAtEnds } from '../in-hand.ts';
import { largePayload, routedPayload } from '../ingest/ingest.ts';
import { type BatchEvent, decideEvent, type RoutingContext, matchIn, rematch, observedIn, targetIn } from './decide.ts';
import { mayHoldMarker, sessionsMarked } from './markers.ts';
import { emptyPlan, isFull, writePlan, writeTexts } from './plan.ts';
import type { ProjectTriggers, TriggerCache } from './triggers.ts';
import { unheardOf, unheardReason } from './unheard.ts';
import { isLoaded, load, openRoutingState } from './routing-state.ts';
import { noteSpan } from '../../base/trace/trace.ts';

/** Bytes of bodies that a batch holds in memory. */
const bodyBytesMax = 8 * 1_048_576;
/** Messages and sessions that a batch writes, but for those of its last event: one event may go to every live session. */
const plannedMax = 5_000;

export interface Routed {
  readonly eventId: string;
  readonly receivedMs: number;
  readonly status: 'routed' | 'unmatched' | 'failed';
}
/** Its part of the event's trace: from the receipt to the commit. */
export const noteRouting = ({ eventId, receivedMs, status }: Routed, endMs: number): void =>
  noteSpan({
    eventId,
    name: 'routing',
    startMs: receivedMs,
    endMs,
    attributes: { 'svc.router.status': status },
    failed: status === 'failed',
  });

export interface BatchResult {
  readonly routed: readonly Routed[];
  /** Whether more waits: beyond the limit, or made by this batch. */
  readonly more: boolean;
  /** Nothing was routed: the event at this place of the batch has ended the process, or may have, so often in a row. */
  readonly suspect?: { readonly id: string; readonly at: number; readonly ends: number };
}

export interface BatchOptions {
  readonly limit: number;
  readonly cache: TriggerCache;
  readonly nextId: () => string;
  readonly now: Date;
  /** Whether nothing else is done in this daemon meanwhile. */
  readonly alone: boolean;
  /** Has the commit go with what is written in this breath (Tx.last). */
  readonly last: () => void;
  /** Notes the events as being in hand; those that were when a process ended, with how often in a row. */
  readonly take: (ids: readonly string[]) => Promise<ReadonlyMap<string, number>>;
  /** Hears which events the batch is made of, before anything can go wrong with them. */
  readonly seen: (ids: readonly string[]) => void;
}

/**
 * Routes the waiting events of a project that a transaction begins with, up to `limit`; undefined where another daemon has
 * it. Throws what went wrong, then nothing was written.
 */
export async function routeBatch(
  ctx: FlowContext,
  begun: RoutingStart | undefined,
  options: BatchOptions,
): Promise<BatchResult | undefined> {
  const { limit, cache, nextId, now, seen } = options;
  if (begun === undefined) return undefined;
  const { tx, generation, upTo, waiting } = begun;
  if (waiting.length === 0) return { routed: [], more: false };
  const ids = waiting.map((event) => event.id);
  seen(ids);
  failpoint('route.begun');
  const ends = await options.take(ids);
  const at = options.alone ? -1 : ids.findIndex((id) => (ends.get(id) ?? 0) >= aloneAtEnds);
  const id = ids[at];
  if (id !== undefined) return { routed: [], more: true, suspect: { id, at, ends: ends.get(id) ?? 0 } };
  const triggers = await cache.get(tx, tx.projectId, generation);
  const { events, isCut } = await readEvents(ctx, tx, waiting, triggers);
  const unheard = await unheardOf(tx, events);
  const targets = events.flatMap((event) => [targetIn(event), observedIn(event)]).filter((one) => one !== null);
  const state = await openRoutingState(tx, targets);
  const plan = emptyPlan();
  const { messageMaxBytes } = sessionSettings(ctx.config.file);
  const context: RoutingContext = { projectId: tx.projectId, triggers, state, plan, nextId, messageMaxBytes };
  const first = events.map((event) => matchIn(context, event));
  await load(state, tx, new Set(first.flatMap((matched) => matched.triggers)));
  let count = 0;
  for (const [at, event] of events.entries()) {
    if (plan.written + plan.messages.length + plan.spawned.length >= plannedMax) break;
    count += 1;
    if (event.payload === undefined && event.isWanted) {
      const reason = event.isDamaged ? 'its stored body cannot be read' : 'its body is not kept any more';
      plan.settled.push({ eventId: event.id, status: 'failed', severity: null, attributions: null, reason });
      continue;
    }
    if (unheard.has(event.id)) {
      const nothing = { severity: null, attributions: null } as const;
      plan.settled.push({ eventId: event.id, status: 'unmatched', ...nothing, reason: unheardReason });
      continue;
    }
    failpoint('route.event', event.key);
    const matched = rematch(context, event, first[at]);
    // Nothing is waited for that is known: a turn of the queue for every event adds up.
    if (!isLoaded(state, matched.triggers)) await load(state, tx, matched.triggers);
    const decided = decideEvent(context, event, matched);
    while (decided.next().done !== true || isFull(plan)) {
      await writeTexts(tx, plan, now);
      await yieldToEventLoop();
    }
  }
  const done = events.slice(0, count);
  const isAll = !isCut && waiting.length < limit && done.length === events.length;
  const [from, to] = [done[0]?.seq ?? 0, done.at(-1)?.seq ?? 0];
  await writePlan(ctx, tx, plan, { now, range: { from, to, routedTo: isAll ? upTo : to }, last: options.last });
  return {
    // One each, in their order.
    routed: done.map(({ id, receivedMs }, at) => ({
      eventId: id,
      receivedMs,
      status: plan.settled[at]?.status ?? 'failed',
    })),
    more: !isAll || plan.transitions.length + plan.inherited.size > 0,
  };
}

interface ReadEvent extends BatchEvent {
  /** Whether its body was asked for. */
  readonly isWanted: boolean;
  /** Whether what is stored of its body is damaged. */
  readonly isDamaged: boolean;
}

/**
 * Bodies only where a trigger listens, or where a text may hold a marker, and read only where intake has not just parsed
 * them here; as many as fit, the rest is another batch.
 */
async function readEvents(
  ctx: FlowContext,
  tx: RoutingTx,
  waiting: readonly PendingEvent[],
  triggers: ProjectTriggers,
): Promise<{ readonly events: readonly ReadEvent[]; readonly isCut: boolean }> {
  const listened = new Map<string, boolean>();
  for (const { key } of waiting) if (!listened.has(key)) listened.set(key, triggers.listens(key));
  const isWanted = (event: PendingEvent): boolean =>
    listened.get(event.key) === true || (event.connectionId !== null && event.targetKey !== null);
  const payloads = new Map<string, Json>();
  for (const { id } of waiting) {
    const body = ctx.ingest?.takeBody(id);
    if (body !== undefined) payloads.set(id, body);
  }
  const wanted = waiting.filter((event) => isWanted(event) && !payloads.has(event.id)).map((event) => event.id);
  const { bodies, reached, damaged } = await readBodies(tx, wanted, bodyBytesMax);
  const beyond = wanted[reached];
  const end = beyond === undefined ? waiting.length : waiting.findIndex((event) => event.id === beyond);
  const events = waiting.slice(0, end);
  // Eight megabytes of many small values would hold up everybody for as long as they are parsed.
  await mapInSlices(events, ({ id }) => {
    const body = bodies.get(id);
    if (body !== undefined) payloads.set(id, parsed(body));
  });
  const marked = await readMarked(tx, events, bodies, payloads);
  return {
    events: events.map((event) => ({
      ...event,
      isWanted: isWanted(event),
      isDamaged: damaged.has(event.id),
      payload: payloads.get(event.id),
      marked: marked.get(event.id) ?? none,
    })),
    isCut: end < waiting.length,
  };
}

const none: BatchEvent['marked'] = [];

/** Bytes of a body; of a larger one only what is asked for is read. */
const lazyFrom = 2 * 1_048_576;

/** The payload that triggers read, as it came; of a large body only the paths that are asked for are read. */
export function parsed({ raw, payload }: EventBody): Json {
  const isLarge = raw !== null && payload !== null && raw.length + payload.length > lazyFrom;
  if (isLarge) return largePayload({ raw, payload });
  return routedPayload({ payload: wholePayload(raw, payload), attributions: null });
}

/** The sessions that the service's own texts name, by event: of those that may hold a marker at all. */
async function readMarked(
  tx: RoutingTx,
  events: readonly PendingEvent[],
  bodies: ReadonlyMap<string, EventBody>,
  payloads: ReadonlyMap<string, Json>,
): Promise<ReadonlyMap<string, BatchEvent['marked']>> {
  const marking = events.filter(({ id, connectionId, targetKey }) => {
    const body = bodies.get(id);
    return connectionId !== null && targetKey !== null && body !== undefined && mayHoldMarker(body.payload);
  });
  return sessionsMarked(
    tx,
    marking.map(({ id, connectionId }) => ({ id, connectionId, payload: payloads.get(id) ?? null })),
  );
}
