// Reading what many documents share: what many agents import is one node in each, and read once.

import type { Node } from '../source/node.ts';
import type { Check } from './read.ts';

interface Known<T> {
  readonly world: readonly unknown[];
  readonly value: T;
}

/**
 * What has been read of nodes. For reading that looks at nothing but the node and its world, and never warns; what it finds
 * wrong is told each time.
 */
export class Once<T> {
  readonly #known = new WeakMap<Node, Known<T>>();

  /** `world`: whatever else the answer rests on. */
  read(check: Check, node: Node, world: readonly unknown[], read: () => T | undefined): T | undefined {
    const known = this.#known.get(node);
    if (known?.world.every((one, at) => one === world[at]) === true) return known.value;
    const before = check.errors;
    const value = read();
    if (value !== undefined && check.errors === before) this.#known.set(node, { world, value });
    return value;
  }
}
