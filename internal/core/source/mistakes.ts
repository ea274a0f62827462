// What an author meant by text that YAML reads otherwise: a template that begins with braces, a key that is indented too
// far below a key that has its value already, and what git left of a conflict. All are judged on the lines of the text.

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
  // A comment to YAML, as in `{{ repository }} #{{ number }}`.
  const [more = ''] = /^\s+#[^\s#].*\S/.exec(lineAt(text, end)) ?? [];
  return { message: braces, hint: quote(value + more), start, end: end + more.length };
}

/** A value as it was meant, without the comment behind it. */
const withoutComment = (value: string): string => value.replace(/\s+#+(?:\s.*)?$/, '');

/** The same with text behind it, which a syntax error at `at` complains of. */
function templateAndMore(text: string, at: number): Mistake | null {
  const start = lineStart(text, at);
  const line = lineAt(text, start);
  const found = /^(\s*(?:- +)*(?:[\w$."'-]+:\s+)?)(\{\{.*\S)/.exec(line);
  if (found === null || at < start + (found[1]?.length ?? 0)) return null;
  const [, before = '', written = ''] = found;
  const value = withoutComment(written);
  return {
    message: braces,
    hint: quote(value),
    start: start + before.length,
    end: start + before.length + value.length,
  };
}

/** A text that begins with a star and goes on where an alias would end: a cron expression, or Markdown. */
function bareStar(text: string, at: number): Mistake | null {
  const start = lineStart(text, at);
  const found = /^(\s*(?:- +)*(?:[\w$."'-]+:\s+)?)(\*.*\S)/.exec(lineAt(text, start));
  if (found === null) return null;
  const [, before = '', written = ''] = found;
  const key = before.includes(':') ? undefined : /^(\*[^\s:]*):(?:\s|$)/.exec(written)?.[1];
  const value = key ?? withoutComment(written);
  return {
    message: `A ${key === undefined ? 'value' : 'key'} that begins with * is an alias to YAML`,
    hint: quote(value),
    start: start + before.length,
    end: start + before.length + value.length,
  };
}

const spaces = (count: number): string => (count === 1 ? '1 space' : `${count} spaces`);
/** How far in a line begins what it says: behind the "-" of the entries that it begins. */
const indentOf = (line: string): number => /^ *(?:- +)*/.exec(line)?.[0].length ?? 0;

const isBlank = (line: string): boolean => /^\s*(?:#|$)/.test(line);

/** The key of the line that begins at `begin`, comments left out, which lines up with no key above it; null where it holds none. */
function outOfLine(text: string, begin: number): Mistake | null {
  let at = begin;
  for (let count = 0; isBlank(lineAt(text, at)) && count < linesMax; count++) {
    const end = text.indexOf('\n', at);
    if (end === -1) return null;
    at = end + 1;
  }
  const line = lineAt(text, at);
  const [, before = '', name] = keyPattern.exec(line) ?? [];
  if (name === undefined || before.includes('-')) return null;
  let from = at;
  let inner = 0;
  let outer = -1;
  for (let count = 0; outer === -1 && from > 0 && count < linesMax; count++) {
    from = lineStart(text, from - 1);
    const above = lineAt(text, from);
    const own = indentOf(above);
    if (isBlank(above)) continue;
    if (inner === 0 && own < before.length) return indentedTooFar(text, from);
    if (own <= before.length) outer = own;
    else if (inner === 0 || own < inner) inner = own;
  }
  if (inner === 0) return null;
  const start = at + before.length;
  const columns = outer === -1 ? spaces(inner) : `${spaces(inner)}, or by ${outer}`;
  return {
    message: `The key ${name.slice(0, shownMax).toWellFormed()} lines up with none of the keys above it`,
    hint: `Keys of one map begin in one column: indent it by ${columns}.`,
    start,
    end: start + name.length,
  };
}

const keyPattern = /^(\s*(?:- +)*)([\w$.-]+|"[^"]*"|'[^']*'):(?:\s|$)/;
/** Lines behind the error that are looked at. */
const linesMax = 20;

/** The first key behind the line of `at` that is indented further than the key there, which has its value already. */
function indentedTooFar(text: string, at: number): Mistake | null {
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
      if (/^-[^-]/.test(over)) return spacelessDash(over, first + indent);
      const message = `The key ${name} is indented below ${over}, which has a value already`;
      const hint =
        indent === 0
          ? `Begin it at the left margin, as ${over} does.`
          : `Indent it by ${spaces(indent)}, as ${over} is.`;
      return { message, hint, start: from + own, end: from + own + (key[2] ?? '').length };
    }
    from = text.indexOf('\n', from) + 1;
  }
  return null;
}

/** To YAML a key, whose name begins with the dash that was to begin an entry. */
function spacelessDash(key: string, start: number): Mistake {
  const message = `The "-" of ${key} has no space behind it`;
  const hint = `Write "- ${key.slice(1)}", so that it begins an entry of a list.`;
  return { message, hint, start, end: start + key.length };
}

/** Where the line begins that does so with `mark`, from `at` on; -1 for none. */
function lineWith(text: string, mark: string, at: number): number {
  const isFirst = at === 0 && text.startsWith(mark);
  const found = isFirst ? -1 : text.indexOf(`\n${mark}`, at);
  return isFirst ? 0 : found === -1 ? -1 : found + 1;
}

/** The first line of a conflict that git wrote into the file, and that nobody resolved. */
function conflict(text: string): Mistake | null {
  const start = lineWith(text, '<<<<<<< ', 0);
  const middle = start === -1 ? -1 : lineWith(text, '=======', start);
  if (middle === -1 || lineWith(text, '>>>>>>> ', middle) === -1) return null;
  return {
    message: 'A conflict of a merge stands here, which is not resolved',
    hint: 'Keep what is meant of its sides, and remove the lines that begin with <<<<<<<, ======= or >>>>>>>.',
    start,
    end: start + lineAt(text, start).length,
  };
}

/** What was meant where the library complains so of what stands at `start`; null where nobody can tell. */
export function meantBy(text: string, code: string, start: number): Mistake | null {
  return conflict(text) ?? meantNear(text, code, start);
}

function meantNear(text: string, code: string, start: number): Mistake | null {
  switch (code) {
    case 'BLOCK_AS_IMPLICIT_KEY':
    case 'MULTILINE_IMPLICIT_KEY':
      return indentedTooFar(text, start);
    case 'BAD_INDENT':
      return outOfLine(text, start);
    case 'BAD_ALIAS':
      return bareStar(text, start);
    case 'UNEXPECTED_TOKEN': {
      const isLine = start > 0 && text[start - 1] === '\n';
      return templateAndMore(text, start) ?? bareStar(text, start) ?? (isLine ? outOfLine(text, start) : null);
    }
    default:
      return null;
  }
}
