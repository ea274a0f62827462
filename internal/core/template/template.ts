// Tokens in text, of two kinds. `{{ $name }}` is a variable, replaced once when a document is imported (spec, variables;
// contract section 2; decisions 29-32). `{{ dot.path }}` is a place in an event's payload, rendered when a message is
// made (spec, Events: trigger message rendering). Each kind leaves the other alone.
// It decides what a token is and what it becomes. It never walks a prototype, never reads a value again for tokens,
// and takes linear time. Where a text comes from, and which texts are templates, is for the callers to know.

import type { Json } from '../../domain/json.ts';

export { substituteVariables } from './variables.ts';

/** A `{{ dot.path }}` token: its offsets in the text (UTF-16, end exclusive) and its segments. */
export interface TemplateToken {
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
const PATH_TOKEN = /\{\{\s*([^\s{}.$][^\s{}.]*(?:\.[^\s{}.]+)*)\s*\}\}/g;

/** Finds the path tokens of a text. Braces around anything else are text. */
export function parseTemplate(text: string): Template {
  const tokens: TemplateToken[] = [];
  for (const match of text.matchAll(PATH_TOKEN)) {
    const path = match[1] ?? '';
    tokens.push({ path, segments: path.split('.'), start: match.index, end: match.index + match[0].length });
  }
  return { text, tokens };
}

/**
 * Renders a template against a payload, which is the root of every path. Strings, numbers and booleans go in as they
 * are, objects and arrays as JSON, and what is missing or null as nothing (spec, Events).
 */
export function renderTemplate(template: Template | string, payload: Json): string {
  const { text, tokens } = typeof template === 'string' ? parseTemplate(template) : template;
  let rendered = '';
  let from = 0;
  for (const { segments, start, end } of tokens) {
    rendered += text.slice(from, start) + printValue(lookUp(payload, segments));
    from = end;
  }
  return rendered + text.slice(from);
}

/** The paths of a template that a payload leaves empty, each once, in order (spec, Mounts: refs must resolve). */
export function missingPaths(template: Template | string, payload: Json): string[] {
  const { tokens } = typeof template === 'string' ? parseTemplate(template) : template;
  const missing = tokens.filter(({ segments }) => printValue(lookUp(payload, segments)) === '');
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

function printValue(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
