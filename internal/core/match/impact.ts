// Which events of the past would meet other triggers than they did: those that a change of triggers lets match newly, and
// those that it stops. A trigger that only moved within its agent is the same trigger, and no change.

import { canonicalJson, type Json } from '../../domain/json.ts';
import type { Where } from '../../domain/spec.ts';

interface Trigger {
  readonly agent: string;
  readonly ordinal: number;
  readonly event: string;
  readonly scope: string | null;
  readonly where: Where;
  readonly fallback: boolean;
}
/** The triggers of one side that an event fires. */
type Firing<E> = (event: E) => readonly Trigger[];

export interface TriggerImpact {
  readonly agent: string;
  /** As it will be; of a trigger that goes, as it was. */
  readonly ordinal: number;
  readonly event: string;
  /** Events that fire it after the change and did not before. */
  readonly newly: ImpactCount;
  /** Events that fired it before and will not. */
  readonly stopped: ImpactCount;
}
export interface ImpactCount {
  readonly count: number;
  /** A few of them, in the order in which they were taken. */
  readonly eventIds: readonly string[];
}

/** Ids that an impact names of each kind. */
const namedMax = 3;

interface Tally {
  readonly trigger: Trigger;
  readonly newly: { count: number; eventIds: string[] };
  readonly stopped: { count: number; eventIds: string[] };
}

export interface ImpactCounter<E> {
  /** Takes one event into account. */
  take(id: string, event: E): void;
  /** The triggers that some event would meet differently, by agent and ordinal. */
  result(): TriggerImpact[];
}

interface Side<E> {
  /** All active triggers of the keys in question. */
  readonly triggers: readonly Trigger[];
  readonly fire: Firing<E>;
}

/** Counts what a change of triggers does to events; `order` is that of what it answers. */
export function countImpact<E>(
  before: Side<E>,
  after: Side<E>,
  order: (a: Trigger, b: Trigger) => number,
): ImpactCounter<E> {
  const names = pairUp(before.triggers, after.triggers);
  const tallies = new Map<string, Tally>();
  const nameOf = (trigger: Trigger): string => names.get(trigger) ?? '';
  const count = (kind: 'newly' | 'stopped', trigger: Trigger, id: string): void => {
    const name = nameOf(trigger);
    const tally = tallies.get(name) ?? { trigger, newly: empty(), stopped: empty() };
    tallies.set(name, kind === 'newly' ? { ...tally, trigger } : tally);
    tally[kind].count += 1;
    if (tally[kind].eventIds.length < namedMax) tally[kind].eventIds.push(id);
  };
  return {
    take(id, event) {
      const fired = before.fire(event);
      const fires = after.fire(event);
      const firedNames = new Set(fired.map(nameOf));
      const fireNames = new Set(fires.map(nameOf));
      for (const trigger of fires) if (!firedNames.has(nameOf(trigger))) count('newly', trigger, id);
      for (const trigger of fired) if (!fireNames.has(nameOf(trigger))) count('stopped', trigger, id);
    },
    result: () =>
      [...tallies.values()]
        .sort((a, b) => order(a.trigger, b.trigger))
        .map(({ trigger: { agent, ordinal, event }, newly, stopped }) => ({ agent, ordinal, event, newly, stopped })),
  };
}

const empty = (): { count: number; eventIds: string[] } => ({ count: 0, eventIds: [] });

/**
 * A name for each trigger that it has before and after: first those of an agent that say the same are paired, whatever
 * their ordinals, then the rest by ordinal.
 */
function pairUp(before: readonly Trigger[], after: readonly Trigger[]): ReadonlyMap<Trigger, string> {
  const names = new Map<Trigger, string>();
  const same = new Map<string, Trigger[]>();
  for (const trigger of before) {
    const content = contentOf(trigger);
    same.set(content, [...(same.get(content) ?? []), trigger]);
  }
  const rest: Trigger[] = [];
  for (const trigger of after) {
    const twins = same.get(contentOf(trigger)) ?? [];
    // Of several alike the one that stayed where it was, if there is one.
    const at = Math.max(
      0,
      twins.findIndex((one) => one.ordinal === trigger.ordinal),
    );
    const [twin] = twins.splice(at, 1);
    if (twin === undefined) {
      rest.push(trigger);
      continue;
    }
    const name = `same ${twin.agent} ${twin.ordinal}`;
    names.set(twin, name);
    names.set(trigger, name);
  }
  for (const trigger of [...rest, ...before.filter((one) => !names.has(one))]) {
    names.set(trigger, `at ${trigger.agent} ${trigger.ordinal}`);
  }
  return names;
}

const contentOf = ({ agent, event, scope, where, fallback }: Trigger): string =>
  canonicalJson([agent, event, scope, where as Json, fallback]);
