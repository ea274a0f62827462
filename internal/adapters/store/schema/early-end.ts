// Pages whose rows may each be large: specs, runs, contexts. Such a page ends early, so that what one call reads, and what is
// made of it, has a bound whatever there is; it has one row at least.

/** Bytes of rows after which a page ends. */
export const pageBytesMax = 4 * 1_048_576;

export interface EarlyEnd<R> {
  readonly rows: R[];
  /** There are more of those that were asked for. */
  readonly isCut: boolean;
}

/** What a row is found with, by which the page ends. */
export interface Sized {
  readonly listedCount: number;
  readonly bytesBefore: unknown;
}

/** `listed`: SQL of the page; `size`: SQL of the bytes of one of its rows; `order`: SQL of their order, in their names. */
export const endingEarly = (
  listed: string,
  {
    size,
    order,
    bytesMax = pageBytesMax,
  }: { readonly size: string; readonly order: string; readonly bytesMax?: number },
): string =>
  `with listed as materialized (${listed}), sized as (
     select *, count(*) over ()::int as "listedCount",
       coalesce(sum(${size}) over (order by ${order} rows between unbounded preceding and 1 preceding), 0) as "bytesBefore" from listed
   ) select * from sized where "bytesBefore" < ${bytesMax} order by ${order}`;

/** The SQL of how many bytes of JSON these columns are. */
export const jsonBytes = (...columns: readonly string[]): string =>
  columns.map((column) => `coalesce(octet_length(${column}::text), 0)`).join(' + ');

/** What `endingEarly` has found, without what it was found by. */
export function earlyEnd<R extends object>(found: readonly (R & Sized)[]): EarlyEnd<R> {
  const rows = found.map(({ listedCount: _count, bytesBefore: _bytes, ...row }) => row as unknown as R);
  return { rows, isCut: rows.length < (found[0]?.listedCount ?? 0) };
}
