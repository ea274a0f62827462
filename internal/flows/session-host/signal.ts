// Waiting for news without missing any: whoever looks takes a mark first, and what is fired between the look and the wait
// ends the wait at once.

export class Signal {
  #count = 0;
  #waiting: (() => void)[] = [];

  fire(): void {
    this.#count += 1;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** To be taken before a look, and given to `after`. */
  mark(): number {
    return this.#count;
  }

  /** Resolves when `fire` was called since the mark, or after so many milliseconds. */
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
