// The tokens of a YAML text, bounded before anything recurses over them: depth and nodes are counted while the
// iterative parser runs, tags and directives are judged on the tokens (docs/reference/compile.md#yaml).

import { CST, Lexer, Parser } from 'yaml';
import type { DiagnosticCode } from '../../domain/codes.ts';
import type { Finding } from '../../domain/diagnostic.ts';
import { moreFindings, quoted } from './documents.ts';
import type { SourceLimits } from './limits.ts';

export type Scan =
  | {
      readonly ok: true;
      readonly tokens: readonly CST.Token[];
      readonly unclosed: readonly Unclosed[];
      /** The text goes on behind the tokens: it holds more errors than anybody reads. */
      readonly isCut: boolean;
    }
  | { readonly ok: false; readonly findings: readonly Finding[] };

/** A quote or bracket that nothing closes, in the order of the text. */
export interface Unclosed {
  readonly start: number;
  readonly opener: string;
}

const coreTag = /^!(?:!(?:map|seq|str|null|bool|int|float)|<tag:yaml\.org,2002:(?:map|seq|str|null|bool|int|float)>)?$/;

/** Tokens of the whole text, or the findings for which it must not be composed. Never throws. */
export function scanYaml(file: string, text: string, limits: SourceLimits): Scan {
  const findings: Finding[] = [];
  let untold = 0;
  const report: Report = (code, message, start, length, hint) => {
    if (findings.length >= limits.maxFindings) {
      untold++;
      return;
    }
    const range = { file, start, end: Math.min(start + length, text.length) };
    findings.push({ severity: 'error', code, message, range, ...(hint === undefined ? {} : { hint }) });
  };
  const read = tokenize(text, limits, report);
  if (read !== null) {
    const { tokens, isCut } = read;
    const unclosed: Unclosed[] = [];
    for (const token of tokens) inspect(token, limits, unclosed, report);
    if (findings.length === 0) return { ok: true, tokens, unclosed: unclosed.sort((a, b) => a.start - b.start), isCut };
  }
  if (untold > 0) findings.push(moreFindings(file, untold));
  return { ok: false, findings };
}

type Report = (code: DiagnosticCode, message: string, start: number, length: number, hint?: string) => void;

const reportDepth = (limits: SourceLimits, report: Report, at: number): void =>
  report('yaml-too-deep', `The file is nested deeper than ${limits.maxDepth} levels`, at, 1);

/** Runs lexer and parser, and stops both at the first bound. Where that is one of errors, what was read up to there is whole. */
function tokenize(
  text: string,
  limits: SourceLimits,
  report: Report,
): { readonly tokens: CST.Token[]; readonly isCut: boolean } | null {
  const tokens: CST.Token[] = [];
  const parser = new Parser();
  const counts = { values: 0, lexemes: 0, errors: 0, directives: 0 };
  const isFlood = (): boolean => counts.errors + counts.directives > limits.maxFindings;
  try {
    for (const lexeme of new Lexer().lex(text)) {
      for (const token of parser.next(lexeme)) {
        tokens.push(token);
        if (token.type === 'error') counts.errors++;
        if (token.type === 'directive') counts.directives++;
      }
      // The stack holds the document, one token for each open collection, and perhaps a scalar.
      if (parser.stack.length > limits.maxDepth + 2) {
        reportDepth(limits, report, parser.offset);
        return null;
      }
      if (valueLexemes.has(lexeme)) counts.values++;
      if (counts.values > limits.maxNodes || ++counts.lexemes > limits.maxTokens) {
        const message = `The file holds more than ${limits.maxNodes} values or ${limits.maxTokens} tokens`;
        report('yaml-too-large', message, parser.offset, 1, 'Split it into several files.');
        return null;
      }
      if (isFlood()) break;
    }
    if (isFlood() && counts.errors === 0) return reportDirectives(tokens, report);
    // One mistake makes many errors of what stands behind it: which ones are news is seen when they are composed.
    for (const token of parser.end()) tokens.push(token);
  } catch (error) {
    // The parser gives up on some input by throwing; whatever it says, the file cannot be read.
    const reason = error instanceof Error ? error.message : String(error);
    report('yaml-syntax', `The file cannot be read as YAML: ${reason}`, parser.offset, 1);
    return null;
  }
  return { tokens, isCut: isFlood() };
}

function reportDirectives(tokens: readonly CST.Token[], report: Report): null {
  for (const token of tokens) {
    if (token.type === 'directive') report('yaml-syntax', 'Too many directives', token.offset, token.source.length);
  }
  return null;
}

const valueLexemes: ReadonlySet<string> = new Set([CST.SCALAR, '[', '{', '-', ',', ':', '?', '---']);

/** Looks at directives, tags, depth and what is not closed in one token of the stream, without recursion. */
function inspect(top: CST.Token, limits: SourceLimits, unclosed: Unclosed[], report: Report): void {
  if (top.type === 'directive') inspectDirective(top, report);
  if (top.type !== 'document') return;
  inspectTags(top.start, report);
  const open: { readonly token: CST.Token | null | undefined; readonly depth: number }[] = [
    { token: top.value, depth: 1 },
  ];
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    const { token, depth } = item;
    if (token === null || token === undefined) continue;
    const opener = openerOf(token);
    if (opener !== null) unclosed.push({ start: token.offset, opener });
    if (token.type === 'scalar') inspectMarks(token, report);
    if (!CST.isCollection(token)) continue;
    if (depth > limits.maxDepth) return reportDepth(limits, report, token.offset);
    for (const { start, key, sep, value } of token.items) {
      inspectTags(start, report);
      if (sep !== undefined) inspectTags(sep, report);
      open.push({ token: value, depth: depth + 1 }, { token: key, depth: depth + 1 });
    }
  }
}

/**
 * A byte order mark that is not in quotes or a block: nobody sees it, and the line that begins with it stands at the left margin,
 * where a key of another name is ignored without a word.
 */
function inspectMarks({ source, offset }: CST.FlowScalar, report: Report): void {
  const at = source.indexOf('\ufeff');
  if (at === -1) return;
  const message = 'A byte order mark stands inside the file';
  report('yaml-syntax', message, offset + at, 1, 'Remove it; only the beginning of a file may have one.');
}

/** What opens a token that nothing closes, or null. */
function openerOf(token: CST.Token): string | null {
  if (token.type === 'flow-collection') return token.end.length === 0 ? `bracket ${token.start.source}` : null;
  if (token.type !== 'double-quoted-scalar' && token.type !== 'single-quoted-scalar') return null;
  const quote = token.source.charAt(0);
  return token.source.length > 1 && token.source.endsWith(quote) ? null : `quote ${quote}`;
}

function inspectDirective(token: CST.Directive, report: Report): void {
  const [name, version] = token.source.trim().split(/[ \t]+/);
  if (name === '%YAML' && version !== '1.2') {
    const message = `The directive ${quoted(token.source.trim()).slice(1, -1)} is refused: YAML is 1.2 here`;
    report('yaml-version', message, token.offset, token.source.length, 'Remove the directive.');
  }
  if (name === '%TAG') {
    const hint = 'Remove the directive; only the tags of the YAML core schema are accepted.';
    report('yaml-tag', 'The directive %TAG is refused', token.offset, token.source.length, hint);
  }
}

function inspectTags(tokens: readonly CST.Token[], report: Report): void {
  for (const token of tokens) {
    if (token.type !== 'tag' || coreTag.test(token.source)) continue;
    const message = `The tag ${quoted(token.source).slice(1, -1)} is not in the YAML core schema`;
    report('yaml-tag', message, token.offset, token.source.length, 'Remove the tag, or put the value in quotes.');
  }
}
