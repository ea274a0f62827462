// Diagnostics for people: each with its place, the line, carets and what to do; then how many there are. Pure.

import type { Diagnostic as Told } from '../../../schemas/api/common.ts';
import type { Diagnostic as Compiled } from '../../domain/diagnostic.ts';
import { renderDiagnostic } from '../../core/source/source.ts';
import { type Colour, count, type Paint } from './text.ts';

/** As the compiler makes them, or as the API tells them: there the code is any word, of a newer server too. */
export type Diagnostic = Compiled | Told;

const colours: { readonly [part: string]: Colour } = {
  place: 'bold',
  error: 'red',
  warning: 'yellow',
  code: 'grey',
  caret: 'red',
  hint: 'cyan',
};

/** Every diagnostic, a blank line after each, and the count. '' for none. */
export function printDiagnostics(diagnostics: readonly Diagnostic[], paint: Paint): string {
  if (diagnostics.length === 0) return '';
  const style = (part: string, text: string): string => {
    const colour = colours[part];
    return colour === undefined ? text : paint(colour, text);
  };
  const printed = diagnostics.map((diagnostic) => `${renderDiagnostic(diagnostic as Compiled, style)}\n`);
  return [...printed, countLine(diagnostics, paint)].join('\n');
}

function countLine(diagnostics: readonly Diagnostic[], paint: Paint): string {
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const parts: string[] = [];
  if (errors > 0) parts.push(paint('red', count(errors, 'error')));
  if (warnings > 0) parts.push(paint('yellow', count(warnings, 'warning')));
  return parts.join(', ');
}
