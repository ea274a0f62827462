// What syncs hold of what they have read, until they are over. A small tree is nobody's concern; of large ones a few are held at
// a time, of one project one: each may be as large as one push may make the process grow, and anybody may have many of them.

import { Turns } from '../base/turns.ts';

/** Bytes up to which a read is a small one. */
const smallBytes = 2 * 1024 * 1024;
/** Large ones that are held at a time. */
const largeMax = 2;
/** Of one project that wait for that; more of its polls are left to other daemons, or for later. */
const waitingMax = 64;

interface Waiting {
  readonly lane: 'large';
  readonly owner: string;
  readonly start: () => void;
}

/** Ends a read that has turned out to be a large one and has to wait; it is begun anew when its turn comes. */
class CrowdedRead extends Error {}

/** The large reads of a process: projects take turns, and one of them has one at a time. */
export class LargeReads {
  readonly #held: string[] = [];
  readonly #turns = new Turns<'large', Waiting>();

  /** What one sync of this project holds; `leave` it at its end. */
  roomOf(owner: string): ReadRoom {
    return new ReadRoom(this, owner);
  }

  /** Whether there is room at once; then it is taken. */
  tryEnter(owner: string): boolean {
    if (this.#held.length >= largeMax || this.#held.includes(owner)) return false;
    this.#held.push(owner);
    return true;
  }

  /** Resolves when there is room, which is taken then. Rejects with the signal's reason. */
  async enter(owner: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.tryEnter(owner)) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const one: Waiting = { lane: 'large', owner, start: resolve };
    const give = (): void => {
      if (this.#turns.remove(one)) reject(signal.reason);
    };
    signal.addEventListener('abort', give, { once: true });
    this.#turns.add(one);
    await promise.finally(() => signal.removeEventListener('abort', give));
  }

  /** Projects of which so many wait that no more of theirs are begun by themselves: they would fill the place of everybody's. */
  crowded(): string[] {
    return this.#turns.crowdsIn('large', waitingMax - 1);
  }

  leave(owner: string): void {
    this.#held.splice(this.#held.indexOf(owner), 1);
    for (;;) {
      const next = this.#turns.first((_lane, waits) => !this.#held.includes(waits));
      if (next === undefined || !this.tryEnter(next.owner)) return;
      this.#turns.take(next);
      next.start();
    }
  }
}

export class ReadRoom {
  readonly #reads: LargeReads;
  readonly #owner: string;
  #bytes = 0;
  #isLarge = false;
  #isOver = false;

  constructor(reads: LargeReads, owner: string) {
    this.#reads = reads;
    this.#owner = owner;
  }

  /** Counts what is about to be held. Throws where that is too much beside what others hold: for `read` alone. */
  readonly taking = (bytes: number): void => {
    // Of a read that was given up, which goes on for a moment.
    if (this.#isOver) throw new CrowdedRead('nobody waits for what is read');
    this.#bytes += bytes;
    if (this.#isLarge || this.#bytes <= smallBytes) return;
    this.#isLarge = this.#reads.tryEnter(this.#owner);
    if (!this.#isLarge) throw new CrowdedRead('other large reads are under way');
  };

  /** Reads, and waits with what turns out to be large until it has room. `isKept`: what was read is held from then on. */
  async read<T>(call: () => Promise<T>, signal: AbortSignal, isKept = true): Promise<T> {
    const before = this.#bytes;
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof CrowdedRead)) throw error;
    } finally {
      if (!isKept) this.#bytes = before;
    }
    this.#bytes = before;
    await this.#enter(signal);
    return call();
  }

  /** Waits until so much more may be held. */
  async hold(bytes: number, signal: AbortSignal): Promise<void> {
    if (!this.#isLarge && this.#bytes + bytes > smallBytes) await this.#enter(signal);
    this.#bytes += bytes;
  }

  /** What was read is not held any more, and no more is read. */
  leave(): void {
    if (this.#isLarge) this.#reads.leave(this.#owner);
    [this.#isLarge, this.#isOver] = [false, true];
  }

  async #enter(signal: AbortSignal): Promise<void> {
    await this.#reads.enter(this.#owner, signal);
    this.#isLarge = true;
  }
}
