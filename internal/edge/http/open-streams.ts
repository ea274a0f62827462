// How many streams each caller holds open at this daemon. One costs little, but it asks the database every second whether there is
// news, and every other whether it may still be read: thousands of one caller would make everybody else's calls wait.

import type { ServerResponse } from 'node:http';
import { Fault } from '../../domain/fault.ts';

const retryAfterSeconds = 10;

export class OpenStreams {
  readonly #open = new Map<string, number>();
  readonly #most: number;

  /** `most`: of one caller. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Counts a stream of a caller until its response closes. Throws Fault `rate_limited` where the caller has too many. */
  count(caller: string, response: ServerResponse): void {
    const open = this.#open.get(caller) ?? 0;
    if (open >= this.#most)
      throw new Fault(
        'rate_limited',
        'too-many-streams',
        `You have ${this.#most} streams open at this daemon, as many as it lets one caller have: close some of them.`,
        { retryAfterSeconds },
      );
    if (response.closed) return;
    this.#open.set(caller, open + 1);
    response.once('close', () => {
      const left = (this.#open.get(caller) ?? 1) - 1;
      if (left > 0) this.#open.set(caller, left);
      else this.#open.delete(caller);
    });
  }
}
