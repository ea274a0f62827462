// What an author meant by text that YAML reads otherwise: a template that begins with braces, and a key that is indented too
// far below a key that has its value already. Both are judged on the lines of the text, near the place of the error.

export interface Mistake {
  readonly message: string;
  readonly hint: string;
  /** Offsets in the text of what is to be mended. */
  readonly start: number;
  readonly end: number;
}

const braces = 'A value that begins with {{ is a map to YAML';
/** Units of a line that are looked at and shown. */
const lineMax = 2000;
const shownMax = 80;

const quote = (value: string): string =>
  `Put it in quotes: '${value.length > shownMax ? `${value.slice(0, shownMax).toWellFormed()}…` : value.replaceAll("'", "''")}'`;

/** The offset at which the line of an offset begins. */
const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', Math.max(0, at - 1)) + 1;
function lineAt(text: string, start: number): string {
  const end = text.indexOf('\n', start);
  return text.slice(start, Math.min(end === -1 ? text.length : end, start + lineMax)).replace(/\r$/, '');
}

/** A template that stands without quotes where a value begins at `start`; null where something else does. */
export function bareTemplate(text: string, start: number, end: number): Mistake | null {
  const value = text.slice(start, Math.min(end, start + lineMax));
  if (!/^\{\{[^{}]*\}\}$/.test(value)) return null;
  return { message: braces, hint: quote(value), start, end };
}

/** The same with text behind it, which a syntax error at `at` complains of. */
export function templateAndMore(text: string, at: number): Mistake | null {
  const start = lineStart(text, at);
  const line = lineAt(text, start);
  const found = /^(\s*(?:- +)*(?:[\w$."'-]+:\s+)?)(\{\{.*\S)/.exec(line);
  if (found === null || at < start + (found[1]?.length ?? 0)) return null;
  const [, before = '', value = ''] = found;
  return {
    message: braces,
    hint: quote(value),
    start: start + before.length,
    end: start + before.length + value.length,
  };
}

/** A text that begins with a star and goes on where an alias would end: a cron expression, or Markdown. */
export function bareStar(text: string, at: number): Mistake | null {
  const start = lineStart(text, at);
  const found = /^(\s*(?:- +)*(?:[\w$."'-]+:\s+)?)(\*.*\S)/.exec(lineAt(text, start));
  if (found === null) return null;
  const [, before = '', value = ''] = found;
  return {
    message: 'A value that begins with * is an alias to YAML',
    hint: quote(value),
    start: start + before.length,
    end: start + before.length + value.length,
  };
}

const keyPattern = /^(\s*(?:- +)*)([\w$.-]+|"[^"]*"|'[^']*'):(?:\s|$)/;
/** Lines behind the error that are looked at. */
const linesMax = 20;

/** The first key behind the line of `at` that is indented further than the key there, which has its value already. */
export function indentedTooFar(text: string, at: number): Mistake | null {
  const first = lineStart(text, at);
  const above = keyPattern.exec(lineAt(text, first));
  if (above === null) return null;
  const indent = (above[1] ?? '').length;
  let from = text.indexOf('\n', first) + 1;
  for (let count = 0; from > 0 && count < linesMax; count++) {
    const line = lineAt(text, from);
    const key = keyPattern.exec(line);
    const own = (key?.[1] ?? '').length;
    if (key !== null && own <= indent) return null;
    if (key !== null && !(key[1] ?? '').includes('-')) {
      const name = (key[2] ?? '').slice(0, shownMax).toWellFormed();
      const over = (above[2] ?? '').slice(0, shownMax).toWellFormed();
      const message = `The key ${name} is indented below ${over}, which has a value already`;
      const spaces = indent === 1 ? '1 space' : `${indent} spaces`;
      const hint =
        indent === 0 ? `Begin it at the left margin, as ${over} does.` : `Indent it by ${spaces}, as ${over} is.`;
      return { message, hint, start: from + own, end: from + own + (key[2] ?? '').length };
    }
    from = text.indexOf('\n', from) + 1;
  }
  return null;
}
