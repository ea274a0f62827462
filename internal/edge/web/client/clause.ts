// A clause of a trigger's `where` as a sentence, and what was found in its place.

import type { ExplainedClause } from '../../../../schemas/api/triggers.ts';
import { isExactNumber } from './api.ts';
import { beginning, html, type Markup, Status } from './kit.ts';

const shown = 200;
/** A value as JSON, its beginning where it is long; the payload below holds the whole. */
function jsonText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return beginning(text, shown);
}

/** `contains "bug"`, `is "high"` (docs/reference/where.md#clauses). */
export function clauseText(clause: unknown): string {
  if (clause === null || typeof clause !== 'object' || isExactNumber(clause)) return `is ${jsonText(clause)}`;
  const [operator, operand] = Object.entries(clause as { readonly [operator: string]: unknown })[0] ?? ['', undefined];
  const list = Array.isArray(operand) ? operand.map(jsonText).join(', ') : jsonText(operand);
  const said: { readonly [operator: string]: string } = {
    contains: `contains ${list}`,
    exists: operand === true ? 'is there' : 'is not there',
    in: `is one of ${list}`,
    notIn: `is none of ${list}`,
    changedTo: `changed to ${list}`,
  };
  return said[operator] ?? jsonText(clause);
}

export function Clause({ one }: { readonly one: ExplainedClause }): Markup {
  const { path, clause, value, truncated, instead = [], matched } = one;
  // Of a long value that is no text the beginning of its JSON is given, as a text.
  const found =
    value === undefined ? 'nothing' : truncated === true ? `the beginning of ${jsonText(value)}` : jsonText(value);
  return html`<li class="clause" data-testid="clause" data-matched=${matched}>
    <code>${path}</code> ${clauseText(clause)} <span class="found-value">found ${value === undefined ? 'nothing' : html`<code>${found}</code>`}${instead.length === 0 ? '' : html` <span data-testid="instead">(payload has ${instead.join(', ')})</span>`}</span>${' '}
    <${Status} kind=${matched ? 'good' : 'bad'} text=${matched ? 'yes' : 'no'} /></li>`;
}
