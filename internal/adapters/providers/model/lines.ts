// Cuts a stream into lines without keeping more than one, and of a long one only its end.

import { exceedsValues } from '../../../domain/depth.ts';

const newline = 0x0a;

export interface TextLimits {
  readonly bytesMax: number;
  /** A text of more values than this is told by its end too: as values it would take many times its bytes. */
  readonly valuesMax: number;
  readonly tailBytes: number;
}

/** A text in the making, of which no more is kept than the limits say. */
export interface TextKeeper {
  readonly length: number;
  add(part: Buffer): void;
  /** What was added since the last time. `isCut`: it was too much, and the text is its last `tailBytes` at most. */
  take(): { readonly text: string; readonly isCut: boolean };
}

export function keepText({ bytesMax, valuesMax, tailBytes }: TextLimits): TextKeeper {
  let parts: Buffer[] = [];
  let length = 0;
  let isCut = false;
  return {
    get length() {
      return length;
    },
    add(part) {
      if (part.length === 0) return;
      parts.push(part);
      length += part.length;
      // Parts of a byte take hundreds each as long as they are kept.
      if (parts.length > 1_024) parts = [Buffer.concat(parts, length)];
      if (length <= (isCut ? 2 * tailBytes : bytesMax)) return;
      // A copy, so that the chunks behind it can go.
      const tail = Buffer.from(Buffer.concat(parts, length).subarray(-tailBytes));
      parts = [tail];
      length = tail.length;
      isCut = true;
    },
    take() {
      const [first] = parts;
      const whole = parts.length > 1 ? Buffer.concat(parts, length) : first;
      const cut = isCut || (whole !== undefined && length > valuesMax && exceedsValues(whole, valuesMax));
      [parts, length, isCut] = [[], 0, false];
      return { text: (cut ? whole?.subarray(-tailBytes) : whole)?.toString('utf8') ?? '', isCut: cut };
    },
  };
}

export interface LineReader {
  push(chunk: Buffer): void;
  end(): void;
}

/** Calls `line` with each line's text, without its line break; `isCut` as a TextKeeper says it. */
export function readLines(limits: TextLimits, line: (text: string, isCut: boolean) => void): LineReader {
  const kept = keepText(limits);
  const flush = (): void => {
    const { text, isCut } = kept.take();
    line(text.endsWith('\r') ? text.slice(0, -1) : text, isCut);
  };
  return {
    push(chunk) {
      let from = 0;
      for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
        kept.add(chunk.subarray(from, at));
        flush();
        from = at + 1;
      }
      kept.add(chunk.subarray(from));
    },
    end() {
      if (kept.length > 0) flush();
    },
  };
}
