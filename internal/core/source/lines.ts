// Offsets → lines and columns, by binary search over the starts of lines.

export interface Position {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
}

/** Where the lines of a text begin, without the text: a few bytes a line, so that a tree's can all be kept. */
export class LineStarts {
  readonly #length: number;
  readonly #starts: Uint32Array;

  constructor(text: string) {
    this.#length = text.length;
    let count = 1;
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
    this.#starts = new Uint32Array(count);
    for (let at = text.indexOf('\n'), line = 1; line < count; at = text.indexOf('\n', at + 1), line += 1)
      this.#starts[line] = at + 1;
  }

  /** The position of a UTF-16 offset; one past the end is the end. */
  at(offset: number): Position {
    const clamped = Math.max(0, Math.min(offset, this.#length));
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= clamped) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: clamped - (this.#starts[low] ?? 0) + 1 };
  }

  /**
   * The line of the text that these are of, without its end, cut to `maxLength` units, and such that any store takes it: no
   * NUL, no half pair.
   */
  line(text: string, line: number, maxLength: number): string {
    const start = this.#starts[line - 1] ?? text.length;
    const end = this.#starts[line] ?? text.length + 1;
    const cut = text.slice(start, Math.min(end - 1, start + maxLength)).replace(/\r$/, '');
    return cut.replaceAll('\0', '\u2400').toWellFormed();
  }
}
