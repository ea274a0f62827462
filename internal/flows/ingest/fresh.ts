// Reads that may be shared but never be old: whoever asks gets a value that was read after it asked. Those that ask while
// a read is under way wait for the next one, together.

interface Reads<T> {
  readonly running: Promise<T>;
  next: Promise<T> | undefined;
}

export class FreshReads<T> {
  readonly #reads = new Map<string, Reads<T>>();

  /** The value of `key`, by a call of `load` that starts after this. */
  get(key: string, load: () => Promise<T>): Promise<T> {
    const reads = this.#reads.get(key);
    if (reads === undefined) return this.#run(key, load);
    reads.next ??= reads.running.then(
      () => this.#run(key, load),
      () => this.#run(key, load),
    );
    return reads.next;
  }

  #run(key: string, load: () => Promise<T>): Promise<T> {
    const running = load();
    const reads: Reads<T> = { running, next: undefined };
    this.#reads.set(key, reads);
    const forget = (): void => {
      if (this.#reads.get(key) === reads && reads.next === undefined) this.#reads.delete(key);
    };
    running.then(forget, forget);
    return running;
  }
}
