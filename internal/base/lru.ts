// What a process remembers of very many: the one that was asked for the longest ago goes first.

import { LRUCache } from 'lru-cache';

export { LRUCache };

/** A bounded map of at most so many entries. */
export const recentMap = <K extends {}, V extends {}>(max: number): LRUCache<K, V> => new LRUCache<K, V>({ max });
