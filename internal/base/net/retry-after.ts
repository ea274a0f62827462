// `Retry-After` of an answer (RFC 9110, 10.2.3).

type Headers = { readonly [name: string]: string | string[] | undefined };

/** Seconds of it: a number, or a time, by the clock that the answer came by; undefined for none. */
export function retryAfterOf(headers: Headers): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  if (/^\s*\d+(?:\.\d+)?\s*$/.test(value)) return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
  const at = Date.parse(value);
  const date = typeof headers['date'] === 'string' ? Date.parse(headers['date']) : Number.NaN;
  return Number.isNaN(at) || Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((at - date) / 1_000));
}
