// Long texts of large JSON, found where they stand, so that nobody makes strings of them: whoever takes them puts something
// short in their place before a parser sees the rest.

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const comma = 0x2c;
const openObject = 0x7b;
const closeObject = 0x7d;
const openList = 0x5b;
const closeList = 0x5d;
/** Bytes that are looked at between two turns of whoever else there is. */
const sliceBytes = 4_194_304;
/** Of a key that anybody asks for. */
const keyBytesMax = 64;

/** Thrown for a text that does not end. */
export class UnterminatedText extends Error {}

export interface TextPlace {
  /** `{` or `[` of what a text stands in, from the outermost. */
  readonly kinds: readonly string[];
  /** The key that it stands behind at each level; undefined in a list, and where the key is long or has an escape. */
  readonly keys: readonly (string | undefined)[];
}

/** The quotes of a text. */
export interface Quotes {
  readonly start: number;
  readonly end: number;
}

/**
 * The texts of over `longFrom` bytes that are values, not keys, and that `isWanted` where they stand; undefined between
 * slices. The bytes are UTF-8; whether they are JSON, a parser tells of what is left of them. Throws UnterminatedText.
 */
export function* longTexts(
  bytes: Buffer,
  longFrom: number,
  isWanted: (place: TextPlace) => boolean,
): Generator<Quotes | undefined, void> {
  const kinds: string[] = [];
  const keys: (string | undefined)[] = [];
  let isValue = false;
  let slice = sliceBytes;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === colon) isValue = true;
    else if (byte === comma) isValue = false;
    else if (byte === openObject || byte === openList) {
      kinds.push(byte === openObject ? '{' : '[');
      keys.push(undefined);
      isValue = false;
    } else if (byte === closeObject || byte === closeList) {
      kinds.pop();
      keys.pop();
    } else if (byte === quote) {
      const end = endOf(bytes, at);
      const isKey = !isValue && kinds.at(-1) === '{';
      if (isKey) keys[keys.length - 1] = keyAt(bytes, at + 1, end);
      else if (end - at > longFrom && isWanted({ kinds, keys })) yield { start: at, end };
      at = end;
    }
    if (at < slice) continue;
    slice = at + sliceBytes;
    yield undefined;
  }
}

function keyAt(bytes: Buffer, from: number, to: number): string | undefined {
  if (to - from > keyBytesMax) return undefined;
  const key = bytes.toString('utf8', from, to);
  return key.includes('\\') ? undefined : key;
}

/** Where the quote stands that ends the text which the one at `start` begins. */
function endOf(bytes: Buffer, start: number): number {
  for (let from = start + 1; ; ) {
    const end = bytes.indexOf(quote, from);
    if (end === -1) throw new UnterminatedText();
    let slashes = 0;
    while (bytes[end - 1 - slashes] === backslash) slashes += 1;
    if (slashes % 2 === 0) return end;
    from = end + 1;
  }
}
