// How deep received JSON nests. Nothing makes a parser recurse without bound: text with few brackets is parsed first, and
// its depth is told from what it became, which costs a fraction of a look at every byte; all other text is looked at
// byte by byte, before any parser sees it.

/** Larger text is looked at first: an object of very many keys takes longer to walk than its text to look at. */
const walkedMax = 65_536;
/** Finding a bracket costs as much as looking at so many bytes. */
const bytesAnOpening = 64;

/** The language's raw JSON values, which the type library does not know yet. */
const raw = JSON as unknown as { isRawJSON(value: unknown): boolean };

/** Thrown for JSON that opens more levels than it may. */
export class TooDeep extends Error {}

/** How many `{` and `[` there are, inside texts too; beyond `most` it stops, and the answer is larger than that. */
function openingsIn(bytes: Uint8Array, most: number): number {
  let count = 0;
  for (const bracket of [0x7b, 0x5b]) {
    for (let at = bytes.indexOf(bracket); at !== -1 && count <= most; at = bytes.indexOf(bracket, at + 1)) count += 1;
  }
  return count;
}

/** Whether JSON in UTF-8 opens more than `levels` of `{` and `[` inside each other, the outermost included. */
export function nestsDeeper(bytes: Uint8Array, levels: number): boolean {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (quoted) {
      if (byte === 0x5c) at += 1;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > levels) return true;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
  return false;
}

/**
 * Whether JSON in UTF-8 holds more than `most` members, elements, objects and lists, by the characters that part and open
 * them outside texts: what it costs to parse grows with them, and not with its bytes.
 */
export function exceedsValues(bytes: Uint8Array, most: number): boolean {
  let count = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === 0x22) {
      at = endOfText(bytes, at + 1);
    } else if (byte === 0x2c || byte === 0x7b || byte === 0x5b) {
      count += 1;
      if (count > most) return true;
    }
  }
  return false;
}

/** Bytes that are looked at between two turns of whoever else there is. */
const sliceBytes = 4_194_304;

/**
 * Looks at JSON in UTF-8 that is too large to be looked at at once, and yields after each slice of it. Says whether it opens
 * more than `levels` of `{` and `[` inside each other, or holds more than `values` as `exceedsValues` counts them.
 */
export function* lookedAt(
  bytes: Uint8Array,
  { levels, values }: { readonly levels: number; readonly values: number },
): Generator<undefined, 'deep' | 'many' | undefined> {
  let [depth, count, quoted] = [0, 0, false];
  for (let at = 0, slice = sliceBytes; at < bytes.length; at += 1) {
    if (at >= slice) {
      slice = at + sliceBytes;
      yield;
    }
    const byte = bytes[at];
    if (quoted) {
      if (byte === 0x5c) at += 1;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      count += 1;
      if (depth > levels) return 'deep';
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
    else if (byte === 0x2c) count += 1;
    if (count > values) return 'many';
  }
  return undefined;
}

/** Where the quote stands that ends a text which began before `from`. */
function endOfText(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== 0x22) at += bytes[at] === 0x5c ? 2 : 1;
  return at;
}

/** Objects and arrays that a value is made of, and how far they stand inside each other; no further than `levels` + 1. */
class Extent {
  readonly #levels: number;
  containers = 0;
  depth = 0;

  constructor(levels: number) {
    this.#levels = levels;
  }

  add(value: unknown, depth: number): void {
    // A number that is kept by its digits is an object too, and was none in the text.
    if (typeof value !== 'object' || value === null || raw.isRawJSON(value)) return;
    this.containers += 1;
    if (depth > this.depth) this.depth = depth;
    if (depth > this.#levels) return;
    if (Array.isArray(value)) for (const inner of value) this.add(inner, depth + 1);
    else for (const key in value) this.add((value as { readonly [key: string]: unknown })[key], depth + 1);
  }
}

/**
 * What `parse` makes of JSON in UTF-8. Throws TooDeep where that opens more than `levels` of `{` and `[` inside each other,
 * the outermost included, whether it is JSON otherwise or not; else what `parse` throws.
 */
export function parseWithin<T>(bytes: Uint8Array, levels: number, parse: () => T): T {
  const few = bytes.length > walkedMax ? levels : Math.max(levels, bytes.length / bytesAnOpening);
  const openings = openingsIn(bytes, few);
  if (openings <= levels) return parse();
  if (openings > few) {
    if (nestsDeeper(bytes, levels)) throw new TooDeep();
    return parse();
  }
  let value: T;
  try {
    value = parse();
  } catch (error) {
    throw nestsDeeper(bytes, levels) ? new TooDeep() : error;
  }
  const extent = new Extent(levels);
  extent.add(value, 1);
  // Openings that became no container stand in a text, or in a value that a later one of the same name has replaced: of
  // all levels in the text, the outer ones are there still, and the inner ones among those openings.
  const unseen = openings - extent.containers;
  if (extent.depth + unseen > levels && (extent.depth > levels || nestsDeeper(bytes, levels))) throw new TooDeep();
  return value;
}
