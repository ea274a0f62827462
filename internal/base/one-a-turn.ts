// What computes for milliseconds at a time, and comes in by the dozen in one turn of the event loop: each is done in a turn of its
// own, so that everybody else gets one between two of them.

import { Turns } from './turns.ts';

interface Heavy {
  readonly lane: undefined;
  readonly owner: string;
  readonly run: () => void;
}

/** Owners take turns, and what is of one is done in the order of coming. */
export class OneATurn {
  readonly #waiting = new Turns<undefined, Heavy>();
  #isScheduled = false;

  add(owner: string, run: () => void): void {
    this.#waiting.add({ lane: undefined, owner, run });
    this.#schedule();
  }

  /** Resolves when it is the turn of what comes next. */
  turn(owner: string): Promise<void> {
    return new Promise((resolve) => this.add(owner, resolve));
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const next = this.#waiting.first(() => true);
      if (next === undefined) return;
      this.#waiting.take(next);
      // It goes on after this turn, whatever becomes of this one.
      this.#schedule();
      next.run();
    });
  }
}
