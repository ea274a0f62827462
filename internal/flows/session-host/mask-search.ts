// Looking for a long text in a time that grows with both lengths and no faster: the runtime's own search compares on and on
// where the two repeat themselves, for seconds in a text of some tens of thousands of characters. Whoever says both may be hostile.

import { bordersOf } from '../../base/borders.ts';

/** What `text.replaceAll(value, by)` makes of it; `by` stands for itself. */
export function replaceLong(text: string, value: string, by: string): string {
  const borders = bordersOf(value.length, (at) => value.charCodeAt(at));
  let replaced = '';
  let from = 0;
  for (let at = 0, matched = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    while (matched > 0 && value.charCodeAt(matched) !== code) matched = borders[matched - 1] as number;
    if (value.charCodeAt(matched) === code) matched += 1;
    if (matched < value.length) continue;
    replaced += text.slice(from, at + 1 - value.length) + by;
    from = at + 1;
    matched = 0;
  }
  return from === 0 ? text : replaced + text.slice(from);
}

/** So many characters at the end of the text are the beginning of the value, and not all of it. */
export function beginningAtEnd(text: string, value: string): number {
  const length = Math.min(text.length, value.length - 1);
  if (length <= 0) return 0;
  const borders = bordersOf(length, (at) => value.charCodeAt(at));
  let matched = 0;
  for (let at = text.length - length; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    while (matched > 0 && value.charCodeAt(matched) !== code) matched = borders[matched - 1] as number;
    if (value.charCodeAt(matched) === code) matched += 1;
  }
  return matched;
}
