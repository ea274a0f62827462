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

/** Whether a header can carry the text as a credential; one that was copied together with a line break is refused. */
export const isCredential = (text: unknown): text is string => typeof text === 'string' && /^[\x21-\x7e]+$/.test(text);

/** Whether a text can be stored and repeated as it is: it has no half of a surrogate pair and no control character. */
export const isPlain = (text: string): boolean => text.isWellFormed() && !/\p{Cc}/u.test(text);

/**
 * Whether a text has more characters than `most`, that is Unicode code points (docs/reference/compile.md#text-and-limits).
 * Counts them only where its length in code units does not tell.
 */
export function longerThan(text: string, most: number): boolean {
  if (text.length <= most) return false;
  if (text.length > most * 2) return true;
  let count = 0;
  for (const _ of text) count += 1;
  return count > most;
}

/** Whether a JSON column of the database can hold the text: it takes no NUL and no half of a surrogate pair. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');
