// A bell that remembers: what rang between looking and waiting is not missed.

export class Signal {
  #count = 0;
  #waiting: (() => void)[] = [];

  fire(): void {
    this.#count += 1;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Take it before looking, and hand it to `after`. */
  mark(): number {
    return this.#count;
  }

  /** Resolves when it has rung since the mark, or after so many milliseconds. */
  async after(mark: number, timeoutMs: number): Promise<void> {
    if (this.#count !== mark) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one !== resolve);
        resolve();
      }, timeoutMs);
    });
    clearTimeout(timer);
  }
}
