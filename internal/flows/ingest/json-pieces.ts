// JSON in pieces of bytes, for what is too large to be one text: no piece of it is in memory twice.

const pieceBytes = 1_048_576;
/** Characters of one text that are printed at a time. */
const sliceChars = 262_144;
/** Characters that wait to be encoded. */
const pendingChars = 65_536;

const { isRawJSON } = JSON as unknown as { isRawJSON(value: unknown): boolean };
const encoder = new TextEncoder();

/** What `JSON.stringify(value)` gives for JSON values, as UTF-8 in pieces. Members that are undefined are left out. */
export function jsonPieces(value: unknown): Uint8Array<ArrayBuffer>[] {
  const writer = new Writer();
  writer.value(value);
  return writer.end();
}

class Writer {
  readonly #pieces: Uint8Array<ArrayBuffer>[] = [];
  #piece = new Uint8Array(pieceBytes);
  #used = 0;
  #pending = '';

  end(): Uint8Array<ArrayBuffer>[] {
    this.#flush();
    // A copy of what is used: a piece that is handed over goes with all its room.
    if (this.#used > 0) this.#pieces.push(this.#piece.slice(0, this.#used));
    return this.#pieces;
  }

  value(value: unknown): void {
    if (typeof value === 'string' && value.length > sliceChars) this.#long(value);
    else if (typeof value !== 'object' || value === null || isRawJSON(value)) this.#add(JSON.stringify(value));
    else if (Array.isArray(value)) this.#list(value);
    else this.#object(value as { readonly [key: string]: unknown });
  }

  #list(items: readonly unknown[]): void {
    this.#add('[');
    for (const [at, item] of items.entries()) {
      if (at > 0) this.#add(',');
      this.value(item === undefined ? null : item);
    }
    this.#add(']');
  }

  #object(members: { readonly [key: string]: unknown }): void {
    this.#add('{');
    let isFirst = true;
    for (const key of Object.keys(members)) {
      const value = members[key];
      if (value === undefined) continue;
      this.#add(isFirst ? `${JSON.stringify(key)}:` : `,${JSON.stringify(key)}:`);
      isFirst = false;
      this.value(value);
    }
    this.#add('}');
  }

  #long(text: string): void {
    this.#add('"');
    for (let at = 0; at < text.length; ) {
      let to = Math.min(text.length, at + sliceChars);
      // Not between the halves of a pair: each alone would be printed as an escape.
      const last = text.charCodeAt(to - 1);
      if (to < text.length && last >= 0xd800 && last <= 0xdbff) to -= 1;
      this.#add(JSON.stringify(text.slice(at, to)).slice(1, -1));
      at = to;
    }
    this.#add('"');
  }

  #add(text: string): void {
    this.#pending += text;
    if (this.#pending.length >= pendingChars) this.#flush();
  }

  #flush(): void {
    for (let rest = this.#pending; rest !== ''; ) {
      const { read, written } = encoder.encodeInto(rest, this.#piece.subarray(this.#used));
      this.#used += written;
      rest = rest.slice(read);
      if (rest === '') break;
      this.#pieces.push(this.#piece.slice(0, this.#used));
      this.#used = 0;
    }
    this.#pending = '';
  }
}
