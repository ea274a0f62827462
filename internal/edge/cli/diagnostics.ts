// Diagnostics for people: place, message, the line with carets, what to do, and a count at the end. Pure.

import type { Diagnostic } from '../../words/diagnostic.ts';
import { clean, count, type Paint, widthOf } from './text.ts';

/**
 * `file:line:column: error: message [code]`, the excerpt with carets under the range, hint and related places; then the
 * count. '' for none.
 */
export function printDiagnostics(diagnostics: readonly Diagnostic[], paint: Paint): string {
  if (diagnostics.length === 0) return '';
  return [...diagnostics.map((diagnostic) => printDiagnostic(diagnostic, paint)), countLine(diagnostics, paint)].join(
    '\n',
  );
}

function printDiagnostic(diagnostic: Diagnostic, paint: Paint): string {
  const colour = diagnostic.severity === 'error' ? 'red' : 'yellow';
  const place = placeOf(diagnostic.file, diagnostic.line, diagnostic.column);
  const head = `${place === '' ? '' : `${paint('bold', place)}: `}${paint(colour, `${diagnostic.severity}:`)} ${clean(diagnostic.message)} ${paint('grey', `[${diagnostic.code}]`)}`;
  const lines = [head];
  if (diagnostic.excerpt !== undefined && diagnostic.line !== undefined) lines.push(...excerptLines(diagnostic, paint));
  if (diagnostic.hint !== undefined) lines.push(`  ${paint('cyan', 'hint:')} ${clean(diagnostic.hint)}`);
  for (const related of diagnostic.related ?? []) {
    lines.push(
      `  ${paint('grey', `${placeOf(related.file, related.line, related.column)}:`)} ${clean(related.message)}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

function placeOf(file: string | undefined, line: number | undefined, column: number | undefined): string {
  if (file === undefined) return '';
  return [clean(file, true), line, column].filter((part) => part !== undefined).join(':');
}

// Columns count UTF-16 units of the line; the carets stand under terminal columns, so both sides are measured.
function excerptLines(diagnostic: Diagnostic, paint: Paint): string[] {
  const source = diagnostic.excerpt ?? '';
  const number = String(diagnostic.line);
  const gutter = ' '.repeat(number.length);
  const lines = [`  ${paint('blue', `${number} |`)} ${shown(source)}`];
  const start = (diagnostic.column ?? 1) - 1;
  if (diagnostic.column === undefined || start > source.length) return lines;
  const oneLine = diagnostic.endLine === undefined || diagnostic.endLine === diagnostic.line;
  const end = oneLine ? Math.min((diagnostic.endColumn ?? start + 2) - 1, source.length) : source.trimEnd().length;
  const before = widthOf(shown(source.slice(0, start)));
  const under = Math.max(1, widthOf(shown(source.slice(start, Math.max(end, start)))));
  const colour = diagnostic.severity === 'error' ? 'red' : 'yellow';
  lines.push(`  ${paint('blue', `${gutter} |`)} ${' '.repeat(before)}${paint(colour, '^'.repeat(under))}`);
  return lines;
}

const shown = (text: string): string => clean(text.replaceAll('\t', '  '), true);

function countLine(diagnostics: readonly Diagnostic[], paint: Paint): string {
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const parts: string[] = [];
  if (errors > 0) parts.push(paint('red', count(errors, 'error')));
  if (warnings > 0) parts.push(paint('yellow', count(warnings, 'warning')));
  return parts.join(', ');
}
