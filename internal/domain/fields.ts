// Reading JSON that somebody else shaped: what is not of the expected kind is absent, never an error.

import type { Json, JsonObject } from './json.ts';

/** The language's raw JSON values, which stand for numbers that a double cannot hold (core/match). */
const { isRawJSON } = JSON as unknown as { isRawJSON(value: unknown): value is { readonly rawJSON: string } };

/** The year 10000, in milliseconds: a time from there on is none that a row keeps, or that is written with four digits of a year. */
export const endlessMs = Date.UTC(10_000, 0);

/** The object, or an empty one. */
export const objectAt = (value: Json | undefined): JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value) && !isRawJSON(value)
    ? (value as JsonObject)
    : {};

export const textAt = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined);

/** An identifier as text: providers give numbers or strings, numbers of any length. */
export function idAt(value: Json | undefined): string | undefined {
  if (typeof value === 'string' && value !== '') return value;
  if (typeof value === 'number') return String(value);
  return isRawJSON(value) ? value.rawJSON : undefined;
}

export const listAt = (value: Json | undefined): readonly Json[] =>
  Array.isArray(value) ? (value as readonly Json[]) : [];

/** Leaves out what is undefined, so that a field that does not apply is absent; undefined where nothing is left. */
export function presentOf(entries: { readonly [key: string]: Json | undefined }): JsonObject {
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
}

/** As `presentOf`, but undefined where every field is absent. */
export function presentOrUndefined(entries: { readonly [key: string]: Json | undefined }): JsonObject | undefined {
  const found = presentOf(entries);
  return Object.keys(found).length === 0 ? undefined : found;
}

/** True where `text` names one of `names` after an @, as a word of its own and in any case. */
export function mentionsAny(text: string, names: readonly string[]): boolean {
  if (!text.includes('@')) return false;
  const wanted = new Set(names.map((name) => name.toLowerCase()));
  for (const match of text.matchAll(/(?<![\w@/`.+-])@([A-Za-z0-9_](?:[\w.-]*[\w])?)/g)) {
    if (wanted.has((match[1] ?? '').toLowerCase())) return true;
  }
  return false;
}
