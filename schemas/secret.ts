// What a client may write about a secret (docs/reference/secrets.md#fields, docs/reference/limits.md). No message repeats
// what was sent: it may be, or hold, the value.

import * as v from 'valibot';
import { isStorable } from '../internal/domain/text.ts';

/** Bytes of a value in UTF-8. It also has to fit one variable of a process's environment. */
export const secretBytesMax = 64 * 1024;
/** Ten years of 365 days. */
const idleSecondsMax = 315_360_000;

const characters = (text: string): number => [...text].length;
const bytes = (text: string): number => new TextEncoder().encode(text).length;

export const secretName = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-'),
);

export const secretValue = v.pipe(
  v.string('Expected a string'),
  v.nonEmpty('Expected a value that is not empty'),
  // Also what no environment variable could hold, and what would be stored as something else.
  v.check(isStorable, 'Expected text without NUL and lone surrogates'),
  v.check((text) => bytes(text) <= secretBytesMax, `Expected at most ${secretBytesMax} bytes`),
);

export const secretDescription = v.pipe(
  v.string('Expected a string'),
  v.check((text) => characters(text) <= 1024, 'Expected at most 1024 characters'),
  v.check(isStorable, 'Expected text without NUL and lone surrogates'),
);

const firstMs = Date.parse('0000-01-01T00:00:00Z');
const lastMs = Date.parse('9999-12-31T23:59:59.999Z');

/** Whether a time is written with a year of four digits, in UTC: other ones are no times to who reads an answer. */
export const isOfFourDigits = (ms: number): boolean => ms >= firstMs && ms <= lastMs;

/**
 * Milliseconds of an ISO 8601 date and time with a zone, undefined for anything else, such as February 30, and for what in
 * UTC lies in a year of five digits or before the year 0.
 */
export function isoMillis(text: string): number | undefined {
  const match = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:[.,]\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})$/.exec(text);
  if (match === null) return undefined;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0));
  const calendar = new Date(Date.UTC(year ?? 0, (month ?? 0) - 1, day));
  if (calendar.getUTCMonth() + 1 !== month || calendar.getUTCDate() !== day) return undefined;
  if ((hour ?? 24) > 23 || (minute ?? 60) > 59 || (second ?? 60) > 59) return undefined;
  const zone = (match[7] ?? '').replace(/^([+-]\d{2}):?(\d{2})$/, '$1:$2');
  const seconds = match[6] === undefined ? ':00' : '';
  const at = Date.parse(`${text.slice(0, text.length - (match[7]?.length ?? 0)).replace(',', '.')}${seconds}${zone}`);
  return isOfFourDigits(at) ? at : undefined;
}

/** A time or null. */
export const expiresAt = v.nullable(
  v.pipe(
    v.string('Expected an ISO 8601 time'),
    v.check((text) => isoMillis(text) !== undefined, 'Expected an ISO 8601 date and time with a zone'),
  ),
);

const idleExpirySeconds = v.nullable(
  v.pipe(
    v.number('Expected a number'),
    v.integer('Expected a whole number'),
    v.minValue(1, 'Expected at least 1'),
    v.maxValue(idleSecondsMax, `Expected at most ${idleSecondsMax}`),
  ),
);

const label = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?';
/** The last label of a name is never all digits: an address is not a name (as browsers tell them apart). */
const hostname = new RegExp(`^(?=.{1,253}$)(${label}\\.)*(?!\\d+$)${label}$`);
const refusedHeaders = ['connection', 'content-length', 'host', 'transfer-encoding'];

export const injectionSchema = v.strictObject({
  hosts: v.pipe(
    v.array(
      v.pipe(
        v.string('Expected a hostname'),
        v.regex(hostname, 'Expected an exact lowercase hostname: no wildcard, scheme, port, path or address'),
      ),
    ),
    v.minLength(1, 'Expected at least 1 host'),
    v.maxLength(16, 'Expected at most 16 hosts'),
    v.check((hosts) => new Set(hosts).size === hosts.length, 'Expected each host once'),
  ),
  header: v.pipe(
    v.string('Expected a header name'),
    v.regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/, 'Expected a header name of at most 128 characters'),
    v.check((name) => !refusedHeaders.includes(name.toLowerCase()), `Expected none of ${refusedHeaders.join(', ')}`),
  ),
  format: v.optional(
    v.pipe(
      v.string('Expected a string'),
      v.check((text) => characters(text) <= 256, 'Expected at most 256 characters'),
      v.includes('{value}', 'Expected the placeholder {value}'),
      v.check((text) => ![...text].some((one) => one < ' ' || one === '\u007f'), 'Expected no control characters'),
      v.check((text) => text.isWellFormed(), 'Expected text without lone surrogates'),
    ),
  ),
});

const settings = {
  description: v.optional(v.nullable(secretDescription)),
  protected: v.optional(v.boolean('Expected true or false')),
  expiresAt: v.optional(expiresAt),
  idleExpirySeconds: v.optional(idleExpirySeconds),
  injection: v.optional(v.nullable(injectionSchema)),
};

/** PUT: a full write; what is left out gets its default. */
export const secretPut = v.strictObject({ value: secretValue, ...settings });
/** PATCH: what is left out stays; null clears. There is no way to change the value here. */
export const secretPatch = v.strictObject(settings);
export const secretRotate = v.strictObject({ value: secretValue });

export type SecretSettings = v.InferOutput<typeof secretPatch>;
