// Parts that the inputs of several tools share.

import { isStorable } from '../internal/domain/text.ts';
import * as v from 'valibot';

/** Something to say: not blank. */
export const said = (what: string, most = 100_000) =>
  v.pipe(
    v.string(),
    v.check((text) => text.trim() !== '', 'Expected some text'),
    v.maxLength(most, `Expected at most ${most} characters`),
    v.description(what),
  );
/** A short text that is stored or looked up as it is. */
export const word = (what: string, most: number) =>
  v.pipe(
    v.string(),
    v.nonEmpty('Expected some text'),
    v.maxLength(most, `Expected at most ${most} characters`),
    v.check(isStorable, 'Expected text without NUL and lone surrogates'),
    v.description(what),
  );
export const page = (what: string) =>
  v.optional(
    v.pipe(
      v.number(),
      v.integer('Expected a whole number'),
      v.minValue(1, 'Expected at least 1'),
      v.maxValue(200, 'Expected at most 200'),
      v.description(`${what} at most, 1 to 200.`),
    ),
    50,
  );
