// Text as the database can hold it. Payloads are legal JSON with NUL and halves of surrogate pairs in them; text columns
// and jsonb refuse both.

import type { Json } from '../../../domain/json.ts';
import { isStorable } from '../../../domain/text.ts';

/** No NUL, no half of a surrogate pair: U+FFFD stands in their place. */
export const storable = (text: string): string =>
  isStorable(text) ? text : text.toWellFormed().replaceAll('\0', '\uFFFD');

/** JSON text whose strings are storable, names of members too; numbers that a double cannot hold keep their digits. */
export const storableJson = (value: Json): string => {
  const text = JSON.stringify(value);
  return text.includes('\\u') ? JSON.stringify(value, (_key, member: unknown) => storableMember(member)) : text;
};

function storableMember(member: unknown): unknown {
  if (typeof member === 'string') return storable(member);
  if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
  const isOdd = !Object.keys(member).every(isStorable);
  return isOdd ? Object.fromEntries(Object.entries(member).map(([name, one]) => [storable(name), one])) : member;
}
