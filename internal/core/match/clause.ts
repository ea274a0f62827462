// One clause: the table of docs/reference/where.md#clauses. A clause is compiled to its path's segments and one word for
// what it asks; evaluating it reads own properties of plain objects and nothing else, so arrays have no paths inside.

import type { Json, JsonScalar } from '../../domain/json.ts';
import type { Where, WhereClause } from '../../domain/spec.ts';
import { exactScalar, isExactNumber } from './number.ts';

interface ClauseBase {
  /** As authored. */
  readonly path: string;
  readonly source: WhereClause;
  readonly segments: readonly string[];
}
export type Clause = ClauseBase &
  (
    | { readonly asks: 'equal' | 'contains'; readonly operand: JsonScalar }
    | { readonly asks: 'exists'; readonly operand: boolean }
    | { readonly asks: 'in' | 'notIn'; readonly operand: ReadonlySet<JsonScalar> }
    | { readonly asks: 'changedTo'; readonly operand: JsonScalar; readonly previous: readonly string[] }
  );

/** The clauses of a trigger's `where`, which apply has validated. All of them have to match. */
export function compileWhere(where: Where): Clause[] {
  return Object.entries(where).map(([path, source]) => compileClause(path, source));
}

function compileClause(path: string, source: WhereClause): Clause {
  const segments = path.startsWith('$.') ? path.slice(2).split('.') : [path];
  const base = { path, source, segments };
  if (source === null || typeof source !== 'object') return { ...base, asks: 'equal', operand: source };
  if ('contains' in source) return { ...base, asks: 'contains', operand: source.contains };
  if ('exists' in source) return { ...base, asks: 'exists', operand: source.exists };
  if ('in' in source) return { ...base, asks: 'in', operand: new Set(source.in) };
  if ('notIn' in source) return { ...base, asks: 'notIn', operand: new Set(source.notIn) };
  // `a.b.c` was `a.b.previous.c`; a bare `c` was `previous.c`.
  const previous = segments.toSpliced(-1, 0, 'previous');
  return { ...base, asks: 'changedTo', operand: source.changedTo, previous };
}

/** The value at a path of own properties of objects; undefined through anything that is missing or no object. */
export function readPath(root: Json, segments: readonly string[]): Json | undefined {
  let value: Json | undefined = root;
  for (const segment of segments) {
    if (!isRecord(value) || !Object.hasOwn(value, segment)) return undefined;
    value = value[segment];
  }
  return value;
}

/** Whether a value has members that a path may name. */
export const isRecord = (value: Json | undefined): value is { readonly [key: string]: Json | undefined } =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value);

/**
 * The scalar that a payload's value compares as: itself, its digits for a number that no double holds, undefined for
 * an object, an array or nothing.
 */
export function comparable(value: Json | undefined): JsonScalar | undefined {
  return typeof value === 'object' && value !== null ? exactScalar(value) : value;
}

/** Whether one clause holds of a payload. What a path does not lead to is absent: `notIn` holds of it, and of the others only `exists: false`. */
export function evaluate(clause: Clause, payload: Json): boolean {
  const value = readPath(payload, clause.segments);
  switch (clause.asks) {
    case 'equal':
      return comparable(value) === clause.operand;
    case 'contains':
      return Array.isArray(value) && holds(value as readonly Json[], clause.operand);
    case 'exists':
      return (value !== undefined) === clause.operand;
    case 'in':
      return isIn(clause.operand, value);
    case 'notIn':
      return value === undefined || (comparable(value) !== undefined && !isIn(clause.operand, value));
    case 'changedTo':
      return comparable(value) === clause.operand && differs(readPath(payload, clause.previous), clause.operand);
  }
}

/** Of long lists, what each holds: many triggers may ask of one payload. */
const held = new WeakMap<object, ReadonlySet<JsonScalar>>();
const longListLength = 64;

function holds(list: readonly Json[], operand: JsonScalar): boolean {
  if (list.length < longListLength) return list.some((item) => comparable(item) === operand);
  let known = held.get(list);
  if (known === undefined) {
    known = new Set(list.map(comparable).filter((item) => item !== undefined));
    held.set(list, known);
  }
  return known.has(operand);
}

function isIn(operand: ReadonlySet<JsonScalar>, value: Json | undefined): boolean {
  const scalar = comparable(value);
  return scalar !== undefined && operand.has(scalar);
}

/** A previous value that exists and is another one; an object or array is never the scalar that stands there now. */
const differs = (previous: Json | undefined, now: JsonScalar): boolean =>
  previous !== undefined && comparable(previous) !== now;

/** Whether every clause holds; without clauses, true. */
export function matchesAll(clauses: readonly Clause[], payload: Json): boolean {
  for (const clause of clauses) if (!evaluate(clause, payload)) return false;
  return true;
}
