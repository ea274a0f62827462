// What computes for milliseconds at a time, and comes in by the dozen in one turn of the event loop: each is done in a turn of its
// own, so that everybody else gets one between two of them.

import { Turns } from './turns.ts';

interface Heavy {
  readonly lane: undefined;
  readonly owner: string;
  readonly run: () => void;
}

/** What takes less leaves nobody anything to wait for. */
const momentMs = 1;

/** Owners take turns, and what is of one is done in the order of coming. */
export class OneATurn {
  readonly #waiting = new Turns<undefined, Heavy>();
  readonly #rests: boolean;
  #isScheduled = false;

  /** `rests`: what comes in without end has half of the time, and the rest is left to everybody else. */
  constructor({ rests = false }: { readonly rests?: boolean } = {}) {
    this.#rests = rests;
  }

  add(owner: string, run: () => void): void {
    this.#waiting.add({ lane: undefined, owner, run });
    this.#schedule(0);
  }

  /** Resolves when it is the turn of what comes next. */
  turn(owner: string): Promise<void> {
    return new Promise((resolve) => this.add(owner, resolve));
  }

  #schedule(restMs: number): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    if (restMs < momentMs) this.#begin();
    else setTimeout(() => this.#begin(), restMs);
  }

  #begin(): void {
    let began = 0;
    setImmediate(() => {
      began = performance.now();
      const next = this.#waiting.first(() => true);
      if (next === undefined) return;
      this.#waiting.take(next);
      next.run();
    });
    // In the same turn, behind what goes on at once from there: whatever becomes of that.
    setImmediate(() => {
      this.#isScheduled = false;
      this.#schedule(this.#rests ? performance.now() - began : 0);
    });
  }
}
