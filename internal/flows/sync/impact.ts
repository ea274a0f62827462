// What a planned change of triggers would have done to the events of the last seven days: which of them would newly match
// and which would stop. Bounded in events and in bytes, so that a plan answers in time whatever the project has taken in.

import { yieldToEventLoop } from '../../base/yielding.ts';
import { eventPayloads, type PastEvent, pastEvents } from '../../adapters/store/events/event-reads.ts';
import { activeTriggersOn } from '../../adapters/store/resources/triggers.ts';
import type { Sql } from '../../adapters/store/store.ts';
import {
  createImpactCounter,
  type ImpactCounter,
  type MatchTrigger,
  type TriggerImpact,
} from '../../core/match/match.ts';
import type { Current, Writes } from '../../core/plan/types.ts';
import { maskLine } from '../../domain/credential.ts';
import { type Diagnostic, excerptOf } from '../../domain/diagnostic.ts';
import { eventKeySpellings } from '../../domain/events.ts';
import { routedPayload } from '../ingest/ingest.ts';

const days = 7;
const dayMs = 86_400_000;
const eventsMax = 2_000;
/** Newest events of the project among which those of the keys are looked for. */
const amongMax = 50_000;
const bytesMax = 32 * 1_048_576;
const chunkBytes = 2 * 1_048_576;
/** A body beyond this is not read again for a forecast. */
const bodyMax = 1_048_576 + 65_536;

export interface EventImpact {
  /** Events are of this time or later; ISO. */
  readonly since: string;
  /** Events that were matched again: those of the keys whose triggers change. */
  readonly events: number;
  /** There were more than are matched again. */
  readonly truncated: boolean;
  /** Triggers that would have met some of them differently. */
  readonly triggers: readonly TriggerImpact[];
}

interface Planned {
  readonly projectId: string;
  readonly state: Pick<Current, 'agents' | 'triggers'>;
  readonly writes: Pick<Writes, 'triggers' | 'triggerDeletes' | 'agentDeletes'>;
  readonly now: Date;
}

/** Matches stored events against the triggers as they are and as they would be. Reads only. */
export async function impactOf(tx: Sql, planned: Planned): Promise<EventImpact> {
  const since = new Date(planned.now.getTime() - days * dayMs);
  const keys = changedKeys(planned);
  if (keys.length === 0) return { since: since.toISOString(), events: 0, truncated: false, triggers: [] };
  const { before, after } = await bothSides(tx, planned, keys);
  const past = await pastEvents(tx, planned.projectId, { keys, since, limit: eventsMax, among: amongMax });
  const counter = createImpactCounter(before, after);
  const taken = await takeAll(tx, planned.projectId, past.events, counter);
  const truncated = past.more || taken < past.events.length;
  return { since: since.toISOString(), events: taken, truncated, triggers: counter.result() };
}

/** The event keys, in all spellings, on which some trigger comes, goes or changes. Ticks have keys of their own. */
function changedKeys({ state, writes }: Planned): string[] {
  const deleted = new Set(writes.agentDeletes);
  const ids = new Map(state.agents.map((agent) => [agent.name, agent.id]));
  const written = new Set(writes.triggers.map((write) => `${ids.get(write.agent)} ${write.ordinal}`));
  for (const { agentId, ordinal } of writes.triggerDeletes) written.add(`${agentId} ${ordinal}`);
  const gone = state.triggers.filter((row) => deleted.has(row.agentId) || written.has(`${row.agentId} ${row.ordinal}`));
  const keys = [...writes.triggers.map((write) => write.event), ...gone.map((row) => row.event)];
  const spellings = keys.filter((key) => key !== null && !key.startsWith('heartbeat.')) as string[];
  return [...new Set(spellings.flatMap(eventKeySpellings))];
}

/** Every active trigger on the keys: as stored, and as it would be. */
async function bothSides(
  tx: Sql,
  { projectId, writes }: Planned,
  keys: readonly string[],
): Promise<{ readonly before: MatchTrigger[]; readonly after: MatchTrigger[] }> {
  const rows = await activeTriggersOn(tx, projectId, keys);
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
): Promise<number> {
  let taken = 0;
  let bytes = 0;
  for (let from = 0; from < events.length && bytes < bytesMax; ) {
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
    for (const { id, key, endpoint, connectionId } of chunk) {
      const stored = payloads.get(id);
      if (stored === undefined) continue;
      counter.take(id, { key, scope: endpoint ?? connectionId, payload: routedPayload(stored) });
      taken += 1;
    }
    await yieldToEventLoop();
  }
  return taken;
}

const excerptLength = 200;

/** Fills in `excerpt` where the tree has the file; a file of a template is not in the tree. One file is one slice. */
export async function withExcerpts(
  diagnostics: readonly Diagnostic[],
  fileBytes: (path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>,
): Promise<Diagnostic[]> {
  const files = new Map<string, readonly string[] | undefined>();
  const filled: Diagnostic[] = [];
  for (const item of diagnostics) {
    const { file, line, excerpt } = item;
    if (file === undefined || line === undefined || excerpt !== undefined) {
      filled.push(item);
      continue;
    }
    if (!files.has(file)) {
      files.set(file, linesOf(await fileBytes(file)));
      await yieldToEventLoop();
    }
    const text = files.get(file)?.[line - 1];
    const shown =
      text === undefined ? undefined : excerptOf([maskLine(text.slice(0, excerptLength).toWellFormed())], line, item);
    filled.push(shown === undefined ? item : { ...item, excerpt: shown });
  }
  return filled;
}

function linesOf(bytes: Uint8Array | undefined): readonly string[] | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes).split(/\r\n|\r|\n/);
}
