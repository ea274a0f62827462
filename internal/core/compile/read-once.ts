// Reading what many documents share.

import type { Node } from '../source/node.ts';
import type { Reader } from './read.ts';

/**
 * The same reader, which reads a node once: what many agents import is one node in each. For readers that look at nothing but
 * the node and never warn; what they find wrong is told each time.
 */
export function once<T>(read: Reader<T>): Reader<T> {
  const known = new WeakMap<Node, T>();
  return (check, spot) => {
    const found = known.get(spot.node);
    if (found !== undefined) return found;
    const before = check.errors;
    const value = read(check, spot);
    if (value !== undefined && check.errors === before) known.set(spot.node, value);
    return value;
  };
}
