// Small things about text.

/** By code unit, as everything is sorted that is printed, hashed or compared. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

// The end of a text. A regular expression that looks for a run of something at the end begins anew at each character of
// every such run before it, so that a text of a hundred thousand slashes and one letter takes seconds.

/** The text without the characters of `of` that it ends with; in linear time. */
export function withoutEnd(text: string, of: string): string {
  let end = text.length;
  while (end > 0 && of.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** Whether a text is a credential that a header can carry: one that was copied with the end of its line is none. */
export const isCredential = (text: unknown): text is string => typeof text === 'string' && /^[\x21-\x7e]+$/.test(text);

/** Whether a text can be kept, and said again as it was said: it has whole characters alone, and no control characters. */
export const isPlain = (text: string): boolean => text.isWellFormed() && !/\p{Cc}/u.test(text);

/** Length in characters, that is Unicode code points (docs/reference/compile.md#text-and-limits), counted only where it can matter. */
export function longerThan(text: string, most: number): boolean {
  if (text.length <= most) return false;
  if (text.length > most * 2) return true;
  let count = 0;
  for (const _ of text) count += 1;
  return count > most;
}

/** Whether JSON of the database has room for a text as it is: for NUL and half of a surrogate pair it has none. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');
