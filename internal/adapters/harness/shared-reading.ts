// What the harnesses of a daemon share as it reads them. Each writes what it likes, as fast as it likes: what a hundred of one
// project write at once is read a piece in a turn of the event loop, projects in turn, and so that half of the time is everybody
// else's; and of lines that are large few are in memory at a time.

import { OneATurn } from '../../base/one-a-turn.ts';
import { Turns } from '../../base/turns.ts';

/** Large lines that come or are being read: of all harnesses, and of those of one owner. */
const places = { all: 4, perOwner: 2 } as const;
/** How long a large line may take to come while others wait for its place. */
const lentMs = 10_000;

/** As one harness has it. */
export interface ReadingShare {
  /** Resolves when some more of what it wrote may be read. */
  turn(): Promise<void>;
  /** Waits for a place for a large line; the answer gives it back. `giveUp` is called where the line takes too long to come. */
  place(giveUp: () => void): Promise<() => void>;
}

interface Lent {
  readonly owner: string;
  readonly sinceMs: number;
  readonly giveUp: () => void;
}

interface Waiting {
  readonly lane: undefined;
  readonly owner: string;
  readonly enter: () => void;
}

/** One of a daemon. */
export class SharedReading {
  readonly #turns = new OneATurn({ rests: true });
  /** First the one that was lent first. */
  readonly #lent = new Set<Lent>();
  readonly #waiting = new Turns<undefined, Waiting>();
  readonly #lentMs: number;
  #asking: NodeJS.Timeout | undefined;

  constructor(ms: number = lentMs) {
    this.#lentMs = ms;
  }

  /** For a harness of an owner: its project. */
  of(owner: string): ReadingShare {
    return { turn: () => this.#turns.turn(owner), place: (giveUp) => this.#place(owner, giveUp) };
  }

  #place(owner: string, giveUp: () => void): Promise<() => void> {
    return new Promise((resolve) => {
      const enter = (): void => {
        const lent = { owner, sinceMs: performance.now(), giveUp };
        this.#lent.add(lent);
        resolve(() => {
          if (this.#lent.delete(lent)) this.#admit();
        });
      };
      this.#waiting.add({ lane: undefined, owner, enter });
      this.#admit();
    });
  }

  #mayEnter = (_lane: undefined, owner: string): boolean =>
    this.#lent.size < places.all && [...this.#lent].filter((one) => one.owner === owner).length < places.perOwner;

  #admit(): void {
    for (let next = this.#waiting.first(this.#mayEnter); next; next = this.#waiting.first(this.#mayEnter)) {
      this.#waiting.take(next);
      next.enter();
    }
    this.#askBack();
  }

  /** Where somebody waits, asks those for their place who have kept him from it for long enough; else looks again when that is so. */
  #askBack(): void {
    clearTimeout(this.#asking);
    let wanted = this.#waiting.size;
    const isFull = this.#lent.size >= places.all;
    for (const { owner, sinceMs, giveUp } of this.#lent) {
      if (wanted === 0) return;
      if (!isFull && this.#waiting.sharesOf(undefined, owner).own === 0) continue;
      const leftMs = sinceMs + this.#lentMs - performance.now();
      if (leftMs > 0) {
        this.#asking = setTimeout(() => this.#askBack(), leftMs).unref();
        return;
      }
      giveUp();
      wanted -= 1;
    }
  }
}
