// Findings → diagnostics (sorted, each once, with line and column), and diagnostics → text with a caret.

import type { Diagnostic, Finding, Range } from '../../domain/diagnostic.ts';
import { LineTable } from './lines.ts';

const EXCERPT_LENGTH = 200;

/**
 * Turns findings into diagnostics: offsets become lines and columns in `textOf(file)`, sorted by file, line, column
 * (decision 20), and of several with one place, code and message one is kept (decision 22). What has no file comes first.
 */
export function printDiagnostics(
  findings: readonly Finding[],
  textOf: (file: string) => string | undefined,
): Diagnostic[] {
  const tables = new Map<string, LineTable | null>();
  const tableOf = (file: string): LineTable | null => {
    let table = tables.get(file);
    if (table === undefined) {
      const text = textOf(file);
      table = text === undefined ? null : new LineTable(text);
      tables.set(file, table);
    }
    return table;
  };
  const kept = new Map<string, Diagnostic>();
  for (const finding of findings) {
    const printed = printOne(finding, tableOf);
    const { file, line, column, code, message } = printed;
    const key = JSON.stringify([file ?? '', line ?? 0, column ?? 0, code, message]);
    if (!kept.has(key)) kept.set(key, printed);
  }
  return [...kept.values()].sort(compare);
}

function printOne(finding: Finding, tableOf: (file: string) => LineTable | null): Diagnostic {
  const file = finding.range?.file ?? finding.file;
  const { severity, code, message } = finding;
  return {
    severity,
    code,
    message,
    ...(file === undefined ? {} : { file }),
    ...(finding.range === undefined ? {} : place(finding.range, tableOf(finding.range.file))),
    ...(finding.path === undefined ? {} : { path: finding.path }),
    ...(finding.hint === undefined ? {} : { hint: finding.hint }),
    ...(finding.related === undefined || finding.related.length === 0
      ? {}
      : { related: finding.related.map(({ message: text, range }) => ({ message: text, ...start(range, tableOf) })) }),
  };
}

function place(range: Range, table: LineTable | null): Partial<Diagnostic> {
  if (table === null) return {};
  const from = table.at(range.start);
  const to = table.at(range.end);
  return {
    line: from.line,
    column: from.column,
    endLine: to.line,
    endColumn: to.column,
    excerpt: table.line(from.line, EXCERPT_LENGTH),
  };
}

function start(
  range: Range,
  tableOf: (file: string) => LineTable | null,
): { file: string; line: number; column: number } {
  return { file: range.file, ...(tableOf(range.file)?.at(range.start) ?? { line: 1, column: 1 }) };
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

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
  if (excerpt !== undefined && line !== undefined && column !== undefined) {
    const gutter = String(line);
    lines.push(`  ${gutter} | ${style('excerpt', visible(excerpt))}`);
    if (column <= excerpt.length + 1)
      lines.push(`  ${' '.repeat(gutter.length)} | ${caret(diagnostic, excerpt, column, style)}`);
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
