// A template rendered up to a bound. A template of 20,000 characters repeats a payload four thousand times: what is beyond
// the bound is never put together, and its size is counted without printing anything twice.

import type { Json } from '../../domain/json.ts';
import { utf8Size } from '../../domain/utf8.ts';
import { lookUp, parseTemplate, printValue, type Template } from './tokens.ts';

/** The beginning of a rendering. */
export interface Rendering {
  readonly text: string;
  /** Bytes of UTF-8 that would follow the text; counted when it is asked for. */
  beyond(): number;
}

const nothing = (): number => 0;

/**
 * Renders a template against a payload, which is the root of every path, as far as `bytesMax` bytes of UTF-8 may go:
 * the text may be longer by one value, and whatever it lacks is known by its size. Strings, numbers and booleans go in
 * as they are, objects and arrays as JSON, and what is missing or null as nothing (docs/reference/events.md).
 */
export function renderWithin(template: Template | string, payload: Json, bytesMax: number): Rendering {
  const { text, tokens } = typeof template === 'string' ? parseTemplate(template) : template;
  let rendered = '';
  let from = 0;
  for (const [at, { segments, start, end }] of tokens.entries()) {
    rendered += text.slice(from, start);
    // No character has fewer bytes than units.
    if (rendered.length > bytesMax) return { text: rendered, beyond: () => sizeFrom({ text, tokens }, at, payload) };
    rendered += printValue(lookUp(payload, segments));
    from = end;
  }
  return { text: rendered + text.slice(from), beyond: nothing };
}

/** Bytes of a rendering from one of its tokens on. */
function sizeFrom({ text, tokens }: Template, first: number, payload: Json): number {
  const known = new Map<string, number>();
  let size = 0;
  let from = tokens[first]?.start ?? text.length;
  for (const { path, segments, start, end } of tokens.slice(first)) {
    let printed = known.get(path);
    if (printed === undefined) {
      printed = printedSize(lookUp(payload, segments));
      known.set(path, printed);
    }
    size += utf8Size(text.slice(from, start)) + printed;
    from = end;
  }
  return size + utf8Size(text.slice(from));
}

function printedSize(value: Json | undefined): number {
  return typeof value === 'object' && value !== null ? jsonSize(value) : utf8Size(printValue(value));
}

/** Numbers that are kept by their digits, which the type library does not know yet. */
const { isRawJSON } = JSON as unknown as { isRawJSON(value: unknown): boolean };

/** Of objects and arrays that are looked into once, however many of those around them are asked for. */
const sizes = new WeakMap<object, number>();
/** Smaller ones are counted again rather than remembered. */
const rememberedFrom = 256;

/** Bytes of a value as JSON text, which is not made. Payloads nest at most as deep as intakes let them. */
function jsonSize(value: Json): number {
  if (typeof value !== 'object' || value === null || isRawJSON(value)) return utf8Size(JSON.stringify(value));
  const known = sizes.get(value);
  if (known !== undefined) return known;
  let size = 2;
  let members = 0;
  if (Array.isArray(value)) {
    members = value.length;
    for (const item of value as readonly (Json | undefined)[]) size += item === undefined ? 4 : jsonSize(item);
  } else {
    for (const [key, item] of Object.entries(value as { readonly [key: string]: Json | undefined })) {
      if (item === undefined) continue;
      members += 1;
      size += utf8Size(JSON.stringify(key)) + 1 + jsonSize(item);
    }
  }
  size += Math.max(0, members - 1);
  if (size >= rememberedFrom) sizes.set(value, size);
  return size;
}
