// Room for bodies that are larger than most. What a body costs while it is parsed, normalized and stored is a multiple of
// its size, so few of them are in memory at a time; the others wait unread at their senders, those of one owner in the order
// of arrival, and of several in turn. Whose body it is nobody knows before all of it is there: who takes long to send it
// gives its room back to those who wait, or a stranger who sends next to nothing would have all of it.

import type { Fault } from '../../domain/fault.ts';
import { overloaded } from './event-writer.ts';

interface ByteSemaphoreOptions {
  /** Of all bodies that have room; a larger one has it alone. */
  readonly bytes: number;
  readonly waitingMax: number;
  readonly waitMs: number;
  /** How long a body may take to come while others wait; absent: as long as it likes. */
  readonly lentMs?: number;
}

/** Has a body that has not all come come no further, and tells its sender why; false where all of it is there. */
export type GiveUp = (why: Fault) => boolean;

interface Lent {
  readonly sinceMs: number;
  readonly giveUp: GiveUp;
  readonly give: () => void;
}

/** Between two looks at who has had room for longer than that, and could not be asked for it back. */
const againMs = 1_000;

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
  /** Those who may be asked for their room; first who has it longest. */
  readonly #lent = new Set<Lent>();
  #asking: NodeJS.Timeout | undefined;

  constructor(options: ByteSemaphoreOptions) {
    this.#options = options;
  }

  /**
   * Waits for room; the answer gives it back, once. Throws Fault `unavailable` where there is none in time, or too many wait: of
   * these the last of whoever has the most. `giveUp` is called where others have waited for it for too long.
   */
  async take(bytes: number, owner = '', giveUp?: GiveUp): Promise<() => void> {
    if (this.#count > 0 || !this.#fits(bytes)) await this.#turn(bytes, owner);
    else this.#taken += bytes;
    let isHeld = true;
    const give = (): void => {
      if (!isHeld) return;
      isHeld = false;
      this.#taken -= bytes;
      if (lent !== undefined) this.#lent.delete(lent);
      this.#admit();
    };
    const lent = giveUp && { sinceMs: performance.now(), giveUp, give };
    if (lent !== undefined) this.#lent.add(lent);
    this.#askBack();
    return give;
  }

  /** Where somebody waits, asks those for their room who have had it for long enough; else looks again when that is so. */
  #askBack(): void {
    clearTimeout(this.#asking);
    const { lentMs } = this.#options;
    if (lentMs === undefined) return;
    for (const lent of this.#lent) {
      if (this.#count === 0) return;
      const leftMs = lent.sinceMs + lentMs - performance.now();
      if (leftMs > 0) return this.#askBackIn(leftMs);
      if (lent.giveUp(overloaded())) lent.give();
    }
    if (this.#count > 0 && this.#lent.size > 0) this.#askBackIn(againMs);
  }

  #askBackIn(ms: number): void {
    this.#asking = setTimeout(() => this.#askBack(), ms);
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
      this.#askBack();
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
