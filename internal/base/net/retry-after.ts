// `Retry-After` of an answer (RFC 9110, 10.2.3).

type Headers = { readonly [name: string]: string | string[] | undefined };

/** In each of the forms of RFC 9110, 5.6.7: the language reads much else as a time, `-5` too. */
const dateShape = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/** Seconds of it: a number, or a time, by the clock that the answer came by; undefined for none. */
export function retryAfterOf(headers: Headers): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  if (/^\s*\d+(?:\.\d+)?\s*$/.test(value)) return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  const at = dateShape.test(value) ? Date.parse(value) : Number.NaN;
  const date = typeof headers['date'] === 'string' ? Date.parse(headers['date']) : Number.NaN;
  return Number.isNaN(at) || Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((at - date) / 1_000));
}
