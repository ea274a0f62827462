// How long somebody has waited for the database lately.

/** For each millisecond in which nothing is waited for, so many that were waited are forgotten. */
const comesBack = 4;

/**
 * How long one caller has waited for the database lately. A caller that asks for several things, one after the other, has one
 * limit for all of them. While it does not wait, what it waited is soon forgotten, so that what it did outside meanwhile can
 * still be stored.
 */
export class Waited {
  #ms = 0;
  #at = performance.now();
  #waiting = 0;

  get ms(): number {
    const sinceMs = performance.now() - this.#at;
    return this.#waiting > 0 ? this.#ms + sinceMs : Math.max(0, this.#ms - comesBack * sinceMs);
  }

  /** Counts the time of a wait; waits at the same time count once. */
  async during<T>(wait: () => Promise<T>): Promise<T> {
    this.#set(this.ms, 1);
    try {
      return await wait();
    } finally {
      this.#set(this.ms, -1);
    }
  }

  inVain(ms: number): void {
    this.#set(Math.max(this.ms, ms), 0);
  }

  #set(ms: number, more: number): void {
    this.#ms = ms;
    this.#at = performance.now();
    this.#waiting += more;
  }
}
