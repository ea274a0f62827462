// Cuts a stream into lines without keeping more than one, and of a long one only its end.

const newline = 0x0a;

export interface LineReader {
  push(chunk: Buffer): void;
  end(): void;
}

/**
 * Calls `line` with each line's text, without its line break; `isCut` says that it was longer than `linesMaxBytes` and the
 * text is its last `tailBytes` at most. What is kept is bounded by the two.
 */
export function readLines(
  limits: { readonly lineMaxBytes: number; readonly tailBytes: number },
  line: (text: string, isCut: boolean) => void,
): LineReader {
  let parts: Buffer[] = [];
  let length = 0;
  let isCut = false;
  const keep = (part: Buffer): void => {
    if (part.length === 0) return;
    parts.push(part);
    length += part.length;
    // Parts of a byte take hundreds each as long as they are kept.
    if (parts.length > 1_024) parts = [Buffer.concat(parts, length)];
    if (length <= (isCut ? 2 * limits.tailBytes : limits.lineMaxBytes)) return;
    // A copy, so that the chunks behind it can go.
    const tail = Buffer.from(Buffer.concat(parts, length).subarray(-limits.tailBytes));
    parts = [tail];
    length = tail.length;
    isCut = true;
  };
  const flush = (): void => {
    const [first] = parts;
    const whole = parts.length > 1 ? Buffer.concat(parts, length) : first;
    const text = whole?.toString('utf8') ?? '';
    const cut = isCut;
    [parts, length, isCut] = [[], 0, false];
    line(text.endsWith('\r') ? text.slice(0, -1) : text, cut);
  };
  return {
    push(chunk) {
      let from = 0;
      for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
        keep(chunk.subarray(from, at));
        flush();
        from = at + 1;
      }
      keep(chunk.subarray(from));
    },
    end() {
      if (length > 0) flush();
    },
  };
}
