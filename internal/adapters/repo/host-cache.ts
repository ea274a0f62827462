// Remembers what git servers support, for all sources of a process. Pure.

import type { HostCache, HostFacts } from './types.ts';

/** An empty cache, bounded to 10,000 servers; the oldest goes first. */
export function createHostCache(): HostCache {
  const facts = new Map<string, HostFacts>();
  return {
    get: (key) => facts.get(key),
    set: (key, value) => {
      // Bounded: a cache of hosts, not a log of them.
      if (facts.size >= 10_000 && !facts.has(key)) facts.delete(facts.keys().next().value as string);
      facts.set(key, value);
    },
    delete: (key) => {
      facts.delete(key);
    },
  };
}
