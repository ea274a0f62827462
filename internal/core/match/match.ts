// Whether an event is one that a trigger waits for (docs/reference/where.md#clauses, docs/reference/routing.md#matching):
// clauses compiled once, read from the payload by own properties only, and an index from event key, scope and one equality to
// the few triggers that can match. The index answers what reading every trigger would, and is held to that. It never throws
// on any JSON, never reaches a prototype, and knows nothing of sessions: what a match leads to is decided by route. A number
// that a double cannot hold compares by its text (docs/reference/http-api.md#conventions): see number.ts.

import { canonicalEventKey } from '../../domain/events.ts';
import type { Json } from '../../domain/json.ts';
import type { Where, WhereClause } from '../../domain/spec.ts';
import { type Clause, compileWhere, evaluate, matchesAll, readPath } from './clause.ts';
import { createBucket, type Bucket } from './bucket.ts';
import { countImpact, type ImpactCounter as Counter, type TriggerImpact } from './impact.ts';
import { checkJson, membersOf, NotJson, readLazily, TooMany } from './lazy.ts';
import { exactText, isExactNumber, readPayload, readPrintable } from './number.ts';
import { createNearest } from './near.ts';
import { createQuoter } from './quote.ts';

export type { TriggerImpact };
export { compileWhere, exactText, isExactNumber, matchesAll, readPath, readPayload, readPrintable };
export { checkJson, membersOf, NotJson, readLazily, TooMany };
export type { Clause };

/** What matching needs of a stored trigger; callers keep what else they know beside it. */
export interface MatchTrigger {
  /** Name of the agent, unique within its project. */
  readonly agent: string;
  readonly ordinal: number;
  readonly event: string;
  /** Id or name of the webhook endpoint or the connection that the trigger listens through; null: it takes neither. */
  readonly scope: string | null;
  readonly where: Where;
  readonly fallback: boolean;
}

export interface MatchEvent {
  readonly key: string;
  /** Endpoint or connection that the event came through, in the triggers' own terms; null: none. */
  readonly scope: string | null;
  /** As `readPayload` gives it. */
  readonly payload: Json;
}

/** By agent name in code units, then ordinal: the order in which matches are returned and routed. */
export function byAgentAndOrdinal(a: MatchTrigger, b: MatchTrigger): number {
  if (a.agent !== b.agent) return a.agent < b.agent ? -1 : 1;
  return a.ordinal - b.ordinal;
}

/** Whether a trigger listens to an event at all: key (aliases included) and scope, whatever its `where` says. */
export function isOnKey(trigger: MatchTrigger, event: MatchEvent): boolean {
  if (canonicalEventKey(trigger.event) !== canonicalEventKey(event.key)) return false;
  return trigger.scope === null || trigger.scope === event.scope;
}

/**
 * The triggers that fire for an event, by reading each of them: those on its key and scope whose every clause matches;
 * fallbacks only where no other did. The index is the same function made fast.
 */
export function matchEach<T extends MatchTrigger>(triggers: Iterable<T>, event: MatchEvent): T[] {
  const found: T[] = [];
  for (const trigger of triggers) {
    if (isOnKey(trigger, event) && matchesAll(compileWhere(trigger.where), event.payload)) found.push(trigger);
  }
  return withoutIdleFallbacks(found).sort(byAgentAndOrdinal);
}

function withoutIdleFallbacks<T extends MatchTrigger>(found: readonly T[]): T[] {
  const firm = found.filter((trigger) => !trigger.fallback);
  return firm.length > 0 ? firm : [...found];
}

export interface ExplainedClause {
  readonly path: string;
  readonly clause: WhereClause;
  /** What stands at the path, or its first 4 KiB; undefined where nothing does. */
  readonly value: Json | undefined;
  /** Only there where the value is longer than what is quoted of it. */
  readonly truncated?: true;
  /** Of a clause that failed because nothing stands at its path: paths of what the payload has instead. */
  readonly instead?: readonly string[];
  readonly matched: boolean;
}
export interface Explained<T extends MatchTrigger> {
  readonly trigger: T;
  /** True where the trigger fires: every clause matched, and a fallback had no other to stand back for. */
  readonly matched: boolean;
  readonly clauses: readonly ExplainedClause[];
  /** Of a fallback whose clauses match: those that fire instead, the first ten. */
  readonly standsBackFor?: readonly T[];
}
/** Triggers that are told of one that stands back. */
const standsBackMax = 10;

/**
 * Every trigger on the event's key and scope, with what each of its clauses read (docs/reference/where.md#explanations). Where
 * nothing is said of the scope (undefined), as if the event came through each of those that triggers listen through.
 * Takes time linear in the triggers, and quotes at most 4 KiB of each value. `isLarge`: what no clause reads stays unread.
 */
export function explain<T extends MatchTrigger>(
  triggers: Iterable<T>,
  event: Omit<MatchEvent, 'scope'> & { readonly scope: string | null | undefined; readonly isLarge?: boolean },
): Explained<T>[] {
  const key = canonicalEventKey(event.key);
  const quote = createQuoter();
  const nearest = createNearest(event.payload, { isLarge: event.isLarge === true });
  const all = [...triggers]
    .filter((one) => event.scope === undefined || one.scope === null || one.scope === event.scope)
    .filter((one) => canonicalEventKey(one.event) === key)
    .sort(byAgentAndOrdinal)
    .map((trigger) => {
      const clauses = compileWhere(trigger.where).map((clause) => {
        const value = readPath(event.payload, clause.segments);
        const matched = evaluate(clause, event.payload);
        const instead = value !== undefined || matched ? [] : nearest(clause.segments);
        return {
          path: clause.path,
          clause: clause.source,
          ...quote(value),
          ...(instead.length > 0 && { instead }),
          matched,
        };
      });
      return { trigger, clauses, matched: clauses.every((clause) => clause.matched) };
    });
  // Triggers that are no fallback and fire; fallbacks of the same scope stand back for them.
  const firm = Map.groupBy(
    all.filter((one) => one.matched && !one.trigger.fallback).map(({ trigger }) => trigger),
    ({ scope }) => scope,
  );
  const before = ({ fallback, scope }: T): readonly T[] => {
    if (!fallback) return [];
    const own = scope ?? event.scope ?? null;
    return [...(firm.get(null) ?? []), ...(own === null ? [] : (firm.get(own) ?? []))];
  };
  return all.map((one) => {
    const instead = one.matched ? before(one.trigger) : [];
    if (instead.length === 0) return one;
    return { ...one, matched: false, standsBackFor: instead.slice(0, standsBackMax) };
  });
}

export interface TriggerIndex<T extends MatchTrigger> {
  /** Puts all of an agent's active triggers in, instead of those that it had. */
  setAgent(agent: string, triggers: readonly T[]): void;
  removeAgent(agent: string): void;
  /** The triggers that fire, in the order and of the content that `matchEach` gives. */
  match(event: MatchEvent): T[];
  readonly size: number;
}

/** What the triggers of one key and scope are kept in; fallbacks apart, for they are read only where no other matched. */
interface Shelf<T> {
  readonly firm: Bucket<T>;
  readonly fallback: Bucket<T>;
}

/**
 * An index over the active triggers of one project. An event costs its own key's equality paths, one lookup each, and
 * the reading of the candidates found there; triggers without an equality are read one by one.
 */
export function createTriggerIndex<T extends MatchTrigger>(triggers: Iterable<T> = []): TriggerIndex<T> {
  const shelves = new Map<string, Map<string | null, Shelf<T>>>();
  const agents = new Map<string, T[]>();
  let size = 0;

  const shelfOf = (trigger: T): Shelf<T> => {
    const key = canonicalEventKey(trigger.event);
    const scopes = getOrMake(shelves, key, () => new Map<string | null, Shelf<T>>());
    return getOrMake(scopes, trigger.scope, () => ({ firm: createBucket<T>(), fallback: createBucket<T>() }));
  };

  /** Keys come and go with agents (every heartbeat has one of its own): an empty shelf is not kept. */
  function clear({ event, scope }: T): void {
    const key = canonicalEventKey(event);
    const scopes = shelves.get(key);
    const shelf = scopes?.get(scope);
    if (shelf === undefined || !shelf.firm.isEmpty() || !shelf.fallback.isEmpty()) return;
    scopes?.delete(scope);
    if (scopes?.size === 0) shelves.delete(key);
  }

  const bucketOf = (trigger: T): Bucket<T> => {
    const shelf = shelfOf(trigger);
    return trigger.fallback ? shelf.fallback : shelf.firm;
  };

  /** Counts of all are taken before any is placed: what is selective shows only when all are known. */
  function add(all: Iterable<T>): void {
    const placings: (() => void)[] = [];
    for (const trigger of all) {
      const bucket = bucketOf(trigger);
      const entry = bucket.count(trigger, compileWhere(trigger.where));
      size += 1;
      getOrMake(agents, trigger.agent, () => []).push(trigger);
      placings.push(() => bucket.place(entry));
    }
    for (const place of placings) place();
  }

  function removeAgent(agent: string): void {
    const own = agents.get(agent) ?? [];
    for (const trigger of own) {
      bucketOf(trigger).remove(trigger, compileWhere(trigger.where));
      clear(trigger);
    }
    size -= own.length;
    agents.delete(agent);
  }

  add(triggers);
  return {
    setAgent(agent, own) {
      removeAgent(agent);
      add(own);
    },
    removeAgent,
    match(event) {
      const scopes = shelves.get(canonicalEventKey(event.key));
      if (scopes === undefined) return [];
      const open = shelvesFor(scopes, event.scope);
      const found: T[] = [];
      for (const shelf of open) shelf.firm.find(event.payload, found);
      if (found.length === 0) for (const shelf of open) shelf.fallback.find(event.payload, found);
      return found.length > 1 ? found.sort(byAgentAndOrdinal) : found;
    },
    get size() {
      return size;
    },
  };
}

function shelvesFor<T>(scopes: ReadonlyMap<string | null, Shelf<T>>, scope: MatchEvent['scope']): Shelf<T>[] {
  const open = [scopes.get(null), scope === null ? undefined : scopes.get(scope)];
  return open.filter((shelf) => shelf !== undefined);
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

export type ImpactCounter = Counter<MatchEvent>;

/** Counts over all active triggers of the keys in question, `before` and `after` a change. */
export function createImpactCounter(before: readonly MatchTrigger[], after: readonly MatchTrigger[]): ImpactCounter {
  const [was, will] = [createTriggerIndex(before), createTriggerIndex(after)];
  return countImpact<MatchEvent>(
    { triggers: before, fire: (event) => was.match(event) },
    { triggers: after, fire: (event) => will.match(event) },
    byAgentAndOrdinal,
  );
}
