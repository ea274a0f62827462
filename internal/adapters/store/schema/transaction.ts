// The statements of one transaction on their way to the server: those that are asked for in one breath go in one message,
// and the beginning goes with the first of them. A transaction that asks for nothing says nothing.

import type pg from 'pg';
import type { Held } from './pool.ts';

interface Asked {
  readonly statement: pg.QueryConfig;
  readonly resolve: (result: pg.QueryResult) => void;
  readonly reject: (error: unknown) => void;
}

export class Transaction {
  readonly #held: Held;
  readonly #patient: boolean;
  readonly #beginning: readonly string[];
  #asked: Asked[] = [];
  #hasBegun = false;

  constructor(held: Held, options: { readonly beginning: readonly string[]; readonly patient: boolean }) {
    this.#held = held;
    this.#patient = options.patient;
    this.#beginning = options.beginning;
  }

  /** Begins at once, and runs a statement without parameters with it; resolves to its rows. */
  async open(statement: string): Promise<readonly unknown[]> {
    this.#hasBegun = true;
    const text = [...this.#beginning, statement].join('; ');
    // Several statements in one message are answered by a list; where one fails, none behind it runs.
    return [await this.#held.query({ text })].flat().at(-1)?.rows ?? [];
  }

  query(statement: pg.QueryConfig): Promise<pg.QueryResult> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ statement, resolve, reject });
      // Whoever asks for several at once has done so by then.
      if (this.#asked.length === 1) queueMicrotask(() => void this.#send());
    });
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
    if (this.#asked.length > 0) await this.#send();
    if (this.#hasBegun) await this.#held.query({ text: how });
  }

  async #send(): Promise<void> {
    const asked = this.#asked;
    if (asked.length === 0) return;
    this.#asked = [];
    const beginning = this.#hasBegun ? [] : this.#beginning.map((text) => ({ text }));
    this.#hasBegun = true;
    try {
      const statements = asked.map(({ statement }) => statement);
      const results = await this.#held.queries([...beginning, ...statements], this.#patient);
      for (const [at, { resolve }] of asked.entries()) resolve(results[beginning.length + at] as pg.QueryResult);
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }
}
