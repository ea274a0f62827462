// What one compile may spend on joining files that are each within their own bounds: counted in values merged, substituted
// and checked, never in time, so that equal input is refused or taken alike on any machine and with any cache
// (docs/reference/compile.md#yaml).

import type { MapNode, Node } from '../source/node.ts';
import { documentWorkMax, treeWorkMax } from './limits.ts';

/** Work of one layer or document. The name tells it from others of the tree: what is shared is paid for once. */
export interface Cost {
  readonly name: string;
  readonly work: number;
}

/** Characters that weigh as much as one value. */
const charactersMax = 32;
/** What is checked, printed and hashed weighs as much as so many that are only merged: of its text, and of its values. */
const textWeight = 3;
/** A value is an object in memory, here and with the places of its parts: a million of them are 150 MB. */
const valueWeight = 16;
/** What an expanded trigger has of its own: fields with their defaults, and the places of its parts. */
const triggerWeight = 20 * valueWeight;

/** What the documents of one tree have spent. */
export class Budget {
  #left = treeWorkMax;
  readonly #paid = new Set<string>();

  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** Pays for a layer or a document; a second time costs nothing. */
  pay({ name, work }: Cost): void {
    if (this.#paid.has(name)) return;
    this.#paid.add(name);
    this.#left -= work;
  }
}

/** The work of merging one document. Owns what it makes, so that a long list of imports is not copied for each of them. */
export class Merging {
  work = 0;
  readonly #own = new WeakSet<object>();

  get isSpent(): boolean {
    return this.work > documentWorkMax;
  }

  text(characters: number): void {
    this.work += Math.ceil(characters / charactersMax);
  }

  /** A map that may be written to: the given one where this merging made it, else a copy. */
  ownMap<V>(map: ReadonlyMap<string, V>): Map<string, V> {
    if (this.#own.has(map)) return map as Map<string, V>;
    this.work += map.size;
    const copy = new Map(map);
    this.#own.add(copy);
    return copy;
  }

  /** A list that may be written to, as `ownMap`. */
  ownList<V>(list: readonly V[]): V[] {
    if (this.#own.has(list)) return list as V[];
    this.work += list.length;
    const copy = [...list];
    this.#own.add(copy);
    return copy;
  }
}

/** What a merged document costs to check: its values and its text. */
export function weightOf(node: Node): number {
  let characters = 0;
  let values = 0;
  const walk = (one: Node): void => {
    values += 1;
    if (one.kind === 'seq') for (const item of one.items) walk(item);
    else if (one.kind === 'map') {
      for (const [key, { value }] of one.entries) {
        characters += key.length;
        walk(value);
      }
    } else if (typeof one.value === 'string') characters += one.value.length;
  };
  walk(node);
  return valueWeight * values + textWeight * Math.ceil(characters / charactersMax);
}

/**
 * What the triggers of a merged document cost besides: each stands once for each of its events, with all that it says, and with
 * places of its own.
 */
export function triggersWeight(root: MapNode): number {
  const triggers = root.entries.get('triggers')?.value;
  let weight = 0;
  for (const item of triggers?.kind === 'seq' ? triggers.items : []) {
    const events = item.kind === 'map' ? item.entries.get('events')?.value : undefined;
    const list = events?.kind === 'seq' ? events : undefined;
    const count = list?.items.length ?? 1;
    weight += count * triggerWeight;
    if (list !== undefined && count > 1) weight += (count - 1) * (weightOf(item) - weightOf(list));
  }
  return weight;
}
