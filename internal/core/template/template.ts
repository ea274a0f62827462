// Tokens in text, of two kinds. `{{ $name }}` is a variable, replaced once when a document is imported
// (docs/reference/compile.md#variables). `{{ dot.path }}` is a place in an event's payload, rendered when a message is
// made (docs/reference/events.md: trigger message rendering). Each kind leaves the other alone.
// It decides what a token is and what it becomes. It never walks a prototype, never reads a value again for tokens,
// and takes linear time; what may go to a session is rendered as far as a bound alone (render.ts). Where a text comes
// from, and which texts are templates, is for the callers to know.

export { type Rendering, renderWithin } from './render.ts';
export { lookUp, missingPaths, parseTemplate, type Template } from './tokens.ts';

// `{{ $name }}` tokens → the values of variables, in one pass.

export interface VariableProblem {
  readonly kind: 'unknown' | 'malformed';
  /** The token as written, cut to 60 units. */
  readonly token: string;
  /** The name of an unknown variable. */
  readonly name?: string;
  /** Offsets in the text that was substituted. */
  readonly start: number;
  readonly end: number;
}

export interface Substitution {
  readonly text: string;
  /** How many tokens there were, good or not: 0 means that the text depends on no variable. */
  readonly tokens: number;
  readonly problems: readonly VariableProblem[];
}

const openingPattern = /\{\{\s*\$/g;
const namePattern = /^\s*\$([A-Za-z_][A-Za-z0-9_]*)\s*$/;
const markPattern = /\}\}|\{\{/g;

/**
 * Replaces every `{{ $name }}` whose name is in `scope`; white space inside the braces is free
 * (docs/reference/compile.md#variables). Values are not read again for tokens (docs/reference/compile.md#variables). A token
 * that is unknown, malformed or not closed stays and is a problem.
 */
export function substituteVariables(text: string, scope: ReadonlyMap<string, string>): Substitution {
  const problems: VariableProblem[] = [];
  let result = '';
  let from = 0;
  let tokens = 0;
  openingPattern.lastIndex = 0;
  for (let opening = openingPattern.exec(text); opening !== null; opening = openingPattern.exec(text)) {
    const start = opening.index;
    tokens++;
    markPattern.lastIndex = start + opening[0].length;
    const mark = markPattern.exec(text);
    const closed = mark?.[0] === '}}';
    const end = closed ? mark.index + 2 : (mark?.index ?? text.length);
    const name = closed ? namePattern.exec(text.slice(start + 2, end - 2))?.[1] : undefined;
    const value = name === undefined ? undefined : scope.get(name);
    if (value !== undefined) {
      result += text.slice(from, start) + value;
      from = end;
    } else {
      const token = shorten(text.slice(start, end).trimEnd());
      problems.push({
        kind: name === undefined ? 'malformed' : 'unknown',
        token,
        ...(name === undefined ? {} : { name }),
        start,
        end,
      });
    }
    openingPattern.lastIndex = end;
  }
  return { text: from === 0 ? text : result + text.slice(from), tokens, problems };
}

function shorten(token: string): string {
  return (token.length > 60 ? `${token.slice(0, 60)}…` : token).toWellFormed();
}
