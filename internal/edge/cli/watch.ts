// `--watch` of a list: it is read again every two seconds, and each thing that came, changed or went is told by a row of its
// own, below the table, as it was seen; with --json as one line. Ctrl-C ends it; a server that is away, as while it is started
// again, is waited for.

import { nameOf } from './formats.ts';
import { isPassing } from './patience.ts';
import { pause } from './sse.ts';
import { type Cell, clean, table, widthOf } from './text.ts';
import type { Call } from './types.ts';

const pollMs = 2_000;

interface Watched<I> {
  readonly first: readonly I[];
  /** `most`: other than `limit` of them. */
  readonly read: (most?: number) => Promise<readonly I[]>;
  /** What is printed first. */
  readonly text: () => string;
  /** As many as are read, newest first; absent: all there are. */
  readonly limit: number | undefined;
  /** What leaves it may go on, and only match no more. */
  readonly isFiltered: boolean;
  readonly head: readonly string[];
  readonly rows: (items: readonly I[]) => readonly (readonly (string | Cell)[])[];
}

export async function watchList<I>(
  call: Call,
  { first, read, text, limit, isFiltered, head, rows }: Watched<I>,
): Promise<number> {
  const { screen } = call;
  let seen = stateOf(first);
  if (screen.json) for (const item of first) screen.stream(item, () => '');
  else screen.stream(undefined, text);
  const widths = widthsOf(head, rows(first));
  // Columns stay where they began, so that rows told later stand below them.
  const line = (row: readonly (string | Cell)[]): string => {
    const filler = head.map((_, column) => ' '.repeat(widths[column] ?? 0));
    const told = table(head, [row, filler], { paint: screen.paint, width: screen.width });
    return told.split('\n')[1] ?? '';
  };
  let isAway = false;
  while (!call.io.signal.aborted) {
    await pause(pollMs, call.io.signal);
    if (call.io.signal.aborted) break;
    const looked = await look({ read, limit }, seen).catch((error: unknown) => {
      if (call.io.signal.aborted) return undefined;
      if (!isPassing(error)) throw error;
      if (!isAway && !screen.json)
        screen.note(`${screen.errPaint('yellow', 'waiting:')} ${clean((error as Error).message, true)}`);
      isAway = true;
      return undefined;
    });
    if (looked === undefined) continue;
    isAway = false;
    const { missed, now } = looked;
    const { letIn, pushedOut } = moved(seen, now, limit);
    for (const [name, { item, state }] of [...now, ...missed].toReversed()) {
      if (seen.get(name)?.state === state || letIn.has(name)) continue;
      screen.stream(item, () => line(rows([item])[0] ?? []));
    }
    for (const [name, { item }] of seen) {
      if (now.has(name) || pushedOut.has(name)) continue;
      const end = isFiltered ? { matches: false } : { deleted: true };
      const told = isFiltered ? 'matches no more' : 'gone';
      screen.stream({ ...(item as object), ...end }, () => `${line(rows([item])[0] ?? [])}  (${told})`);
    }
    seen = now;
  }
  return 0;
}

/** Most that is read to find what came and went again between two looks. */
const missedMost = 10_000;

/**
 * What there is now, and of the newest what came behind the last look and is beyond the limit by now: where nothing of before
 * is left, more is read until something of it is met.
 */
async function look<I>(
  { read, limit }: Pick<Watched<I>, 'read' | 'limit'>,
  seen: States<I>,
): Promise<{ readonly now: States<I>; readonly missed: States<I> }> {
  let items = await read();
  const now = stateOf(items);
  const isMet = (): boolean => [...stateOf(items).keys()].some((name) => seen.has(name));
  for (let most = limit ?? 0; limit !== undefined && items.length >= most && most < missedMost && !isMet(); ) {
    most = Math.min(Math.max(1, most) * 10, missedMost);
    items = await read(most);
  }
  const all = stateOf(items);
  const names = [...all.keys()];
  const end = names.findIndex((name) => seen.has(name));
  // Where nothing of before is met anywhere, nobody can tell what came from what was always beyond the limit.
  const came = new Set(end !== -1 ? names.slice(0, end) : seen.size === 0 ? names : []);
  return { now, missed: new Map([...all].filter(([name]) => came.has(name) && !now.has(name))) };
}

/**
 * What is no news where as many are read as there is room for: what took the place of one that went, which is older than all
 * that was there before; and where there is nothing of that kind, what newer things pushed out.
 */
function moved(
  seen: ReadonlyMap<string, unknown>,
  now: ReadonlyMap<string, unknown>,
  limit: number | undefined,
): { readonly letIn: ReadonlySet<string>; readonly pushedOut: ReadonlySet<string> } {
  const isFull = (one: ReadonlyMap<string, unknown>): boolean => limit !== undefined && one.size >= limit;
  const behind = (one: ReadonlyMap<string, unknown>, other: ReadonlyMap<string, unknown>): string[] => {
    const names = [...one.keys()];
    return names.slice(names.findLastIndex((name) => other.has(name)) + 1);
  };
  const older = behind(now, seen);
  // Where nothing of before is left, all of it is new.
  const letIn = isFull(seen) && older.length < now.size ? older : [];
  return { letIn: new Set(letIn), pushedOut: new Set(isFull(now) && letIn.length === 0 ? behind(seen, now) : []) };
}

type States<I> = ReadonlyMap<string, { readonly item: I; readonly state: string }>;

const stateOf = <I>(items: readonly I[]): States<I> =>
  new Map(
    items.map((item, index) => {
      const { id, resourceId } = Object(item) as { readonly id?: unknown; readonly resourceId?: unknown };
      const key = id ?? resourceId ?? nameOf(item) ?? index;
      return [String(key), { item, state: JSON.stringify(item) }];
    }),
  );

const widthsOf = (head: readonly string[], rows: readonly (readonly (string | Cell)[])[]): number[] =>
  head.map((title, column) =>
    rows.reduce((widest, row) => {
      const cell = row[column] ?? '';
      return Math.max(widest, widthOf(typeof cell === 'string' ? cell : cell.text));
    }, widthOf(title)),
  );
