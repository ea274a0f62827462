// The plain part of YAML, read in one pass: block maps and lists, values on one line, literal blocks. Most files of agents are
// made of nothing else, and the library takes ten times as long for them. It decides nothing by itself: whatever is not surely
// plain, and all that could be a mistake, is declined and left to the library (yaml.ts), whose answer it equals to the last
// offset (plain.test.ts holds the two against each other; docs/adr/0017-plain-yaml-in-one-pass.md).

import type { Range } from '../../domain/diagnostic.ts';
import type { JsonScalar } from '../../domain/json.ts';
import type { ReadDocuments } from './documents.ts';
import type { SourceLimits } from './limits.ts';
import type { MapEntry, MapNode, Node, ScalarNode } from './node.ts';

/** Reads a text of one document; null where anything in it is not plain. */
export function readPlainYaml(file: string, text: string, limits: SourceLimits): ReadDocuments | null {
  // What is written takes at least half a character a token, so none of the bounds can be met.
  if (text.length > Math.min(limits.maxNodes, limits.maxTokens) / 2 || odd.test(text)) return null;
  try {
    const reader = new Reader(file, text, Math.min(depthMax, limits.maxDepth));
    const root = reader.document();
    return { documents: [{ index: 0, root, isPartial: false }], findings: [], nodes: reader.nodes };
  } catch (error) {
    if (error === declined) return null;
    throw error;
  }
}

/** Thrown where a text is not plain; always the same, since its place is of no use to anybody. */
const declined = new Error('not plain');

/** Tabs, carriage returns, other control characters and byte order marks. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const odd = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/;
const depthMax = 30;

/** A key and its colon, with what must follow it. Keys that are no strings cannot begin so, but for the words below. */
const keyPattern = /[A-Za-z_$][\w$./-]{0,250}:(?=[ \n]|$)/y;
const flowKey = /[A-Za-z_$][\w$./-]{0,250}:(?= )/y;
/** A value without quotes, to the end of its line or to a comment. */
const blockPlain = /[^\s\-?:,[\]{}#&*!|>'"%@`][^\n]*/y;
const flowPlain = /[^\s\-?:,[\]{}#&*!|>'"%@`](?:[^,[\]{}:#\n]|:(?=[^\s,[\]{}]))*/y;
const single = /'(?:[^'\n]|'')*'/y;
const double = /"[^"\\\n]*"/y;
/** What may stand behind a value on its line. */
const rest = / *(?: #[^\n]*)?(?:\n|$)/y;
const words: ReadonlyMap<string, JsonScalar> = new Map<string, JsonScalar>([
  ...['~', 'null', 'Null', 'NULL'].map((word) => [word, null] as const),
  ...['true', 'True', 'TRUE'].map((word) => [word, true] as const),
  ...['false', 'False', 'FALSE'].map((word) => [word, false] as const),
]);
const simpleNumber = /^-?(?:0|[1-9][0-9]{0,14})$/;
/** Anything else that could be a number of some notation. */
const maybeNumber = /^[-+]?[.0-9][0-9A-Za-z.+-]*$/;

/** Where what the pattern finds at an offset ends; undefined where it does not stand there. What it makes of that nobody needs. */
function endOf(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

const space = 32;
const newline = 10;
const dash = 45;
const hash = 35;

class Reader {
  /** Keys and values. */
  nodes = 0;
  readonly #file: string;
  readonly #text: string;
  readonly #maxDepth: number;
  /** Where the next line begins. */
  #next = 0;
  /** Of the line at hand: its beginning, its first character and how far that is in; -1 at the end of the text. */
  #line = 0;
  #start = 0;
  #indent = -1;
  /** Where what was read last ends, with the end of its line. */
  #end = 0;

  constructor(file: string, text: string, maxDepth: number) {
    this.#file = file;
    this.#text = text;
    this.#maxDepth = maxDepth;
  }

  document(): MapNode {
    this.#advance();
    if (this.#indent !== 0) throw declined;
    // Ends where the text does: what stands no further in than it does belongs to it.
    return this.#map(0, 1);
  }

  /** Goes to the next line that holds something. A comment must stand where that begins, or it belongs to what was before. */
  #advance(): void {
    const text = this.#text;
    let comment = -1;
    for (let line = this.#next; line < text.length; ) {
      let at = line;
      while (text.charCodeAt(at) === space) at++;
      const first = text.charCodeAt(at);
      if (first !== newline && first !== hash && at < text.length) {
        if (comment !== -1 && comment !== at - line) throw declined;
        this.#line = line;
        this.#start = at;
        this.#indent = at - line;
        return;
      }
      if (first === hash) {
        if (comment !== -1 && comment !== at - line) throw declined;
        comment = at - line;
      }
      const end = text.indexOf('\n', at);
      line = end === -1 ? text.length : end + 1;
    }
    if (comment > 0) throw declined;
    this.#indent = -1;
    this.#next = text.length;
  }

  #range(start: number, end: number): Range {
    return { file: this.#file, start, end };
  }

  #map(indent: number, depth: number): MapNode {
    if (depth > this.#maxDepth) throw declined;
    this.nodes++;
    const begin = this.#start;
    const entries = new Map<string, MapEntry>();
    do {
      const start = this.#start;
      const key = this.#key(keyPattern, start, entries);
      const keyRange = this.#range(start, start + key.length);
      entries.set(key, { keyRange, value: this.#value(start + key.length + 1, indent, depth) });
    } while (this.#indent === indent && this.#text.charCodeAt(this.#start) !== dash);
    if (this.#indent >= indent) throw declined;
    return { kind: 'map', entries, range: this.#range(begin, this.#end) };
  }

  #key(pattern: RegExp, start: number, entries: ReadonlyMap<string, MapEntry>): string {
    this.nodes++;
    const end = endOf(pattern, this.#text, start);
    if (end === undefined) throw declined;
    const key = this.#text.slice(start, end - 1);
    if (words.has(key) || entries.has(key)) throw declined;
    return key;
  }

  /** What follows the colon of a key of a map that stands so far in. */
  #value(after: number, indent: number, depth: number): Node {
    const text = this.#text;
    let at = after;
    while (text.charCodeAt(at) === space) at++;
    if (text.charCodeAt(at) !== newline) return this.#inLine(at, indent, depth + 1);
    this.#next = at + 1;
    this.#advance();
    const isList = text.charCodeAt(this.#start) === dash;
    if (this.#indent > indent) return isList ? this.#list(this.#indent, depth + 1) : this.#map(this.#indent, depth + 1);
    if (this.#indent === indent && isList) return this.#list(indent, depth + 1);
    throw declined;
  }

  #list(indent: number, depth: number): Node {
    if (depth > this.#maxDepth) throw declined;
    this.nodes++;
    const text = this.#text;
    const begin = this.#start;
    const items: Node[] = [];
    do {
      let at = this.#start + 1;
      if (text.charCodeAt(at) !== space) throw declined;
      while (text.charCodeAt(at) === space) at++;
      keyPattern.lastIndex = at;
      if (keyPattern.test(text)) {
        this.#start = at;
        this.#indent = at - this.#line;
        items.push(this.#map(this.#indent, depth + 1));
      } else items.push(this.#inLine(at, indent, depth + 1));
    } while (this.#indent === indent && text.charCodeAt(this.#start) === dash);
    if (this.#indent > indent) throw declined;
    return { kind: 'seq', items, range: this.#range(begin, this.#end) };
  }

  /** A value on the line of its key or dash, or a literal block that begins there; then on to the next line. */
  #inLine(at: number, indent: number, depth: number): Node {
    const text = this.#text;
    const first = text[at];
    if (first === '|') return this.#literal(at, indent);
    const isPlain = !(first === '[' || first === '{' || first === "'" || first === '"');
    const node = isPlain ? this.#plain(at) : this.#flow(at, depth);
    rest.lastIndex = node.range.end;
    if (!rest.test(text)) throw declined;
    this.#end = rest.lastIndex;
    this.#next = this.#end;
    this.#advance();
    // What stands further in is a part of the value, or a mistake.
    if (this.#indent > indent) throw declined;
    return node;
  }

  #plain(at: number): ScalarNode {
    const line = this.#text.slice(at, endOf(blockPlain, this.#text, at) ?? at);
    const comment = line.indexOf(' #');
    const written = (comment === -1 ? line : line.slice(0, comment)).trimEnd();
    if (written === '' || written.includes(': ') || written.endsWith(':')) throw declined;
    return this.#scalar(resolved(written), at, at + written.length);
  }

  #scalar(value: JsonScalar, start: number, end: number): ScalarNode {
    this.nodes++;
    return { kind: 'scalar', value, range: this.#range(start, end) };
  }

  /** A value inside brackets, or brackets or quotes themselves, all on one line. */
  #flow(at: number, depth: number): Node {
    const text = this.#text;
    switch (text[at]) {
      case "'": {
        const end = endOf(single, text, at);
        if (end === undefined) throw declined;
        const inner = text.slice(at + 1, end - 1);
        return this.#scalar(inner.includes("'") ? inner.replaceAll("''", "'") : inner, at, end);
      }
      case '"': {
        const end = endOf(double, text, at);
        if (end === undefined) throw declined;
        return this.#scalar(text.slice(at + 1, end - 1), at, end);
      }
      case '[':
        return this.#flowList(at, depth);
      case '{':
        return this.#flowMap(at, depth);
      default: {
        const written = text.slice(at, endOf(flowPlain, text, at) ?? at).trimEnd();
        if (written === '') throw declined;
        return this.#scalar(resolved(written), at, at + written.length);
      }
    }
  }

  #flowList(begin: number, depth: number): Node {
    this.#enter(depth);
    const items: Node[] = [];
    let at = this.#skip(begin + 1);
    while (this.#text[at] !== ']' || items.length > 0) {
      const item = this.#flow(at, depth + 1);
      items.push(item);
      at = this.#separator(item.range.end, ']');
      if (this.#text[at - 1] === ']') return { kind: 'seq', items, range: this.#range(begin, at) };
      at = this.#skip(at);
    }
    return { kind: 'seq', items, range: this.#range(begin, at + 1) };
  }

  #flowMap(begin: number, depth: number): Node {
    this.#enter(depth);
    const entries = new Map<string, MapEntry>();
    let at = this.#skip(begin + 1);
    while (this.#text[at] !== '}' || entries.size > 0) {
      const key = this.#key(flowKey, at, entries);
      const keyRange = this.#range(at, at + key.length);
      const value = this.#flow(this.#skip(at + key.length + 1), depth + 1);
      entries.set(key, { keyRange, value });
      at = this.#separator(value.range.end, '}');
      if (this.#text[at - 1] === '}') return { kind: 'map', entries, range: this.#range(begin, at) };
      at = this.#skip(at);
    }
    return { kind: 'map', entries, range: this.#range(begin, at + 1) };
  }

  #enter(depth: number): void {
    if (depth > this.#maxDepth) throw declined;
    this.nodes++;
  }

  #skip(from: number): number {
    let at = from;
    while (this.#text.charCodeAt(at) === space) at++;
    return at;
  }

  /** The offset behind the comma or the closing bracket that follows a value. */
  #separator(from: number, closing: string): number {
    const at = this.#skip(from);
    const found = this.#text[at];
    // A comma that touches what follows it may be a part of it to the library.
    if (found === closing || (found === ',' && this.#text.charCodeAt(at + 1) === space)) return at + 1;
    throw declined;
  }

  /** A literal block, clipped or stripped, as far in as its first line. */
  #literal(at: number, indent: number): ScalarNode {
    const text = this.#text;
    const isStripped = text[at + 1] === '-';
    const header = at + (isStripped ? 2 : 1);
    if (text.charCodeAt(header) !== newline) throw declined;
    let line = header + 1;
    while (text.charCodeAt(line) === newline) line++;
    let first = line;
    while (text.charCodeAt(first) === space) first++;
    const own = first - line;
    if (own <= indent || first >= text.length || text.charCodeAt(first) === newline) throw declined;
    const lines: string[] = Array.from({ length: line - header - 1 }, () => '');
    let filled = 0;
    for (;;) {
      const found = text.indexOf('\n', line);
      let begin = line;
      while (begin < found && text.charCodeAt(begin) === space) begin++;
      // A line without an end is the last; the library ends the block elsewhere then.
      if (found === -1 && line < text.length) throw declined;
      if (found === -1) break;
      if (begin === found) {
        if (begin - line > own) throw declined;
        lines.push('');
      } else if (begin - line < own) {
        if (begin - line > indent) throw declined;
        break;
      } else {
        lines.push(text.slice(line + own, found));
        filled = lines.length;
        this.#end = found + 1;
      }
      line = found + 1;
    }
    lines.length = filled;
    this.#next = this.#end;
    const value = lines.join('\n') + (isStripped ? '' : '\n');
    const node = this.#scalar(value, at, this.#end);
    this.#advance();
    return node;
  }
}

/** What a value without quotes stands for. */
function resolved(written: string): JsonScalar {
  const word = words.get(written);
  if (word !== undefined) return word;
  if (simpleNumber.test(written)) return Number(written);
  if (maybeNumber.test(written)) throw declined;
  return written;
}
