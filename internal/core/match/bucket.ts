// The triggers of one event key and scope, found by an equality: path → value → triggers. Each trigger is posted under
// the one of its equalities (a scalar, an `in`, a `changedTo`) whose values fewest triggers ask for, and under each of
// that clause's values; one without an equality is in the rest, which is read whole. Reading decides, posting only finds.

import type { Json, JsonScalar } from '../../domain/json.ts';
import { type Clause, comparable, matchesAll, readPath } from './clause.ts';

interface Equality {
  readonly clause: Clause;
  /** The path as a key: segments may hold anything but a dot. */
  readonly key: string;
  readonly segments: readonly string[];
  readonly values: readonly JsonScalar[];
}
interface Entry<T> {
  readonly trigger: T;
  readonly clauses: readonly Clause[];
  readonly equalities: readonly Equality[];
}
/** Triggers that finding them has left the same clauses open: those are read once for all of them. */
interface Group<T> {
  readonly open: readonly Clause[];
  readonly triggers: T[];
}
/** By the text of the open clauses. */
class Groups<T> {
  readonly byText = new Map<string, Group<T>>();
}
/**
 * What is found at a value: most often one trigger that has nothing left open, which stands for itself. A hundred
 * thousand of them are kept, and each object more is one more for the garbage collector to visit.
 */
type Slot<T> = T | Groups<T>;
interface Posted<T> {
  readonly segments: readonly string[];
  readonly byValue: Map<JsonScalar, Slot<T>>;
}
interface Found<T> {
  readonly trigger: T;
  readonly open: readonly Clause[];
  readonly text: string;
}

export interface Bucket<T> {
  /** Makes a trigger's equalities known without placing it, so that those placed after it choose well. */
  count(trigger: T, clauses: readonly Clause[]): Entry<T>;
  /** Places a counted trigger. */
  place(entry: Entry<T>): void;
  /** Takes a placed trigger out again; its clauses as they were when it was counted. */
  remove(trigger: T, clauses: readonly Clause[]): void;
  /** Adds every trigger whose clauses all match, each once, in no order. */
  find(payload: Json, into: T[]): void;
  isEmpty(): boolean;
}

/** An empty bucket. Whoever places many triggers counts all of them first. */
export function createBucket<T extends object>(): Bucket<T> {
  /** How many triggers ask for a value at a path. */
  const asked = new Map<string, Map<JsonScalar, number>>();
  const paths = new Map<string, Posted<T>>();
  const rest = new Groups<T>();

  const weigh = ({ key, values }: Equality): number =>
    values.reduce<number>((sum, value) => sum + (asked.get(key)?.get(value) ?? 0), 0);

  function tally(equalities: readonly Equality[], by: 1 | -1): void {
    for (const { key, values } of equalities) {
      const counts = asked.get(key) ?? new Map<JsonScalar, number>();
      asked.set(key, counts);
      for (const value of values) {
        const count = (counts.get(value) ?? 0) + by;
        if (count > 0) counts.set(value, count);
        else counts.delete(value);
      }
      if (counts.size === 0) asked.delete(key);
    }
  }

  return {
    count(trigger, clauses) {
      const entry = { trigger, clauses, equalities: clauses.flatMap(equalityOf) };
      tally(entry.equalities, 1);
      return entry;
    },
    place({ trigger, clauses, equalities }) {
      const best = leastOf(equalities, weigh);
      const found = foundBy(trigger, clauses, best);
      if (best === undefined) join(rest, found);
      else post(paths, best, found);
    },
    remove(trigger, clauses) {
      const equalities = clauses.flatMap(equalityOf);
      tally(equalities, -1);
      // Which one it was placed by depended on the others that were there: it stands where it is found.
      const isAt = (equality: Equality): boolean => {
        const slot = paths.get(equality.key)?.byValue.get(equality.values[0] ?? null);
        return slot !== undefined && holds(slot, foundBy(trigger, clauses, equality));
      };
      const best = equalities.find(isAt);
      const found = foundBy(trigger, clauses, best);
      if (best === undefined) leave(rest, found);
      else unpost(paths, best, found);
    },
    find(payload, into) {
      for (const { segments, byValue } of paths.values()) {
        const value = comparable(readPath(payload, segments));
        const slot = value === undefined ? undefined : byValue.get(value);
        if (slot instanceof Groups) collect(slot, payload, into);
        else if (slot !== undefined) into.push(slot);
      }
      collect(rest, payload, into);
    },
    isEmpty: () => paths.size === 0 && rest.byText.size === 0,
  };
}

/** A trigger as it stands where `equality` finds it; without one it is read with all that it asks. */
function foundBy<T>(trigger: T, clauses: readonly Clause[], equality: Equality | undefined): Found<T> {
  // A value found by equality is equal: only what a changedTo says of before is still to be read.
  const answered = equality?.clause.asks === 'changedTo' ? undefined : equality?.clause;
  const open = clauses.filter((clause) => clause !== answered);
  return { trigger, open, text: textOf(open) };
}

function collect<T>({ byText }: Groups<T>, payload: Json, into: T[]): void {
  for (const { open, triggers } of byText.values()) {
    if (matchesAll(open, payload)) for (const trigger of triggers) into.push(trigger);
  }
}

/** Equal texts are equal clauses: the same paths ask the same, in the same order. */
const textOf = (clauses: readonly Clause[]): string =>
  clauses.length === 0 ? '' : JSON.stringify(clauses.map(({ path, source }) => [path, source]));

function join<T>({ byText }: Groups<T>, { trigger, open, text }: Found<T>): void {
  const group = byText.get(text);
  if (group === undefined) byText.set(text, { open, triggers: [trigger] });
  else group.triggers.push(trigger);
}

/** The order of a group does not matter: the last takes the place of the one that leaves. */
function leave<T>({ byText }: Groups<T>, { trigger, text }: Found<T>): void {
  const triggers = byText.get(text)?.triggers ?? [];
  const at = triggers.indexOf(trigger);
  if (at < 0) return;
  const last = triggers.pop();
  if (last !== undefined && last !== trigger) triggers[at] = last;
  if (triggers.length === 0) byText.delete(text);
}

const holds = <T extends object>(slot: Slot<T>, { trigger, text }: Found<T>): boolean =>
  slot instanceof Groups ? slot.byText.get(text)?.triggers.includes(trigger) === true : slot === trigger;

function equalityOf(clause: Clause): Equality[] {
  const { segments } = clause;
  const key = segments.join('.');
  if (clause.asks === 'equal' || clause.asks === 'changedTo')
    return [{ clause, key, segments, values: [clause.operand] }];
  return clause.asks === 'in' ? [{ clause, key, segments, values: [...clause.operand] }] : [];
}

function leastOf(equalities: readonly Equality[], weigh: (equality: Equality) => number): Equality | undefined {
  let best: Equality | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const equality of equalities) {
    const weight = equalities.length === 1 ? 0 : weigh(equality);
    if (weight < least) [best, least] = [equality, weight];
  }
  return best;
}

function post<T extends object>(paths: Map<string, Posted<T>>, equality: Equality, found: Found<T>): void {
  const { key, segments, values } = equality;
  const posted: Posted<T> = paths.get(key) ?? { segments, byValue: new Map() };
  paths.set(key, posted);
  for (const value of values) {
    const slot = posted.byValue.get(value);
    if (slot === undefined && found.open.length === 0) posted.byValue.set(value, found.trigger);
    else join(groupsAt(posted, value), found);
  }
}

/** The groups at a value, made of the one that stands there alone. */
function groupsAt<T extends object>({ byValue }: Posted<T>, value: JsonScalar): Groups<T> {
  const slot = byValue.get(value);
  if (slot instanceof Groups) return slot;
  const groups = new Groups<T>();
  if (slot !== undefined) join(groups, { trigger: slot, open: [], text: '' });
  byValue.set(value, groups);
  return groups;
}

function unpost<T extends object>(paths: Map<string, Posted<T>>, { key, values }: Equality, found: Found<T>): void {
  const posted = paths.get(key);
  for (const value of values) {
    const slot = posted?.byValue.get(value);
    if (slot instanceof Groups) leave(slot, found);
    if (slot === found.trigger || (slot instanceof Groups && slot.byText.size === 0)) posted?.byValue.delete(value);
  }
  if (posted?.byValue.size === 0) paths.delete(key);
}
