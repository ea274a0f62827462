// What the valibot shapes of the configuration share.

import * as v from 'valibot';

/** Keeps descriptions next to the fields they speak of. */
export const described = <const S extends v.GenericSchema>(schema: S, description: string) =>
  v.pipe(schema, v.description(description));

/** A text that fits a pattern, spaces around it aside, or that holds a token which imports fill in. */
export const fitting = (pattern: string, description: string) =>
  v.pipe(v.string(), v.regex(new RegExp(`^\\s*(?:${pattern})\\s*$|\\{\\{`)), v.description(description));

export const text = (most: number, description: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(most), v.description(description));

export const namePattern = '[A-Za-z0-9_.-]{1,128}';
export const name = (what: string) => fitting(namePattern, `${what} 1 to 128 of the characters A-Z a-z 0-9 _ . -`);

export const flag = (description: string) => v.pipe(v.boolean(), v.description(description));

export const choice = <const T extends readonly [string, ...string[]]>(values: T, description: string) =>
  v.pipe(v.picklist(values), v.description(description));
