// The statements of one transaction on their way to the server: those that are asked for in one breath go in one message,
// and the beginning goes with the first of them. A transaction that asks for nothing says nothing.

import type pg from 'pg';
import type { Held } from './pool.ts';

interface Asked {
  readonly statement: pg.QueryConfig;
  readonly resolve: (result: pg.QueryResult) => void;
  readonly reject: (error: unknown) => void;
}

/** What statements that went with the beginning have answered. */
export interface OpeningRows {
  readonly opening: readonly unknown[];
  readonly ahead: readonly unknown[];
}

export class Transaction {
  readonly #held: Held;
  readonly #patient: boolean;
  readonly #beginning: readonly string[];
  #asked: Asked[] = [];
  #hasBegun = false;
  /** Whether what is asked for in this breath is the last of it. */
  #isLast = false;
  #hasCommitted = false;

  constructor(held: Held, options: { readonly beginning: readonly string[]; readonly patient: boolean }) {
    this.#held = held;
    this.#patient = options.patient;
    this.#beginning = options.beginning;
  }

  /** Begins at once, and runs a statement with it; one that goes ahead is committed before that, in the same message. */
  async open(opening: pg.QueryConfig, ahead?: pg.QueryConfig): Promise<OpeningRows> {
    this.#hasBegun = true;
    // Where one fails none behind it runs, and the transaction that is under way then is rolled back.
    const before = ahead === undefined ? [] : [{ text: 'begin' }, ahead, { text: 'commit' }];
    const beginning = this.#beginning.map((text) => ({ text }));
    const results = await this.#held.queries([...before, ...beginning, opening], this.#patient);
    return { opening: results.at(-1)?.rows ?? [], ahead: ahead === undefined ? [] : (results[1]?.rows ?? []) };
  }

  query(statement: pg.QueryConfig): Promise<pg.QueryResult> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ statement, resolve, reject });
      // Whoever asks for several at once has done so by then.
      if (this.#asked.length === 1) queueMicrotask(() => void this.#send());
    });
  }

  /**
   * Has the commit go in the message of what is asked for in this breath, behind which nothing may be asked for and nothing
   * may throw in the same breath. Where one of the statements fails, nothing is committed.
   */
  last(): void {
    this.#isLast = true;
  }

  /** Runs what begins a transaction and takes other messages than statements. */
  async begun(): Promise<void> {
    if (this.#asked.length > 0) await this.#send();
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    await this.#held.query({ text: this.#beginning.join('; ') });
  }

  /** `commit` or `rollback`, behind whatever is on its way. */
  async end(how: 'commit' | 'rollback'): Promise<void> {
    if (how === 'rollback') this.#isLast = false;
    if (this.#asked.length > 0) await this.#send();
    if (this.#hasBegun && !this.#hasCommitted) await this.#held.query({ text: how });
  }

  async #send(): Promise<void> {
    const asked = this.#asked;
    if (asked.length === 0) return;
    this.#asked = [];
    const beginning = this.#hasBegun ? [] : this.#beginning.map((text) => ({ text }));
    const ending = this.#isLast ? [{ text: 'commit' }] : [];
    this.#hasBegun = true;
    try {
      const statements = asked.map(({ statement }) => statement);
      const results = await this.#held.queries([...beginning, ...statements, ...ending], this.#patient);
      this.#hasCommitted = this.#isLast;
      for (const [at, { resolve }] of asked.entries()) resolve(results[beginning.length + at] as pg.QueryResult);
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }
}
