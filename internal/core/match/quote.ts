// Values of a payload as an explanation quotes them (docs/reference/http-api.md#errors): a bounded beginning of what may be large. The
// work is bounded as well: nothing is written out beyond what is shown, and the keys of an object are listed once.

import type { Json } from '../../domain/json.ts';
import { utf8Prefix, utf8Size } from '../../domain/utf8.ts';
import { exactText } from './number.ts';

/** Bytes of UTF-8 that are quoted of one value. */
const quotedMax = 4_096;

export interface Quoted {
  /** The value itself, or its beginning: of a text as it is, of anything else as the JSON that it is written in. */
  readonly value: Json | undefined;
  /** Only there where the value is longer than what is shown. */
  readonly truncated?: true;
}

/** A function that quotes values of one payload; objects and lists that it met before cost nothing again. */
export function createQuoter(bytesMax = quotedMax): (value: Json | undefined) => Quoted {
  const known = new Map<object, Quoted>();
  const keys = new Map<object, readonly string[]>();
  const keysOf: Keys = (value) => {
    const found = keys.get(value) ?? Object.keys(value);
    keys.set(value, found);
    return found;
  };
  return (value) => {
    if (typeof value === 'string') return cut(value, value, bytesMax);
    if (typeof value !== 'object' || value === null) return { value };
    const found = known.get(value);
    if (found !== undefined) return found;
    const quoted = cut(value, beginning(value, bytesMax + 1, keysOf), bytesMax);
    known.set(value, quoted);
    return quoted;
  };
}

function cut(value: Json, text: string, bytesMax: number): Quoted {
  if (text.length <= bytesMax && utf8Size(text) <= bytesMax) return { value };
  return { value: utf8Prefix(text, bytesMax), truncated: true };
}

type Keys = (value: object) => readonly string[];
type Part = string | { readonly value: Json };

/** The first characters of a value's JSON, at least `charsMax` where it has so many. Depth costs no stack. */
function beginning(value: Json, charsMax: number, keysOf: Keys): string {
  let text = '';
  const open = [partsOf(value, charsMax, keysOf)];
  for (let top = open.at(-1); top !== undefined && text.length < charsMax; top = open.at(-1)) {
    const { done, value: part } = top.next();
    if (done === true) open.pop();
    else if (typeof part === 'string') text += part;
    else open.push(partsOf(part.value, charsMax, keysOf));
  }
  return text;
}

/** What a value is written as; what stands inside it is left to whoever reads. A text is cut after `charsMax`. */
function* partsOf(value: Json, charsMax: number, keysOf: Keys): Generator<Part, undefined> {
  const digits = exactText(value);
  if (digits !== undefined) {
    yield digits.slice(0, charsMax);
  } else if (typeof value === 'string') {
    yield writtenText(value, charsMax);
  } else if (typeof value !== 'object' || value === null) {
    yield JSON.stringify(value);
  } else if (Array.isArray(value)) {
    let separator = '[';
    for (const item of value as readonly Json[]) {
      yield separator;
      yield { value: item };
      separator = ',';
    }
    yield separator === '[' ? '[]' : ']';
  } else {
    let separator = '{';
    for (const key of keysOf(value)) {
      const item = (value as { readonly [key: string]: Json | undefined })[key];
      if (item === undefined) continue;
      yield `${separator}${writtenText(key, charsMax)}:`;
      yield { value: item };
      separator = ',';
    }
    yield separator === '{' ? '{}' : '}';
  }
  return undefined;
}

/** A text as JSON, its beginning where it has more characters than are wanted. */
const writtenText = (text: string, charsMax: number): string =>
  text.length > charsMax ? JSON.stringify(text.slice(0, charsMax)).slice(0, -1) : JSON.stringify(text);
