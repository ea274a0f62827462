// Findings → diagnostics (sorted, each once, with line and column), and diagnostics → text with a caret.

import { maskCredentials, maskLine } from '../../domain/credential.ts';
import { type Diagnostic, excerptOf, type Finding, type Range } from '../../domain/diagnostic.ts';
import { LineStarts } from './lines.ts';
import { compareText } from '../../domain/text.ts';

const excerptLength = 200;
/** Of an excerpt, above the line that it is about. */
const linesBefore = 2;
/** What is read of a line to judge what of it may be shown. */
const lineLength = 4096;
/** Lines of one hidden value that are kept track of each by itself; further ones are hidden whole. */
const hiddenLines = 100;
/** Hidden values of one line that are kept track of; with more, it is hidden whole. */
const spansMax = 100;

/** The lines of a file, and its text where it is to be shown. */
type TableOf = (file: string) => LineStarts | null;
type ShownOf = (file: string) => { readonly table: LineStarts; readonly text: string } | null;

/** What no excerpt may show: a finding may stand on the line of a value that another one hides. */
class Hidden {
  readonly #spans = new Map<string, [from: number, to: number][]>();
  /** By file, of values with very many lines: the lines beyond those that are kept track of. */
  readonly #blocks = new Map<string, [from: number, to: number][]>();

  constructor(findings: readonly Finding[], tableOf: TableOf) {
    for (const { hides } of findings) {
      const table = hides === undefined ? null : tableOf(hides.file);
      if (hides === undefined || table === null) continue;
      const [from, to] = [table.at(hides.start), table.at(hides.end)];
      const tracked = Math.min(to.line, from.line + hiddenLines);
      for (let line = from.line; line <= tracked; line++) {
        const first = line === from.line ? from.column - 1 : 0;
        const last = line === to.line ? to.column - 1 : lineLength;
        const key = `${line} ${hides.file}`;
        const before = this.#spans.get(key) ?? [];
        this.#spans.set(key, before.length < spansMax ? [...before, [first, last]] : [[0, lineLength]]);
      }
      if (tracked < to.line)
        this.#blocks.set(hides.file, [...(this.#blocks.get(hides.file) ?? []), [tracked + 1, to.line]]);
    }
  }

  /** The line as it may be shown: no credential, and nothing of what is hidden; columns stay. */
  excerpt({ table, text }: NonNullable<ReturnType<ShownOf>>, file: string, line: number): string {
    let shown = maskLine(table.line(text, line, lineLength));
    if (this.#blocks.get(file)?.some(([from, to]) => line >= from && line <= to) === true)
      shown = '*'.repeat(shown.length);
    for (const [from, to] of this.#spans.get(`${line} ${file}`) ?? []) {
      const end = Math.min(to, shown.length);
      shown = shown.slice(0, from) + '*'.repeat(Math.max(0, end - from)) + shown.slice(end);
    }
    return shown.slice(0, excerptLength).toWellFormed();
  }
}

/**
 * Turns findings into diagnostics: offsets become lines and columns in `textOf(file)`, sorted by file, line, column
 * (docs/reference/compile.md#output), and of several with one place, code and mistake one is kept
 * (docs/reference/compile.md#files). What has no file comes first.
 */
export function printDiagnostics(
  findings: readonly Finding[],
  textOf: (file: string) => string | undefined,
): Diagnostic[] {
  const { tableOf, shownOf } = readerOf(textOf);
  const hidden = new Hidden(findings, tableOf);
  const kept = new Map<string, Diagnostic>();
  for (const finding of byFile(findings)) {
    const printed = printOne(finding, tableOf, shownOf, hidden);
    const { file, line, column, code } = printed;
    const key = JSON.stringify([file ?? '', line ?? 0, column ?? 0, code, mistakeOf(printed)]);
    if (!kept.has(key)) kept.set(key, printed);
  }
  return [...kept.values()].sort(compare);
}

/**
 * The message without where in its list an item stands: one that several agents import has another place in the list of each,
 * and a mistake in it is one.
 */
function mistakeOf({ message, path = '' }: Diagnostic): string {
  const item = /^([^.[]+)\[\d+\]/.exec(path);
  return item === null ? message : message.replaceAll(item[0], `${item[1]}[]`);
}

/** Keeps where the lines of all files begin, and of the texts only the last: a tree of broken files is as large as trees may be. */
function readerOf(textOf: (file: string) => string | undefined): {
  readonly tableOf: TableOf;
  readonly shownOf: ShownOf;
} {
  const tables = new Map<string, LineStarts | null>();
  let last: { readonly file: string; readonly text: string | undefined } | undefined;
  const read = (file: string): string | undefined => {
    if (last?.file !== file) last = { file, text: textOf(file) };
    return last.text;
  };
  const tableOf: TableOf = (file) => {
    const known = tables.get(file);
    if (known !== undefined) return known;
    const text = read(file);
    const table = text === undefined ? null : new LineStarts(text);
    tables.set(file, table);
    return table;
  };
  const shownOf: ShownOf = (file) => {
    const table = tableOf(file);
    const text = table === null ? undefined : read(file);
    return table === null || text === undefined ? null : { table, text };
  };
  return { tableOf, shownOf };
}

/** Those of a file one after the other, in the order that they have: each text is read once. */
function byFile(findings: readonly Finding[]): Finding[] {
  const files = new Map<string, Finding[]>();
  for (const finding of findings) {
    const file = finding.range?.file ?? '';
    const known = files.get(file);
    if (known === undefined) files.set(file, [finding]);
    else known.push(finding);
  }
  return [...files.values()].flat();
}

function printOne(finding: Finding, tableOf: TableOf, shownOf: ShownOf, hidden: Hidden): Diagnostic {
  const file = finding.range?.file ?? finding.file;
  const { severity, code } = finding;
  const { message, path, hint } = shownTexts(finding);
  return {
    severity,
    code,
    message,
    ...(file === undefined ? {} : { file }),
    ...(finding.range === undefined ? {} : place(finding.range, shownOf(finding.range.file), hidden)),
    ...(path === undefined ? {} : { path }),
    ...(hint === undefined ? {} : { hint }),
    ...(finding.related === undefined || finding.related.length === 0
      ? {}
      : {
          related: finding.related.map(({ message: text, range }) => ({
            message: maskCredentials(text),
            ...start(range, tableOf),
          })),
        }),
  };
}

const masked = (text: string): string => maskCredentials(text.slice(0, lineLength));

/** What a finding says, without what looks like a credential. */
function shownTexts({ message, path, hint }: Finding) {
  return {
    message: masked(message),
    path: path === undefined ? undefined : masked(path),
    hint: hint === undefined ? undefined : masked(hint),
  };
}

function place(range: Range, shown: ReturnType<ShownOf>, hidden: Hidden): Partial<Diagnostic> {
  if (shown === null) return {};
  const { table } = shown;
  const from = table.at(range.start);
  const to = table.at(range.end);
  const at = { line: from.line, column: from.column, endLine: to.line, endColumn: to.column };
  const first = Math.max(1, from.line - linesBefore);
  const numbers = Array.from({ length: from.line - first + 1 }, (_, index) => first + index);
  const excerpt = excerptOf(
    numbers.map((line) => hidden.excerpt(shown, range.file, line)),
    first,
    at,
  );
  return { ...at, ...(excerpt !== undefined && { excerpt }) };
}

function start(range: Range, tableOf: TableOf): { file: string; line: number; column: number } {
  return { file: range.file, ...(tableOf(range.file)?.at(range.start) ?? { line: 1, column: 1 }) };
}

function compare(a: Diagnostic, b: Diagnostic): number {
  return (
    compareText(a.file ?? '', b.file ?? '') ||
    (a.line ?? 0) - (b.line ?? 0) ||
    (a.column ?? 0) - (b.column ?? 0) ||
    compareText(a.severity, b.severity) ||
    compareText(a.code, b.code) ||
    compareText(a.message, b.message)
  );
}

/** What a part of a printed diagnostic is, so that a terminal can colour it. */
export type DiagnosticPart =
  | 'place'
  | 'error'
  | 'warning'
  | 'code'
  | 'message'
  | 'excerpt'
  | 'caret'
  | 'hint'
  | 'related';
export type Style = (part: DiagnosticPart, text: string) => string;

/** Prints one diagnostic for people: place, severity, code and message, the line with a caret, the hint, related places. */
export function renderDiagnostic(diagnostic: Diagnostic, style: Style = (_part, text) => text): string {
  const { file, line, column, severity, code, message, excerpt, hint, related } = diagnostic;
  const at = [file, line, column].filter((part) => part !== undefined).map((part) => visible(String(part)));
  const head = [style(severity, severity), style('code', `[${code}]`), style('message', visible(message))].join(' ');
  const lines = [at.length === 0 ? head : `${style('place', at.join(':'))}: ${head}`];
  const text = line === undefined ? undefined : excerpt?.lines[line - excerpt.line];
  if (text !== undefined && line !== undefined && column !== undefined) {
    const gutter = String(line);
    lines.push(`  ${gutter} | ${style('excerpt', visible(text))}`);
    if (column <= text.length + 1)
      lines.push(`  ${' '.repeat(gutter.length)} | ${caret(diagnostic, text, column, style)}`);
  }
  for (const other of related ?? []) {
    lines.push(
      `  ${style('related', `${visible(other.file)}:${other.line}:${other.column}: ${visible(other.message)}`)}`,
    );
  }
  if (hint !== undefined) lines.push(`  ${style('hint', `hint: ${visible(hint)}`)}`);
  return lines.join('\n');
}

function caret(diagnostic: Diagnostic, excerpt: string, column: number, style: Style): string {
  const sameLine = diagnostic.endLine === diagnostic.line ? (diagnostic.endColumn ?? column) : excerpt.length + 1;
  const end = Math.max(column + 1, Math.min(sameLine, excerpt.length + 1));
  // Tabs stay tabs, so that the caret stands under its character however wide they are shown.
  const indent = excerpt.slice(0, column - 1).replace(/[^\t]/g, ' ');
  return indent + style('caret', '^'.repeat(end - column));
}

/** Control characters and direction marks as escapes: what an author wrote never steers the reader's terminal. */
function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (unit) => {
      return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
    },
  );
}
