// What one compile leaves for the next: parsed files by content, and whole agent files by everything that they read.
// Bounded by text and by number; the least recently used goes first. Only agents without an error are kept.

import type { Finding, Places } from '../../words/diagnostic.ts';
import type { Source } from '../source/source.ts';
import type { AgentDraft } from './check-agent.ts';
import type { CompileCache } from './types.ts';

/** Something that an agent file read: it is unchanged while the same question has the same answer. */
export interface Dependency {
  readonly kind: 'path' | 'template';
  /** A path of the tree, or a template specifier. */
  readonly name: string;
  readonly state: string;
}

/** One agent file, compiled. */
export interface AgentRecord {
  readonly dependencies: readonly Dependency[];
  readonly findings: readonly Finding[];
  readonly drafts: readonly AgentDraft[];
  /** Of the parts of its drafts; absent where there is an error. */
  readonly places?: Places;
  /** False where a document could not be read, or something that it imports could not be had. */
  readonly isWhole: boolean;
  /** True where there is no error, so that it may stand for the file until a dependency changes. */
  readonly isKeepable: boolean;
}

/** Nodes take up to some ten times the memory of their text. */
const MAX_SOURCE_CHARACTERS = 16 * 1024 * 1024;
const MAX_RECORDS = 20_000;

/** A map that forgets what was not asked for longest, when its weight is over its bound. */
class Lru<V> {
  readonly #values = new Map<string, { readonly value: V; readonly weight: number }>();
  readonly #maxWeight: number;
  #weight = 0;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(key: string): V | undefined {
    const found = this.#values.get(key);
    if (found === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, found);
    return found.value;
  }

  set(key: string, value: V, weight: number): void {
    this.#weight += weight - (this.#values.get(key)?.weight ?? 0);
    this.#values.delete(key);
    this.#values.set(key, { value, weight });
    for (const [oldest, { weight: freed }] of this.#values) {
      if (this.#weight <= this.#maxWeight) break;
      this.#values.delete(oldest);
      this.#weight -= freed;
    }
  }
}

export class Cache implements CompileCache {
  readonly kind = 'compile-cache';
  readonly sources = new Lru<Source>(MAX_SOURCE_CHARACTERS);
  readonly agents = new Lru<AgentRecord>(MAX_RECORDS);
}
