// The triggers of one event key and scope, found by an equality: path → value → triggers. Each trigger is posted under
// the one of its equalities (a scalar, an `in`, a `changedTo`) whose values fewest triggers ask for, and under each of
// that clause's values; one without an equality is in the rest, which is read whole. Reading decides, posting only finds.

import type { Json, JsonScalar } from '../../words/json.ts';
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
type Groups<T> = Map<string, Group<T>>;
interface Posted<T> {
  readonly segments: readonly string[];
  readonly byValue: Map<JsonScalar, Groups<T>>;
}
interface Found<T> {
  readonly trigger: T;
  readonly open: readonly Clause[];
  readonly text: string;
}

export interface Bucket<T> {
  /** Makes a trigger's equalities known without placing it, so that those placed after it choose well. */
  count(trigger: T, clauses: readonly Clause[]): Entry<T>;
  /** Places a counted trigger; what it returns takes it out again. */
  place(entry: Entry<T>): () => void;
  /** Adds every trigger whose clauses all match, each once, in no order. */
  find(payload: Json, into: T[]): void;
  isEmpty(): boolean;
}

export function createBucket<T>(): Bucket<T> {
  /** How many triggers ask for a value at a path. */
  const asked = new Map<string, Map<JsonScalar, number>>();
  const paths = new Map<string, Posted<T>>();
  const rest: Groups<T> = new Map();

  const weigh = ({ key, values }: Equality): number =>
    values.reduce<number>((sum, value) => sum + (asked.get(key)?.get(value) ?? 0), 0);

  function tally({ equalities }: Entry<T>, by: 1 | -1): void {
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
      tally(entry, 1);
      return entry;
    },
    place(entry) {
      const best = leastOf(entry.equalities, weigh);
      // A value found by equality is equal: only what a changedTo says of before is still to be read.
      const answered = best?.clause.asks === 'changedTo' ? undefined : best?.clause;
      const open = entry.clauses.filter((clause) => clause !== answered);
      const found: Found<T> = { trigger: entry.trigger, open, text: textOf(open) };
      if (best === undefined) join(rest, found);
      else post(paths, best, found);
      return () => {
        tally(entry, -1);
        if (best === undefined) leave(rest, found);
        else unpost(paths, best, found);
      };
    },
    find(payload, into) {
      for (const { segments, byValue } of paths.values()) {
        const value = comparable(readPath(payload, segments));
        const groups = value === undefined ? undefined : byValue.get(value);
        if (groups !== undefined) collect(groups, payload, into);
      }
      collect(rest, payload, into);
    },
    isEmpty: () => paths.size === 0 && rest.size === 0,
  };
}

function collect<T>(groups: Groups<T>, payload: Json, into: T[]): void {
  for (const { open, triggers } of groups.values()) {
    if (matchesAll(open, payload)) for (const trigger of triggers) into.push(trigger);
  }
}

/** Equal texts are equal clauses: the same paths ask the same, in the same order. */
const textOf = (clauses: readonly Clause[]): string =>
  clauses.length === 0 ? '' : JSON.stringify(clauses.map(({ path, source }) => [path, source]));

function join<T>(groups: Groups<T>, { trigger, open, text }: Found<T>): void {
  const group = groups.get(text);
  if (group === undefined) groups.set(text, { open, triggers: [trigger] });
  else group.triggers.push(trigger);
}

/** The order of a group does not matter: the last takes the place of the one that leaves. */
function leave<T>(groups: Groups<T>, { trigger, text }: Found<T>): void {
  const triggers = groups.get(text)?.triggers ?? [];
  const at = triggers.indexOf(trigger);
  const last = triggers.pop();
  if (last !== undefined && last !== trigger) triggers[at] = last;
  if (triggers.length === 0) groups.delete(text);
}

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

function post<T>(paths: Map<string, Posted<T>>, { key, segments, values }: Equality, found: Found<T>): void {
  const posted: Posted<T> = paths.get(key) ?? { segments, byValue: new Map() };
  paths.set(key, posted);
  for (const value of values) {
    const groups: Groups<T> = posted.byValue.get(value) ?? new Map();
    posted.byValue.set(value, groups);
    join(groups, found);
  }
}

function unpost<T>(paths: Map<string, Posted<T>>, { key, values }: Equality, found: Found<T>): void {
  const posted = paths.get(key);
  for (const value of values) {
    const groups: Groups<T> = posted?.byValue.get(value) ?? new Map();
    leave(groups, found);
    if (groups.size === 0) posted?.byValue.delete(value);
  }
  if (posted?.byValue.size === 0) paths.delete(key);
}
