// What a payload has instead, where a clause's path finds nothing (docs/reference/where.md#explanations): the names that are
// spelled nearly so where the path breaks off, the same name one level below or above, else what stands there at all. Names alone, never a
// value, and none that looks like a credential. Bounded: an explanation compares so many names and no more.

import { looksLikeCredential } from '../../domain/credential.ts';
import type { Json } from '../../domain/json.ts';
import { editDistance } from '../../domain/nearest.ts';
import { isRecord } from './clause.ts';

/** Names that are told of a clause; those that are alike, and those that merely stand there. */
const most = { alike: 3, any: 5 } as const;
/** Names of one object that are looked at, of what is below it, and in all of an explanation. */
const looked = { keys: 200, children: 20, all: 50_000 } as const;
const nameMax = 64;

/** How a path is written: a name of the first level stands bare. */
const pathOf = (steps: readonly string[]): string => (steps.length === 1 ? '' : '$.') + steps.join('.');
/** What a path can name, and a reader may see. */
const isNamed = (name: string): boolean =>
  name !== '' && name.length <= nameMax && !name.includes('.') && name.trim() === name && !looksLikeCredential(name);
const plain = (name: string): string => name.toLowerCase().replaceAll(/[_\s-]/g, '');

/** How near two names are, 0 the nearest; undefined: they have nothing to do with each other. */
function nearness(wanted: string, name: string): number | undefined {
  const [a, b] = [plain(wanted), plain(name)];
  if (a === b) return 0;
  const short = Math.min(a.length, b.length);
  if (short >= 2 && (a.startsWith(b) || b.startsWith(a))) return 1;
  if (short >= 3 && (a.includes(b) || b.includes(a))) return 2;
  const room = short >= 5 ? 2 : short >= 3 ? 1 : 0;
  return editDistance(a, b, room) <= room ? 3 : undefined;
}

export interface NearOptions {
  /** Reading what is below may take long: it is left alone. */
  readonly isLarge: boolean;
}

/** A function that tells what one payload has instead of a path that finds nothing; `[]` where there is nothing to tell. */
export function createNearest(
  payload: Json,
  { isLarge }: NearOptions,
): (segments: readonly string[]) => readonly string[] {
  const known = new Map<string, readonly string[]>();
  const names = new Map<object, readonly string[]>();
  let left = looked.all;
  const namesOf = (value: object): readonly string[] => {
    const found = names.get(value) ?? Object.keys(value).slice(0, looked.keys).filter(isNamed);
    names.set(value, found);
    left -= found.length;
    return found;
  };
  const find = (segments: readonly string[]): readonly string[] => {
    const { at, steps, levels } = deepest(payload, segments);
    const lastStep = steps.at(-1);
    // A list or a scalar has no names inside: what stands there is the path so far.
    if (!isRecord(at)) return lastStep !== undefined && isNamed(lastStep) ? [pathOf(steps)] : [];
    const missing = segments[steps.length] ?? '';
    const own = namesOf(at);
    const near = own
      .map((name) => ({ path: pathOf([...steps, name]), rank: nearness(missing, name) }))
      .filter((one): one is Near => one.rank !== undefined);
    const last = segments.at(-1) ?? '';
    const elsewhere = [...(isLarge ? [] : below(own, at, steps, last)), ...above(levels, steps, last)];
    const alike = [...near.sort((a, b) => a.rank - b.rank).map(({ path }) => path), ...elsewhere];
    if (alike.length > 0) return [...new Set(alike)].slice(0, most.alike);
    return own.slice(0, most.any).map((name) => pathOf([...steps, name]));
  };
  /** The same name one level below where the path breaks off. */
  const below = (own: readonly string[], at: Members, steps: readonly string[], last: string): string[] =>
    own.slice(0, looked.children).flatMap((name) => {
      const child = at[name];
      if (!isRecord(child)) return [];
      return namesOf(child)
        .filter((one) => plain(one) === plain(last))
        .map((one) => pathOf([...steps, name, one]));
    });
  /** The same name on the levels that the path comes by, the first included. */
  const above = (levels: readonly Members[], steps: readonly string[], last: string): string[] =>
    levels.flatMap((level, depth) =>
      namesOf(level)
        .filter((one) => plain(one) === plain(last))
        .map((one) => pathOf([...steps.slice(0, depth), one])),
    );
  return (segments) => {
    const key = JSON.stringify(segments);
    const found = known.get(key) ?? (left <= 0 ? [] : find(segments));
    known.set(key, found);
    return found;
  };
}

type Members = { readonly [key: string]: Json | undefined };
interface Near {
  readonly path: string;
  readonly rank: number;
}

interface Reached {
  readonly at: Json | undefined;
  readonly steps: string[];
  /** The object that each step was taken in. */
  readonly levels: Members[];
}

/** How far a path leads: what stands there, and the steps to it. */
function deepest(root: Json, segments: readonly string[]): Reached {
  let at: Json | undefined = root;
  const steps: string[] = [];
  const levels: Members[] = [];
  for (const segment of segments) {
    if (!isRecord(at) || !Object.hasOwn(at, segment)) break;
    levels.push(at);
    at = at[segment];
    steps.push(segment);
  }
  return { at, steps, levels };
}
