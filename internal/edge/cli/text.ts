// Text for people: widths, tables, times, colours. Pure; everything that comes from a repository or a server
// passes through `clean`, so that no control sequence in it reaches a terminal.

import { stripVTControlCharacters, styleText } from 'node:util';
import { editDistance } from '../../domain/nearest.ts';

let segmenter: Intl.Segmenter | undefined;
// Made when text beyond ASCII comes by: it takes longer to make than most commands take.
const segments = (text: string): Intl.Segments => {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return segmenter.segment(text);
};
// biome-ignore format: one line reads better
const wide = /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const plain = /^[\u0020-\u007e]*$/;
// C0 (but not tab and newline), DEL, C1, and the marks that reorder text.
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// What `colourPaint` writes, and nothing else of what a terminal obeys.
const painted = /(\u001b\[(?:1|22|3[1-46]|39|90)m)/;

/** Makes text harmless to a terminal: control characters become `\xNN`; with `oneLine`, newlines and tabs too. */
export function clean(text: string, oneLine = false): string {
  const safe = text.replace(control, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
  return oneLine ? safe.replace(/\r?\n/g, '⏎').replace(/\t/g, ' ') : safe;
}

/** `clean` of text in which this program has set colours: those stay. */
export const cleanPainted = (text: string): string =>
  text
    .split(painted)
    .map((part, index) => (index % 2 === 0 ? clean(part) : part))
    .join('');

/** The same for JSON, and for YAML where such text stands in double quotes: written as an escape, which gives the same value. */
export const cleanDocument = (text: string): string =>
  text.replace(control, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Whether `clean` would change the text. */
export const isUnclean = (text: string): boolean => text.search(control) !== -1;

/** Columns that the text takes on a terminal; colour codes take none. */
export function widthOf(text: string): number {
  const bare = text.includes('\u001b') ? stripVTControlCharacters(text) : text;
  if (plain.test(bare)) return bare.length;
  let width = 0;
  for (const { segment } of segments(bare)) width += wide.test(segment) ? 2 : 1;
  return width;
}

/** Cuts text without colour codes to `width` columns, the last of them an ellipsis. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  if (width <= 1) return '…';
  let out = '';
  let used = 0;
  for (const { segment } of segments(text)) {
    const next = wide.test(segment) ? 2 : 1;
    if (used + next > width - 1) break;
    out += segment;
    used += next;
  }
  return `${out}…`;
}

export const pad = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)));

export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'cyan' | 'grey' | 'bold';
export type Paint = (colour: Colour, text: string) => string;
export const plainPaint: Paint = (_colour, text) => text;
/** For a stream that was seen to take colours. */
export const colourPaint: Paint = (colour, text) =>
  text === '' ? '' : styleText(colour, text, { validateStream: false });

export interface Cell {
  readonly text: string;
  readonly colour?: Colour;
}
export interface TableOptions {
  readonly paint: Paint;
  /** Columns of the terminal; absent where the output is no terminal, then nothing is cut. */
  readonly width?: number | undefined;
}

/**
 * An aligned table with an upper-case head. Where a width is given and the rows are wider, the widest columns
 * are cut first, none below eight columns, and never one of ids: those are there to be pasted back.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | Cell)[])[],
  options: TableOptions,
): string {
  const cells = rows.map((row) => head.map((_, column) => toCell(row[column] ?? '')));
  const widths = head.map((title, column) =>
    cells.reduce((widest, row) => Math.max(widest, widthOf(row[column]?.text ?? '')), widthOf(title)),
  );
  const isId = head.map((title) => idColumns.has(title));
  if (options.width !== undefined) shrink(widths, isId, options.width - 2 * (head.length - 1));
  const line = (row: readonly Cell[]): string =>
    row
      .map(({ text, colour }, column) => {
        const shown = cut(text, widths[column] ?? 0);
        const padded = column === row.length - 1 ? shown : pad(shown, widths[column] ?? 0);
        return colour === undefined ? padded : options.paint(colour, padded);
      })
      .join('  ')
      .trimEnd();
  const top = line(head.map((title) => ({ text: title.toUpperCase(), colour: 'bold' })));
  return [top, ...cells.map(line)].join('\n');
}

const idColumns: ReadonlySet<string> = new Set(['id', 'session', 'run', 'request']);

function toCell(value: string | Cell): Cell {
  return typeof value === 'string' ? { text: clean(value, true) } : { ...value, text: clean(value.text, true) };
}

function shrink(widths: number[], isId: readonly boolean[], room: number): void {
  const free = (): number[] => widths.filter((_, column) => isId[column] !== true);
  let over = widths.reduce((sum, width) => sum + width, 0) - room;
  while (over > 0) {
    const widest = Math.max(0, ...free());
    if (widest <= 8) return;
    const column = widths.findLastIndex((width, at) => width === widest && isId[at] !== true);
    const next = Math.max(8, ...free().filter((width) => width < widest));
    const step = Math.max(1, Math.min(over, widest - next));
    widths[column] = widest - step;
    over -= step;
  }
}

/** Aligned `name: value` lines; pairs without a value are left out. */
export function details(pairs: readonly (readonly [string, string | undefined])[], paint: Paint): string {
  const shown = pairs.filter((pair): pair is readonly [string, string] => pair[1] !== undefined && pair[1] !== '');
  const width = shown.reduce((widest, [name]) => Math.max(widest, name.length), 0);
  return shown
    .map(([name, value]) => `${paint('grey', `${name}:`)}${' '.repeat(width - name.length + 2)}${value}`)
    .join('\n');
}

/** `12s ago`, `in 5m`, `3d ago`; `-` for nothing, and the text itself where it is no time. */
export function relativeTime(at: string | null | undefined, now: Date): string {
  if (at === null || at === undefined || at === '') return '-';
  const then = Date.parse(at);
  if (Number.isNaN(then)) return clean(at, true);
  const seconds = Math.round((then - now.getTime()) / 1000);
  const span = spanText(Math.abs(seconds));
  if (Math.abs(seconds) < 1) return 'now';
  return seconds < 0 ? `${span} ago` : `in ${span}`;
}

function spanText(seconds: number): string {
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'm', seconds % 60, 's', 10);
  if (seconds < 86_400) return two(Math.floor(seconds / 3600), 'h', Math.floor((seconds % 3600) / 60), 'm', 10);
  const days = Math.floor(seconds / 86_400);
  return two(days, 'd', Math.floor((seconds % 86_400) / 3600), 'h', 7);
}

// The smaller unit is shown only while the larger one is small enough for it to matter.
function two(large: number, largeUnit: string, small: number, smallUnit: string, below: number): string {
  return large < below && small > 0 ? `${large}${largeUnit}${small}${smallUnit}` : `${large}${largeUnit}`;
}

/** A stretch of time in milliseconds: `8ms`, `1.24s`, `2m5s`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)}s`;
  return spanText(Math.round(ms / 1000));
}

/** `60s`, `5m`, `2h`, `1d` or a bare number of seconds → seconds; undefined where it is none of these. */
export function parseDurationSeconds(text: string): number | undefined {
  const match = /^(\d{1,10})(s|m|h|d)?$/.exec(text.trim());
  if (!match) return undefined;
  const factor = { s: 1, m: 60, h: 3600, d: 86_400 }[(match[2] ?? 's') as 's' | 'm' | 'h' | 'd'];
  return Number(match[1]) * factor;
}

/** `1 agent`, `3 agents`, `2 identities`. */
export function count(number: number, noun: string): string {
  if (number === 1) return `1 ${noun}`;
  return `${number} ${noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

/** The candidate nearest to `word` within a third of its length (at least 2 edits, of a word of two letters 1), for "did you mean". */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(Math.min(2, Math.max(1, word.length - 1)), Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate, bestDistance - 1);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** `3 agents, 1 environment` of compiled resources. */
export function resourceCount(resources: readonly { readonly kind: string }[]): string {
  const kinds = new Map<string, number>();
  for (const { kind } of resources) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  return [...kinds].map(([kind, number]) => count(number, kind.toLowerCase())).join(', ') || 'no resources';
}
