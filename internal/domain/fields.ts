// Reading JSON that somebody else shaped: what is not of the expected kind is absent, never an error.

import type { Json, JsonObject } from './json.ts';

/** The language's raw JSON values, which stand for numbers that a double cannot hold (core/match). */
const { isRawJSON } = JSON as unknown as { isRawJSON(value: unknown): value is { readonly rawJSON: string } };

/** The year 10000, in milliseconds: later times have no year of four digits, and rows keep none. */
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

/** The entries without those that are undefined: a field that does not apply is absent. */
export function presentOf(entries: { readonly [key: string]: Json | undefined }): JsonObject {
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
}

/** As `presentOf`, but undefined where no entry is left. */
export function presentOrUndefined(entries: { readonly [key: string]: Json | undefined }): JsonObject | undefined {
  const found = presentOf(entries);
  return Object.keys(found).length === 0 ? undefined : found;
}

/** Names that are one word of ASCII, as most are: found among the words of a text, however many names there are. */
const plainName = /^[a-z0-9_](?:[\w.-]*\w)?$/;
/** Where a name is only the beginning of a longer one. Scripts that write words together end none by going on. */
const goesOn = /[.-]*(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}])[\p{L}\p{M}\p{N}_]/uy;

/** True where `text` names one of `names` after an @, as words of their own and in any case. */
export function mentionsAny(text: string, names: readonly string[]): boolean {
  if (!text.includes('@')) return false;
  const plain = (written: string): string => written.normalize('NFC').toLowerCase();
  const wanted = new Set(names.map(plain));
  for (const match of text.matchAll(/(?<![\w@/`.+-])@([A-Za-z0-9_](?:[\w.-]*[\w])?)/g)) {
    if (wanted.has((match[1] ?? '').toLowerCase())) return true;
  }
  const others = new Set([...wanted].filter((name) => !plainName.test(name)));
  return others.size > 0 && mentionsOther(plain(text), others);
}

/** Names letter by letter: of a text that repeats their beginnings, each letter is looked at once for each @. */
interface Letters {
  isName: boolean;
  readonly next: Map<number, Letters>;
}

function lettersOf(names: ReadonlySet<string>): Letters {
  const root: Letters = { isName: false, next: new Map() };
  for (const name of names) {
    let at = root;
    for (let index = 0; index < name.length; index += 1) {
      const unit = name.charCodeAt(index);
      const next: Letters = at.next.get(unit) ?? { isName: false, next: new Map() };
      at.next.set(unit, next);
      at = next;
    }
    at.isName = true;
  }
  return root;
}

function mentionsOther(text: string, names: ReadonlySet<string>): boolean {
  const root = lettersOf(names);
  for (const { index } of text.matchAll(/(?<![\w@/`.+-])@/g)) {
    let end = index + 1;
    for (let at = root.next.get(text.charCodeAt(end)); at !== undefined; at = at.next.get(text.charCodeAt(end))) {
      end += 1;
      goesOn.lastIndex = end;
      if (at.isName && !goesOn.test(text)) return true;
    }
  }
  return false;
}
