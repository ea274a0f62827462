// How much work of one kind begins at a time, for work that first takes a processor and may then wait for long, as the start
// of a harness does: of too many that begin at once none is ready in time. What takes longer than a moment is taken to wait:
// it gives its place to others, and only work of the same owner still waits for it.

/** Work that takes longer than this counts for its owner alone. */
const momentMs = 5_000;

interface Owner {
  inside: number;
  readonly waiting: (() => void)[];
}

/** At most `width` of each owner at a time, and at most `width` in all that have begun within the last moment. */
export class Semaphore {
  readonly #width: number;
  readonly #momentMs: number;
  /** Those that have just begun. */
  #fresh = 0;
  readonly #owners = new Map<string, Owner>();

  constructor(width: number, moment = momentMs) {
    this.#width = width;
    this.#momentMs = moment;
  }

  /** Runs `work` when there is room: of one owner in the order of the calls, of several those first who have the least inside. */
  async run<T>(ownerId: string, work: () => Promise<T>): Promise<T> {
    const owner = this.#owners.get(ownerId) ?? { inside: 0, waiting: [] };
    this.#owners.set(ownerId, owner);
    const turn = Promise.withResolvers<void>();
    owner.waiting.push(turn.resolve);
    this.#startNext();
    await turn.promise;
    let isFresh = true;
    const grow = (): void => {
      if (isFresh) this.#fresh -= 1;
      isFresh = false;
    };
    const timer = setTimeout(() => {
      grow();
      this.#startNext();
    }, this.#momentMs).unref();
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      grow();
      owner.inside -= 1;
      if (owner.inside === 0 && owner.waiting.length === 0) this.#owners.delete(ownerId);
      this.#startNext();
    }
  }

  #startNext(): void {
    while (this.#fresh < this.#width) {
      let next: Owner | undefined;
      for (const one of this.#owners.values()) {
        if (one.waiting.length === 0 || one.inside >= this.#width) continue;
        if (next === undefined || one.inside < next.inside) next = one;
      }
      if (next === undefined) return;
      this.#fresh += 1;
      next.inside += 1;
      next.waiting.shift()?.();
    }
  }
}
