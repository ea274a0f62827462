// How many connections a daemon wants at once, by time: as many are kept as are wanted for long enough.

/**
 * As many are kept as were wanted at once for this part of the time. Loops that meet for some milliseconds, again and again,
 * would keep one each otherwise.
 */
const worthKeeping = 1 / 100;

/** `now` is in milliseconds, on a clock that is never set back. */
export class Demand {
  #wanted = 0;
  #at: number;
  #since: number;
  /** By how many were wanted at once: for how many milliseconds they were. */
  #ms: number[] = [];

  constructor(now: number) {
    this.#at = now;
    this.#since = now;
  }

  /** So many more, or less, are wanted from now on. */
  change(by: number, now: number): void {
    this.#ms[this.#wanted] = (this.#ms[this.#wanted] ?? 0) + now - this.#at;
    this.#at = now;
    this.#wanted += by;
  }

  /** How many are worth keeping, by what was wanted since this was asked last; at least one. */
  worthKeeping(now: number): number {
    this.change(0, now);
    const enough = (now - this.#since) * worthKeeping;
    let kept = this.#ms.length - 1;
    for (let ms = 0; kept > 1; kept -= 1) {
      ms += this.#ms[kept] ?? 0;
      if (ms >= enough) break;
    }
    this.#since = now;
    this.#ms = [];
    return Math.max(1, kept);
  }
}
