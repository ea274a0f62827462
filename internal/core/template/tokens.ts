// Path tokens of a text, and what stands at a path of a payload.

import type { Json } from '../../domain/json.ts';

/** A `{{ dot.path }}` token: its offsets in the text (UTF-16, end exclusive) and its segments. */
interface TemplateToken {
  readonly path: string;
  readonly segments: readonly string[];
  readonly start: number;
  readonly end: number;
}

/** A text read once, to be rendered many times. */
export interface Template {
  readonly text: string;
  readonly tokens: readonly TemplateToken[];
}

/** A path of segments without white space, dots or braces; one that begins with `$` is a variable and no path. */
const pathToken = /\{\{\s*([^\s{}.$][^\s{}.]*(?:\.[^\s{}.]+)*)\s*\}\}/g;

/** Finds the path tokens of a text. Braces around anything else are text. */
export function parseTemplate(text: string): Template {
  const tokens: TemplateToken[] = [];
  for (const match of text.matchAll(pathToken)) {
    const path = match[1] ?? '';
    tokens.push({ path, segments: path.split('.'), start: match.index, end: match.index + match[0].length });
  }
  return { text, tokens };
}

/** The paths of a template that a payload leaves empty, each once, in order (docs/reference/compile.md#mounts: refs must resolve). */
export function missingPaths(template: Template | string, payload: Json): string[] {
  const { tokens } = typeof template === 'string' ? parseTemplate(template) : template;
  const missing = tokens.filter(({ segments }) => isNothing(lookUp(payload, segments)));
  return [...new Set(missing.map(({ path }) => path))];
}

/** The value at a path of own properties, or undefined. Array items are reached by their index. */
export function lookUp(root: Json, segments: readonly string[]): Json | undefined {
  let value: Json | undefined = root;
  for (const segment of segments) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, segment)) return undefined;
    // The language's own, not the payload's.
    if (Array.isArray(value) && segment === 'length') return undefined;
    value = (value as { readonly [key: string]: Json | undefined })[segment];
  }
  return value;
}

/** Whether a value is printed as nothing; it need not be printed for that. */
const isNothing = (value: Json | undefined): boolean => value === undefined || value === null || value === '';

/** A value as it goes into a text. */
export function printValue(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
