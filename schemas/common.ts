// What the authored shapes share. These are shapes for editors: what one file may hold before imports and merging make
// it whole. So nearly every field may be absent, the root is open, and a `{{ $name }}` token may stand in any text.

import * as v from 'valibot';

/** Keeps descriptions next to the fields they speak of. */
export const described = <const S extends v.GenericSchema>(schema: S, description: string) =>
  v.pipe(schema, v.description(description));

/** A text that fits a pattern, spaces around it aside, or that holds a token which imports fill in. */
export const fitting = (pattern: string, description: string) =>
  v.pipe(v.string(), v.regex(new RegExp(`^\\s*(?:${pattern})\\s*$|\\{\\{`)), v.description(description));

export const text = (most: number, description: string) =>
  v.pipe(v.string(), v.minLength(1), v.maxLength(most), v.description(description));

export const NAME = '[A-Za-z0-9_.-]{1,128}';
export const name = (what: string) => fitting(NAME, `${what} 1 to 128 of the characters A-Z a-z 0-9 _ . -`);

export const whole = (least: number, most: number, description: string) =>
  v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most), v.description(description));

export const flag = (description: string) => v.pipe(v.boolean(), v.description(description));

export const choice = <const T extends readonly [string, ...string[]]>(values: T, description: string) =>
  v.pipe(v.picklist(values), v.description(description));

export const stringMap = (description: string) =>
  v.pipe(v.record(v.pipe(v.string(), v.minLength(1)), v.string()), v.description(description));

/** Any JSON object: free-form context. */
export const jsonObject = (description: string) =>
  v.pipe(v.record(v.string(), v.unknown()), v.description(description));

export const scalar = v.union([v.string(), v.number(), v.boolean(), v.null()]);

export const secretRef = v.strictObject({
  $secret: name('Name of the secret, resolved at session launch: project first, then organization.'),
  optional: v.optional(flag('True: the variable is left out where the secret does not exist or has expired.')),
});

/** Environment variables of agents and environments (spec, Environment variables). */
export const envMap = (description: string) =>
  v.pipe(
    v.record(v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$|\{\{/)), v.union([v.string(), secretRef])),
    v.description(description),
  );

/** A prompt: plain text, the text of a file, or text put behind the imported base (spec, File-backed strings). */
export const prompt = (most: number, description: string) =>
  v.pipe(
    v.union([
      text(most, description),
      v.strictObject({ file: text(4096, 'Path of the file, relative to this one.') }),
      v.strictObject({
        append: v.pipe(v.string(), v.description('Put behind the imported base, without a separator.')),
      }),
    ]),
    v.description(description),
  );
