// A document's values with the place of each: what the YAML and JSON readers make, what merging works on, and
// what validation reports against. A node carries its own range, so a merged tree knows where every part came from.

import type { Range, TextPart } from '../../domain/diagnostic.ts';
import type { Json, JsonScalar } from '../../domain/json.ts';

export interface ScalarNode {
  readonly kind: 'scalar';
  readonly value: JsonScalar;
  /** A number that a double cannot hold, as it was written; `value` is the nearest that it holds. */
  readonly exact?: string;
  /** What made it other than writing it down: a text that was appended to, or one with a variable of the context in it. */
  readonly made?: 'append' | 'context';
  /** Of a text that was appended to: where each of its parts begins in it, and where that part was written. */
  readonly parts?: readonly TextPart[];
  readonly range: Range;
}
export interface SeqNode {
  readonly kind: 'seq';
  readonly items: readonly Node[];
  readonly range: Range;
}
export interface MapEntry {
  /** Where the key stands. */
  readonly keyRange: Range;
  readonly value: Node;
}
export interface MapNode {
  readonly kind: 'map';
  /** In written order. A Map, so that `__proto__` is a key like any other (docs/reference/compile.md#yaml). */
  readonly entries: ReadonlyMap<string, MapEntry>;
  readonly range: Range;
}
export type Node = ScalarNode | SeqNode | MapNode;

/** The value of a scalar; undefined of anything else. */
export const scalarOf = (node: Node): JsonScalar | undefined => (node.kind === 'scalar' ? node.value : undefined);

/** The plain value of a node. Maps become objects without a prototype, so that no key can reach one. */
export function toPlain(node: Node): Json {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'seq') return node.items.map(toPlain);
  const record: { [key: string]: Json } = Object.create(null);
  for (const [key, entry] of node.entries) record[key] = toPlain(entry.value);
  return record;
}

/** One step into a node: a key of a map or an index of a sequence. */
export type PathStep = string | number;

/** Prints a path as JSON paths are written here: `triggers[0].where["$.a.b"]`. */
export function printPath(path: readonly PathStep[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}
