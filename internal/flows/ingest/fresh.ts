// Reads that may be shared but never be old: whoever asks gets a value that was read after it asked. While as many reads
// as are allowed are under way, those that ask wait for the next one, together.

const runningMax = 2;

interface Reads<T> {
  running: number;
  next: { readonly load: () => Promise<T>; readonly promised: PromiseWithResolvers<T> } | undefined;
}

export class FreshReads<T> {
  readonly #reads = new Map<string, Reads<T>>();

  /** The value of `key`, by a call of `load` that starts after this. */
  get(key: string, load: () => Promise<T>): Promise<T> {
    const reads = this.#reads.get(key) ?? { running: 0, next: undefined };
    this.#reads.set(key, reads);
    if (reads.running < runningMax) return this.#run(key, reads, load);
    reads.next ??= { load, promised: Promise.withResolvers<T>() };
    return reads.next.promised.promise;
  }

  async #run(key: string, reads: Reads<T>, load: () => Promise<T>): Promise<T> {
    reads.running += 1;
    try {
      return await load();
    } finally {
      reads.running -= 1;
      const { next } = reads;
      reads.next = undefined;
      if (next !== undefined) this.#run(key, reads, next.load).then(next.promised.resolve, next.promised.reject);
      else if (reads.running === 0) this.#reads.delete(key);
    }
  }
}
