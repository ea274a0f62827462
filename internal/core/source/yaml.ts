// YAML 1.2, core schema → documents. Tokens are checked and counted first (scan.ts), so that composing, which recurses,
// only ever sees a bounded tree; keys are compared here, because the library's own check is quadratic. What is plain is read
// without the library (plain.ts).

import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node as YamlNode,
  type Pair,
  type YAMLError,
} from 'yaml';
import type { DiagnosticCode } from '../../domain/codes.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import type { JsonScalar } from '../../domain/json.ts';
import { exactDigits } from '../../domain/number.ts';
import { duplicateKey, nonFatalCodes, moreFindings, quoted, type ReadDocuments, unprintable } from './documents.ts';
import type { SourceLimits } from './limits.ts';
import { bareTemplate, meantBy, type Mistake } from './mistakes.ts';
import type { MapEntry, MapNode, Node } from './node.ts';
import { readPlainYaml } from './plain.ts';
import { certain, hints, misplacing, words } from './yaml-words.ts';
import { scanYaml, type Unclosed } from './scan.ts';

/** Reads every document of a YAML text; one with a syntax error is left out, the others are kept. */
export function readYaml(file: string, text: string, limits: SourceLimits): ReadDocuments {
  return readPlainYaml(file, text, limits) ?? composeYaml(file, text, limits);
}

/** The same by the library alone. */
export function composeYaml(file: string, text: string, limits: SourceLimits): ReadDocuments {
  const scan = scanYaml(file, text, limits);
  if (!scan.ok) return { documents: [], findings: scan.findings, nodes: 0 };
  const composer = new Composer({
    version: '1.2',
    schema: 'core',
    merge: false,
    resolveKnownTags: false,
    uniqueKeys: false,
    strict: true,
    logLevel: 'silent',
  });
  const builder = new Builder(file, text, limits, scan.unclosed);
  const documents: { index: number; root: MapNode; isPartial: boolean }[] = [];
  let index = 0;
  for (const document of bounded(composer, scan.tokens, text.length, builder, limits)) {
    const before = builder.errors;
    builder.begin();
    for (const error of document.errors) builder.syntax(error);
    for (const warning of document.warnings) builder.syntax(warning);
    if (document.errors.length === 0 && isEmpty(document)) continue;
    if (index++ === limits.maxDocuments) {
      builder.report('too-many-documents', `The file holds more than ${limits.maxDocuments} documents`, 0, 1);
      break;
    }
    const root = builder.isFatal ? null : builder.document(document);
    if (root !== null && !builder.isFatal)
      documents.push({ index: index - 1, root, isPartial: builder.errors > before });
  }
  for (const error of composer.streamInfo().errors) builder.syntax(error);
  // Nobody knows what the rest would have said of the documents before it, or after.
  return { documents: scan.isCut ? [] : documents, findings: builder.withRest(), nodes: builder.nodes };
}

/** What the library keeps to itself. */
interface Inside {
  readonly doc: Document.Parsed | null;
  readonly errors: YAMLError[];
  onError: (...what: unknown[]) => void;
}

/** Ends the composing; caught in `bounded` and nowhere else. */
class TooManyErrors extends Error {}

/** The documents of a text; past so many errors it is given up, with those of the document that it stands in. */
function* bounded(
  composer: Composer,
  tokens: readonly CST.Token[],
  length: number,
  builder: Builder,
  limits: SourceLimits,
): Generator<Document.Parsed> {
  const inside = composer as unknown as Inside;
  const note = inside.onError;
  let noted = 0;
  inside.onError = (...what) => {
    note(...what);
    if (++noted > limits.maxFindings * errorsRead) throw new TooManyErrors();
  };
  try {
    // A document at the end also where there is none: directives with nothing behind them are told with it.
    yield* composer.compose(tokens, true, length);
  } catch (error) {
    if (!(error instanceof TooManyErrors)) throw error;
    // The one before is whole; the library hands it on when it is done with the next.
    if (inside.doc !== null) yield inside.doc;
    builder.begin();
    for (const one of inside.errors.splice(0)) builder.syntax(one);
  }
}

/** A file of nothing but errors is read no further than so many times the findings that are told of it. */
const errorsRead = 4;

/** A document that holds nothing: no text, comments only, a bare `---` (docs/reference/compile.md#files). */
function isEmpty(document: Document.Parsed): boolean {
  const { contents } = document;
  if (contents === null) return true;
  return isScalar(contents) && contents.value === null && contents.source === '' && !contents.anchor && !contents.tag;
}

/** Errors that are looked into for what was meant. */
const meantErrors = 20;

interface Anchor {
  readonly node: Node;
  /** What the node holds when its own aliases are followed. */
  readonly nodes: number;
  readonly characters: number;
  readonly height: number;
}

/** Turns composed nodes into ours, and collects findings. */
class Builder {
  readonly findings: Finding[] = [];
  /** Errors seen, also those past the limit of findings. */
  errors = 0;
  /** True where the document that was begun last cannot be made sense of. */
  isFatal = false;
  /** True behind a line of it that does not stand where it was meant to. */
  #isAstray = false;
  readonly #file: string;
  readonly #text: string;
  readonly #limits: SourceLimits;
  readonly #unclosed: Unclosed[];
  #anchors = new Map<string, Anchor | 'open'>();
  #nodes = 0;
  #untold = 0;
  #isOverrun = false;
  #characters = 0;
  #deepest = 0;
  #aliasNodes = 0;
  #aliasCharacters = 0;

  constructor(file: string, text: string, limits: SourceLimits, unclosed: readonly Unclosed[]) {
    this.#file = file;
    this.#text = text;
    this.#limits = limits;
    this.#unclosed = [...unclosed];
  }

  /** Begins a document. */
  begin(): void {
    this.isFatal = false;
    this.#isAstray = false;
  }

  report(code: DiagnosticCode, message: string, start: number, end: number, hint?: string): void {
    this.#push({
      severity: 'error',
      code,
      message,
      range: this.#range(start, Math.max(start, end)),
      ...(hint === undefined ? {} : { hint }),
    });
  }

  /** An error or warning of the library. An unresolved tag is a warning there and an error here (docs/reference/compile.md#yaml). */
  syntax(error: YAMLError): void {
    const [start, end] = error.pos;
    // What stands behind a line out of its place is read otherwise than it was written, and would be complained of line for line.
    if (this.#isAstray && error.name !== 'YAMLWarning' && !certain.has(error.code)) return;
    this.#isAstray ||= misplacing(error);
    if (error.code === 'TAG_RESOLVE_FAILED') {
      this.report('yaml-tag', error.message, start, end, 'Only the tags of the YAML core schema are accepted.');
    } else if (error.name === 'YAMLWarning') {
      const range = this.#range(start, end);
      this.#push({ severity: 'warning', code: 'yaml-syntax', message: error.message, range });
    } else if (!(this.isFatal && error.message.startsWith('Unexpected '))) {
      this.#broken(error.message, error.code, start, end);
    }
  }

  /** A syntax error; what is never closed is told where it opens, not where the text ends without it. */
  #broken(message: string, code: string, start: number, end: number): void {
    const isFlow = message.startsWith('Flow ');
    const isOpen = isFlow || message.startsWith('Missing closing ');
    const at = isOpen ? this.#unclosed.findLastIndex((one) => one.start < start) : -1;
    const [open] = at === -1 ? [] : this.#unclosed.splice(at, 1);
    // What stands open around an open quote, or after it, is open only because of that.
    if (open !== undefined && isFlow && this.isFatal) return;
    if (open !== undefined) {
      const hint = 'Close it, or put the whole value in quotes if it is meant as text.';
      this.report('yaml-syntax', `The ${open.opener} is not closed`, open.start, open.start + 1, hint);
    } else {
      const mistake = this.#mistake(code, start);
      if (mistake !== null) return this.#meant(mistake);
      const [, plain = message, advice] = words.find(([pattern]) => pattern.test(message)) ?? [];
      const hint = isFlow ? 'Is the bracket closed, and indented further than its key?' : (advice ?? hints[code]);
      this.report('yaml-syntax', plain, start, end, hint);
    }
  }

  /** What was meant by what cannot be read, or null; looked for at the first few errors alone, which is what is read. */
  #mistake(code: string, start: number): Mistake | null {
    return this.errors > meantErrors ? null : meantBy(this.#text, code, start);
  }

  /** Reports a mistake, once however many errors it makes. */
  #meant({ message, hint, start, end }: Mistake): void {
    this.isFatal = true;
    if (this.findings.some(({ range }) => range?.start === start && range.end === end)) return;
    this.report('yaml-syntax', message, start, end, hint);
  }

  document(document: Document.Parsed): MapNode | null {
    this.#anchors = new Map();
    this.#deepest = 0;
    const { contents } = document;
    const root = this.#node(contents, document.range[0], 1);
    if (root.kind === 'map') return root;
    const what = root.kind === 'seq' ? 'a list' : 'a single value';
    const { start } = root.range;
    this.report(
      'document-not-a-map',
      `A document is a map of fields, not ${what}`,
      start,
      Math.min(root.range.end, start + 1),
      'Begin with fields at the left margin, such as "name: my-agent".',
    );
    return null;
  }

  #push(finding: Finding): void {
    if (finding.severity === 'error') {
      this.errors++;
      this.isFatal ||= !nonFatalCodes.has(finding.code);
    }
    if (this.findings.length < this.#limits.maxFindings) this.findings.push(finding);
    else this.#untold++;
  }

  /** The findings, and at their end that there are more. */
  withRest(): Finding[] {
    return this.#untold === 0 ? this.findings : [...this.findings, moreFindings(this.#file, this.#untold)];
  }

  /** Nodes of all documents, those that aliases stand for counted each time. */
  get nodes(): number {
    return this.#nodes;
  }

  #range(start: number, end: number): Range {
    return { file: this.#file, start, end };
  }

  #node(node: YamlNode | null, at: number, depth: number): Node {
    this.#nodes++;
    if (depth > this.#deepest) this.#deepest = depth;
    if (node === null) return { kind: 'scalar', value: null, range: this.#range(at, at) };
    if (isAlias(node)) return this.#alias(node.source, node.range?.[0] ?? at, node.range?.[1] ?? at, depth);
    const { anchor } = node;
    if (anchor === undefined) return this.#bare(node, at, depth);
    const before = { nodes: this.#nodes, characters: this.#characters, deepest: this.#deepest };
    this.#anchors.set(anchor, 'open');
    this.#deepest = depth;
    const made = this.#bare(node, at, depth);
    this.#anchors.set(anchor, {
      node: made,
      nodes: this.#nodes - before.nodes + 1,
      characters: this.#characters - before.characters,
      height: this.#deepest - depth,
    });
    this.#deepest = Math.max(this.#deepest, before.deepest);
    return made;
  }

  #bare(node: YamlNode, at: number, depth: number): Node {
    const start = node.range?.[0] ?? at;
    const end = node.range?.[1] ?? at;
    if (isMap(node)) return this.#map(node.items as Pair<YamlNode | null, YamlNode | null>[], start, end, depth);
    if (isSeq(node)) {
      const items: Node[] = [];
      for (const item of node.items) items.push(this.#node(item as YamlNode | null, start, depth + 1));
      return { kind: 'seq', items, range: this.#range(start, end) };
    }
    const value = isScalar(node) ? node.value : null;
    const made = { kind: 'scalar', value: this.#scalar(value, start, end), range: this.#range(start, end) } as const;
    const written = isScalar(node) && typeof value === 'number' ? node.source : undefined;
    const exact = written === undefined ? undefined : exactDigits(written, value as number);
    return exact === undefined ? made : { ...made, exact };
  }

  #scalar(value: unknown, start: number, end: number): JsonScalar {
    if (typeof value === 'string') {
      this.#characters += value.length;
      const problem = unprintable(value);
      if (problem !== null) this.report(problem.code, problem.message, start, end);
      return value;
    }
    if (typeof value === 'number' && !Number.isFinite(value)) {
      this.report(
        'invalid-value',
        'Infinity and not-a-number have no place here',
        start,
        end,
        'Quote it to write text.',
      );
      return null;
    }
    return typeof value === 'number' || typeof value === 'boolean' ? value : null;
  }

  #map(pairs: readonly Pair<YamlNode | null, YamlNode | null>[], start: number, end: number, depth: number): Node {
    const bare = isMap(pairs[0]?.key) && pairs.length === 1 ? bareTemplate(this.#text, start, end) : null;
    if (bare !== null) {
      this.report('non-string-key', bare.message, bare.start, bare.end, bare.hint);
      return { kind: 'scalar', value: null, range: this.#range(start, end) };
    }
    const entries = new Map<string, MapEntry>();
    for (const pair of pairs) {
      const keyStart = pair.key?.range?.[0] ?? pair.value?.range?.[0] ?? start;
      const keyEnd = pair.key?.range?.[1] ?? keyStart;
      const key = this.#key(pair.key, keyStart, keyEnd, depth);
      const value = this.#node(pair.value, keyEnd, depth + 1);
      if (key === null) continue;
      const keyRange = this.#range(keyStart, keyEnd);
      const first = entries.get(key);
      if (first === undefined) entries.set(key, { keyRange, value });
      else this.#push(duplicateKey(key, keyRange, first.keyRange));
    }
    return { kind: 'map', entries, range: this.#range(start, end) };
  }

  #key(node: YamlNode | null, start: number, end: number, depth: number): string | null {
    const key = this.#node(node, start, depth + 1);
    // Braces without quotes, which have been told of.
    if (isMap(node) && key.kind === 'scalar') return null;
    if (key.kind !== 'scalar' || typeof key.value !== 'string') {
      const shown = key.kind === 'scalar' ? `the key ${String(key.value)}` : `a ${key.kind === 'map' ? 'map' : 'list'}`;
      this.report('non-string-key', `Keys are strings; this is ${shown}`, start, end, 'Put the key in quotes.');
      return null;
    }
    if (key.value === '<<' && isScalar(node) && node.type === 'PLAIN') {
      this.report(
        'yaml-merge-key',
        'The merge key "<<" is not part of YAML 1.2',
        start,
        end,
        'Use "imports" for shared fields, or repeat the alias at each field.',
      );
      return null;
    }
    return key.value;
  }

  #alias(name: string, start: number, end: number, depth: number): Node {
    const anchor = this.#anchors.get(name);
    const nothing: Node = { kind: 'scalar', value: null, range: this.#range(start, end) };
    if (anchor === undefined || anchor === 'open') {
      const why =
        anchor === 'open' ? 'stands inside the node that it names' : 'names no anchor before it in this document';
      const shown = quoted(name).slice(1, -1);
      const hint =
        anchor === 'open'
          ? 'Write out what it repeats.'
          : `Write &${shown} before the value that it repeats, further up; what is meant as text stands in quotes.`;
      this.report('yaml-alias', `The alias *${shown} ${why}`, start, end, hint);
      return nothing;
    }
    this.#aliasNodes += anchor.nodes;
    this.#aliasCharacters += anchor.characters;
    if (this.#aliasNodes > this.#limits.maxAliasNodes || this.#aliasCharacters > this.#limits.maxAliasCharacters) {
      // Once is enough: every alias behind the one that is too much is too much.
      if (this.#isOverrun) return nothing;
      this.#isOverrun = true;
      this.report(
        'yaml-aliases',
        'The aliases of the file expand to too much',
        start,
        end,
        'Use fewer aliases of aliases.',
      );
      return nothing;
    }
    if (depth + anchor.height > this.#limits.maxDepth) {
      this.report('yaml-too-deep', `The alias nests deeper than ${this.#limits.maxDepth} levels`, start, end);
      return nothing;
    }
    this.#nodes += anchor.nodes;
    this.#characters += anchor.characters;
    this.#deepest = Math.max(this.#deepest, depth + anchor.height);
    return anchor.node;
  }
}
