// Room for bodies that are larger than most. What a body costs while it is parsed, normalized and stored is a multiple of
// its size, so few of them are in memory at a time; the others wait unread at their senders, those of one owner in the order
// of arrival, and of several in turn.

import { overloaded } from './event-writer.ts';

interface ByteSemaphoreOptions {
  /** Of all bodies that have room; a larger one has it alone. */
  readonly bytes: number;
  readonly waitingMax: number;
  readonly waitMs: number;
}

interface Waiting {
  readonly bytes: number;
  readonly enter: () => void;
  readonly refuse: () => void;
}

export class ByteSemaphore {
  readonly #options: ByteSemaphoreOptions;
  #taken = 0;
  /** By owner; first the one that has waited longest since one of its own was let in. */
  readonly #waiting = new Map<string, Waiting[]>();
  #count = 0;

  constructor(options: ByteSemaphoreOptions) {
    this.#options = options;
  }

  /**
   * Waits for room; the answer gives it back, once. Throws Fault `unavailable` where there is none in time, or too many wait: of
   * these the last of whoever has the most.
   */
  async take(bytes: number, owner = ''): Promise<() => void> {
    if (this.#count > 0 || !this.#fits(bytes)) await this.#turn(bytes, owner);
    else this.#taken += bytes;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#taken -= bytes;
      this.#admit();
    };
  }

  #fits(bytes: number): boolean {
    return this.#taken === 0 || this.#taken + bytes <= this.#options.bytes;
  }

  #turn(bytes: number, owner: string): Promise<void> {
    if (this.#count >= this.#options.waitingMax) this.#makePlace(owner);
    const own = this.#waiting.get(owner) ?? [];
    return new Promise((resolve, reject) => {
      const refuse = (): void => {
        clearTimeout(timer);
        this.#remove(owner, waiting);
        reject(overloaded());
      };
      const timer = setTimeout(() => {
        refuse();
        this.#admit();
      }, this.#options.waitMs);
      const enter = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const waiting = { bytes, enter, refuse };
      own.push(waiting);
      this.#count += 1;
      this.#waiting.set(owner, own);
    });
  }

  /** Throws Fault `unavailable` where nobody has more that wait than this owner would have. */
  #makePlace(owner: string): void {
    const own = this.#waiting.get(owner)?.length ?? 0;
    let most: readonly Waiting[] = [];
    for (const queue of this.#waiting.values()) if (queue.length > most.length) most = queue;
    if (most.length <= own + 1) throw overloaded();
    most.at(-1)?.refuse();
  }

  #remove(owner: string, waiting: Waiting): void {
    const own = this.#waiting.get(owner) ?? [];
    own.splice(own.indexOf(waiting), 1);
    this.#count -= 1;
    if (own.length === 0) this.#waiting.delete(owner);
  }

  /** Nobody overtakes whose turn it is, or what is large would never have room. */
  #admit(): void {
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      const [owner, own] = first;
      const [next] = own;
      if (next === undefined || !this.#fits(next.bytes)) return;
      this.#remove(owner, next);
      // To the end of the line: one owner's long queue must not take every place that comes free.
      if (this.#waiting.delete(owner)) this.#waiting.set(owner, own);
      this.#taken += next.bytes;
      next.enter();
    }
  }
}
