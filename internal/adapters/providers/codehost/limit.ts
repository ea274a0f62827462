// How long the code host wants to be left alone, as an answer says it.

import type { Dispatcher } from 'undici';
import { retryAfterOf } from '../../../base/net/retry-after.ts';

type Headers = Dispatcher.ResponseData['headers'];

/** The primary limit is used up. */
export const isSpent = (headers: Headers): boolean => headers['x-ratelimit-remaining'] === '0';

/** Seconds that a refusal names: until then, or until the primary limit begins anew; undefined: it names none. */
export function namedSeconds(headers: Headers): number | undefined {
  const after = retryAfterOf(headers);
  if (after !== undefined || !isSpent(headers)) return after;
  const reset = Number(headers['x-ratelimit-reset'] ?? Number.NaN) - Number(new Date(String(headers['date']))) / 1_000;
  return Number.isNaN(reset) ? undefined : Math.max(1, reset);
}

/** Whether a refusal is one: by its status, by what its headers name, or by what it says. */
export const isLimit = (status: number, headers: Headers, said: string): boolean =>
  status === 429 ||
  (status === 403 && (namedSeconds(headers) !== undefined || isSpent(headers) || /rate limit|abuse/i.test(said)));
