// Offsets → lines and columns, by binary search over the starts of lines.

export interface Position {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
}

export class LineTable {
  readonly #text: string;
  readonly #starts: number[] = [0];

  constructor(text: string) {
    this.#text = text;
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1);
  }

  /** The position of a UTF-16 offset; one past the end is the end. */
  at(offset: number): Position {
    const clamped = Math.max(0, Math.min(offset, this.#text.length));
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= clamped) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: clamped - (this.#starts[low] ?? 0) + 1 };
  }

  /** The text of a line without its end, cut to `maxLength` units, and such that any store takes it: no NUL, no half pair. */
  line(line: number, maxLength: number): string {
    const start = this.#starts[line - 1] ?? this.#text.length;
    const end = this.#starts[line] ?? this.#text.length + 1;
    const cut = this.#text.slice(start, Math.min(end - 1, start + maxLength)).replace(/\r$/, '');
    return cut.replaceAll('\0', '\u2400').toWellFormed();
  }
}
