// Room for bodies that are larger than most. What a body costs while it is parsed, normalized and stored is a multiple of
// its size, so few of them are in memory at a time; the others wait unread at their senders, in the order of arrival.

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
}

export class ByteSemaphore {
  readonly #options: ByteSemaphoreOptions;
  #taken = 0;
  readonly #waiting: Waiting[] = [];

  constructor(options: ByteSemaphoreOptions) {
    this.#options = options;
  }

  /** Waits for room; the answer gives it back, once. Throws Fault `unavailable` where there is none in time. */
  async take(bytes: number): Promise<() => void> {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) await this.#turn(bytes);
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

  #turn(bytes: number): Promise<void> {
    if (this.#waiting.length >= this.#options.waitingMax) throw overloaded();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(overloaded());
        this.#admit();
      }, this.#options.waitMs);
      const waiting = {
        bytes,
        enter: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      this.#waiting.push(waiting);
    });
  }

  #admit(): void {
    for (let [next] = this.#waiting; next !== undefined && this.#fits(next.bytes); [next] = this.#waiting) {
      this.#waiting.shift();
      this.#taken += next.bytes;
      next.enter();
    }
  }
}
