// What one compile leaves for the next: parsed files by content, and whole agent files by everything that they read.
// Bounded by text and by number; what was not used for long goes first. Only agents without an error are kept.

import type { Finding, Places } from '../../domain/diagnostic.ts';
import type { Source } from '../source/source.ts';
import type { Cost } from './budget.ts';
import type { AgentDraft } from './check-agent.ts';
import type { CompileCache } from './types.ts';

/** Something that an agent file read: it is unchanged while the same question has the same answer. */
export interface Dependency {
  readonly kind: 'path' | 'template';
  /** A path of the tree, or a template specifier. */
  readonly name: string;
  /** Null where it is not there: what rests on that has an error, and is not kept. */
  readonly state: string | null;
}

/** One agent file, compiled. */
export interface AgentRecord {
  readonly dependencies: readonly Dependency[];
  readonly findings: readonly Finding[];
  readonly drafts: readonly AgentDraft[];
  /** What it takes to make it, so that the tree pays alike for what a cache keeps. */
  readonly costs: readonly Cost[];
  /** Of the parts of its drafts; absent where there is an error. */
  readonly places?: Places;
  /** False where a document could not be read, or something that it imports could not be had. */
  readonly isWhole: boolean;
  /** True where there is no error, so that it may stand for the file until a dependency changes. */
  readonly isKeepable: boolean;
}

/** Stands for an agent file of which nothing is known but what is wrong with it. */
export const lostRecord = (finding: Finding): AgentRecord => ({
  dependencies: [],
  findings: [finding],
  drafts: [],
  costs: [],
  isWhole: false,
  isKeepable: false,
});

/** A parsed file without its text. */
export type ParsedSource = Omit<Source, 'text'> & {
  /** Of its text, in UTF-16 units. */
  readonly length: number;
};

/** Bytes of parsed files that are kept; a worker may use a few times as much. */
const sourceBytesMax = 96 * 1024 * 1024;
/** What a value takes with its place and its key. */
const nodeBytes = 300;
const recordsMax = 20_000;

/**
 * A map in two generations: what is asked for moves to the young one, and when that is full the old one is forgotten.
 * Close to least-recently-used, at the cost of one look-up.
 */
class Generations<V> {
  #young = new Map<string, V>();
  #old = new Map<string, V>();
  readonly #weightOf: (value: V) => number;
  readonly #maxWeight: number;
  #weight = 0;

  constructor(maxWeight: number, weightOf: (value: V) => number) {
    this.#weightOf = weightOf;
    this.#maxWeight = maxWeight / 2;
  }

  get(key: string): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: V): void {
    this.#weight += this.#weightOf(value);
    if (this.#weight > this.#maxWeight) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#weight = this.#weightOf(value);
    }
    this.#young.set(key, value);
  }
}

export class Cache implements CompileCache {
  readonly kind = 'compile-cache';
  readonly sources: Generations<ParsedSource>;
  readonly agents = new Generations<AgentRecord>(recordsMax, () => 1);

  /** `sourceBytes`: of parsed files. */
  constructor(sourceBytes = sourceBytesMax) {
    this.sources = new Generations(sourceBytes, ({ length, nodes }) => length * 2 + nodes * nodeBytes + 1_000);
  }
}

/** Of a compile that leaves nothing for the next: what many agents import is parsed once all the same. */
export const passingCache = (): Cache => new Cache(sourceBytesMax / 24);
