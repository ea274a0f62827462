// What a change of triggers would have done to the events of the last seven days: which of them would newly match and which
// would stop. Bounded in events and in bytes, so that a plan answers in time whatever the project has taken in. Of an apply
// the triggers of both sides are read in its transaction, and events only after its commit, outside of every lock.

import type { Logger } from 'pino';
import { mapInSlices, yieldToEventLoop } from '../../base/concurrency.ts';
import { eventPayloads, type PastEvent, pastEvents } from '../../adapters/store/events/event-reads.ts';
import { noteImpact } from '../../adapters/store/console/consequences.ts';
import { activeTriggersOn } from '../../adapters/store/resources/triggers.ts';
import type { Database, Sql } from '../../adapters/store/store.ts';
import {
  createImpactCounter,
  type ImpactCounter,
  type MatchTrigger,
  type TriggerImpact,
} from '../../core/match/match.ts';
import type { Current, Writes } from '../../core/plan/types.ts';
import { eventKeySpellings } from '../../domain/events.ts';
import { routedPayload } from '../ingest/ingest.ts';
import type { ImpactSides } from '../ports.ts';

const days = 7;
const dayMs = 86_400_000;
const eventsMax = 2_000;
/** Newest events of the project among which those of the keys are looked for. */
const amongMax = 50_000;
const bytesMax = 32 * 1_048_576;
const chunkBytes = 2 * 1_048_576;
/** A body beyond this is not read again for a forecast. */
const bodyMax = 1_048_576 + 65_536;
/** Changed triggers of an apply, and active ones on their keys, beyond which none of its events is matched again. */
const appliedMax = { changed: 200, active: 500 } as const;
/** Applies whose events wait to be matched again in this process. */
const waitingMax = 50;

export interface EventImpact {
  /** Events are of this time or later; ISO. */
  readonly since: string;
  /** Events that were matched again: those of the keys whose triggers change. */
  readonly events: number;
  /** There were more than are matched again. */
  readonly truncated: boolean;
  /** Triggers that would have met some of them differently. */
  readonly triggers: readonly TriggerImpact[];
  /** Why no event was matched again: an apply changed too much at once. */
  readonly reason?: string;
}

interface Planned {
  readonly projectId: string;
  readonly state: Pick<Current, 'agents' | 'triggers'>;
  readonly writes: Pick<Writes, 'triggers' | 'triggerDeletes' | 'agentDeletes'>;
  readonly now: Date;
}

const sinceOf = (now: Date): Date => new Date(now.getTime() - days * dayMs);

/** Matches stored events against the triggers as they are and as they would be. Reads only. */
export async function impactOf(tx: Sql, planned: Planned): Promise<EventImpact> {
  const { projectId, now } = planned;
  const { keys } = changedTriggers(planned);
  if (keys.length === 0) return { since: sinceOf(now).toISOString(), events: 0, truncated: false, triggers: [] };
  const rows = await activeTriggersOn(tx, projectId, keys);
  return matchAgain(tx, { projectId, keys, now, ...bothSides(planned, rows) });
}

/**
 * What is to be matched again after an apply, read before it writes; an impact that says why nothing is, where too much
 * changes at once; undefined where no trigger changes that events can meet. At most one statement.
 */
export async function sidesOf(tx: Sql, planned: Planned): Promise<ImpactSides | EventImpact | undefined> {
  const { projectId, now } = planned;
  const { keys, count } = changedTriggers(planned);
  if (keys.length === 0) return undefined;
  const none = (reason: string): EventImpact => ({
    ...{ since: sinceOf(now).toISOString(), events: 0, truncated: true, triggers: [], reason },
  });
  if (count > appliedMax.changed) return none(`${count} triggers change at once`);
  const rows = await activeTriggersOn(tx, projectId, keys, appliedMax.active + 1);
  if (rows.length > appliedMax.active) return none(`more than ${appliedMax.active} triggers are on the same keys`);
  return { projectId, keys, now, ...bothSides(planned, rows) };
}

/** Matches stored events against both sides. Reads only; what `signal` aborts throws its reason. */
async function matchAgain(sql: Sql, sides: ImpactSides, signal?: AbortSignal): Promise<EventImpact> {
  const { projectId, keys, now } = sides;
  const since = sinceOf(now);
  const past = await pastEvents(sql, projectId, { keys, since, limit: eventsMax, among: amongMax });
  const counter = createImpactCounter(sides.before, sides.after);
  const taken = await takeAll(sql, projectId, past.events, counter, signal);
  const truncated = past.more || taken < past.events.length;
  return { since: since.toISOString(), events: taken, truncated, triggers: counter.result() };
}

/**
 * Matches events again for runs that have applied, one run after the other, and notes it in the run. Nothing waits for it:
 * a run has no impact until it has one. What a process does not come to, because it ends, breaks or has too many
 * waiting, stays without, and nothing says that it is still to come.
 */
export function startAppliedImpacts(db: Database, log: Logger) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const waiting: (readonly [run: string, sides: ImpactSides])[] = [];
  let turn: Promise<void> | undefined;
  const take = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined && !signal.aborted; next = waiting.shift()) {
      const [run, sides] = next;
      try {
        await noteImpact(db, run, await matchAgain(db, sides, signal));
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error, reconcile: run }, 'apply.impact_failed');
      }
    }
    turn = undefined;
  };
  return {
    /** Call it when the run's transaction has committed. */
    offer(run: string, sides: ImpactSides): void {
      if (signal.aborted || waiting.length >= waitingMax) return;
      waiting.push([run, sides]);
      turn ??= take();
    },
    async stop(): Promise<void> {
      stopping.abort();
      await turn;
    },
  };
}

/** The event keys, in all spellings, on which some trigger comes, goes or changes, and how many do. Ticks have keys of their own. */
function changedTriggers({ state, writes }: Planned): { readonly keys: readonly string[]; readonly count: number } {
  const deleted = new Set(writes.agentDeletes);
  const ids = new Map(state.agents.map((agent) => [agent.name, agent.id]));
  const written = new Set(writes.triggers.map((write) => `${ids.get(write.agent)} ${write.ordinal}`));
  const fresh = writes.triggers.length;
  for (const { agentId, ordinal } of writes.triggerDeletes) written.add(`${agentId} ${ordinal}`);
  const gone = state.triggers.filter((row) => deleted.has(row.agentId) || written.has(`${row.agentId} ${row.ordinal}`));
  const keys = [...writes.triggers.map((write) => write.event), ...gone.map((row) => row.event)];
  const spellings = keys.filter((key) => key !== null && !key.startsWith('heartbeat.')) as string[];
  return { keys: [...new Set(spellings.flatMap(eventKeySpellings))], count: Math.max(fresh, gone.length) };
}

/** Every active trigger on the keys: as stored, and as it would be. */
function bothSides({ writes }: Planned, rows: readonly StoredTrigger[]): Pick<ImpactSides, 'before' | 'after'> {
  const deleted = new Set(writes.agentDeletes);
  const replaced = new Set(writes.triggers.map((write) => `${write.agent} ${write.ordinal}`));
  const dropped = new Set(writes.triggerDeletes.map(({ agentId, ordinal }) => `${agentId} ${ordinal}`));
  const before = rows.map((row) => ({ row, trigger: storedTrigger(row) }));
  const stays = before.filter(
    ({ row }) =>
      !deleted.has(row.agentId) &&
      !replaced.has(`${row.agent} ${row.ordinal}`) &&
      !dropped.has(`${row.agentId} ${row.ordinal}`),
  );
  const comes = writes.triggers.flatMap((write): MatchTrigger[] => {
    if (write.event === null || write.status !== 'active') return [];
    const { agent, ordinal, event, endpoint, connectionId, spec } = write;
    return [{ agent, ordinal, event, scope: endpoint ?? connectionId, where: spec.where, fallback: spec.fallback }];
  });
  return {
    before: before.map((one) => one.trigger),
    after: [...stays.map((one) => one.trigger), ...comes],
  };
}

type StoredTrigger = Awaited<ReturnType<typeof activeTriggersOn>>[number];
const storedTrigger = ({ agent, ordinal, event, endpoint, connectionId, spec }: StoredTrigger): MatchTrigger => ({
  agent,
  ordinal,
  event,
  scope: endpoint ?? connectionId,
  where: spec.where,
  fallback: spec.fallback,
});

/** Takes events until the bytes are used up, a few at a time; answers how many were taken. */
async function takeAll(
  tx: Sql,
  projectId: string,
  events: readonly PastEvent[],
  counter: ImpactCounter,
  signal?: AbortSignal,
): Promise<number> {
  let taken = 0;
  let bytes = 0;
  for (let from = 0; from < events.length && bytes < bytesMax; ) {
    signal?.throwIfAborted();
    const chunk: PastEvent[] = [];
    for (let size = 0; from < events.length && (chunk.length === 0 || size < chunkBytes); from += 1) {
      const event = events[from] as PastEvent;
      size += event.size;
      bytes += event.size;
      if (event.size <= bodyMax) chunk.push(event);
    }
    const payloads = await eventPayloads(
      tx,
      projectId,
      chunk.map((event) => event.id),
    );
    await mapInSlices(chunk, ({ id, key, endpoint, connectionId }) => {
      const stored = payloads.get(id);
      if (stored === undefined) return;
      counter.take(id, { key, scope: endpoint ?? connectionId, payload: routedPayload(stored) });
      taken += 1;
    });
    await yieldToEventLoop();
  }
  return taken;
}
