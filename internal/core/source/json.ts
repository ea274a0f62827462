// Strict JSON with the place of every key and value: one object, no comments, no duplicate keys (docs/reference/compile.md#files).

import type { Finding } from '../../domain/diagnostic.ts';
import type { DiagnosticCode } from '../../domain/codes.ts';
import type { JsonScalar } from '../../domain/json.ts';
import { exactDigits } from '../../domain/number.ts';
import type { SourceLimits } from './limits.ts';
import type { MapEntry, MapNode, Node, ScalarNode } from './node.ts';
import { duplicateKey, nonFatalCodes, moreFindings, type ReadDocuments, unprintable } from './documents.ts';

/** Reads one JSON object. The first syntax error ends the reading; duplicate keys are all reported. */
export function readJson(file: string, text: string, limits: SourceLimits): ReadDocuments {
  if (/^[ \t\r\n]*$/.test(text)) return { documents: [], findings: [], nodes: 0 };
  const reader = new JsonReader(file, text, limits);
  const root = reader.read();
  const { findings, nodes, untold } = reader;
  if (untold > 0) findings.push(moreFindings(file, untold));
  if (root === null || !findings.every(({ code }) => nonFatalCodes.has(code)))
    return { documents: [], findings, nodes };
  if (root.kind !== 'map') return { documents: [], findings: [...findings, notAnObject(file, root)], nodes };
  return { documents: [{ index: 0, root, isPartial: findings.length > 0 }], findings, nodes };
}

function notAnObject(file: string, root: Node): Finding {
  const what = root.kind === 'seq' ? 'a list' : 'a single value';
  return {
    severity: 'error',
    code: 'document-not-a-map',
    message: `A JSON file holds one object, not ${what}`,
    range: { file, start: root.range.start, end: root.range.start + 1 },
    hint: 'Write one object per file, or several documents in a YAML file.',
  };
}

const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const words: readonly (readonly [string, JsonScalar])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
];
const escapes: { readonly [letter: string]: string } = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** Ends the reading; caught in `read` and nowhere else. */
class Stop extends Error {}

class JsonReader {
  readonly findings: Finding[] = [];
  readonly #file: string;
  readonly #text: string;
  readonly #limits: SourceLimits;
  #at = 0;
  nodes = 0;
  /** Findings past the limit. */
  untold = 0;

  constructor(file: string, text: string, limits: SourceLimits) {
    this.#file = file;
    this.#text = text;
    this.#limits = limits;
  }

  read(): Node | null {
    try {
      this.#space();
      const root = this.#value(1);
      this.#space();
      if (this.#at < this.#text.length)
        this.#stop('json-syntax', `Unexpected ${this.#here()} after the end of the value`);
      return root;
    } catch (error) {
      if (error instanceof Stop) return null;
      throw error;
    }
  }

  #value(depth: number): Node {
    if (++this.nodes > this.#limits.maxNodes) {
      this.#stop('yaml-too-large', `The file holds more than ${this.#limits.maxNodes} values`);
    }
    const start = this.#at;
    const first = this.#text[start];
    if (first === '{' || first === '[') {
      if (depth > this.#limits.maxDepth) {
        this.#stop('yaml-too-deep', `The file is nested deeper than ${this.#limits.maxDepth} levels`);
      }
      return first === '{' ? this.#object(depth) : this.#array(depth);
    }
    if (first === '"') return this.#scalar(this.#string(), start);
    for (const [word, value] of words) {
      if (this.#text.startsWith(word, start)) {
        this.#at += word.length;
        return this.#scalar(value, start);
      }
    }
    number.lastIndex = start;
    const digits = number.exec(this.#text)?.[0];
    if (digits === undefined)
      return this.#stop('json-syntax', `Expected a value, found ${this.#here()}`, this.#advice());
    const value = Number(digits);
    if (!Number.isFinite(value)) this.#stop('json-syntax', `The number ${digits.slice(0, 40)} is out of range`);
    this.#at += digits.length;
    const exact = exactDigits(digits, value);
    const node = this.#scalar(value, start);
    return exact === undefined ? node : { ...node, exact };
  }

  #scalar(value: JsonScalar, start: number): ScalarNode {
    return { kind: 'scalar', value, range: { file: this.#file, start, end: this.#at } };
  }

  #array(depth: number): Node {
    const start = this.#at++;
    const items: Node[] = [];
    this.#space();
    if (!this.#take(']')) {
      do {
        this.#space();
        items.push(this.#value(depth + 1));
        this.#space();
      } while (this.#take(','));
      if (!this.#take(']')) this.#stop('json-syntax', `Expected "," or "]", found ${this.#here()}`);
    }
    return { kind: 'seq', items, range: { file: this.#file, start, end: this.#at } };
  }

  #object(depth: number): MapNode {
    const start = this.#at++;
    const entries = new Map<string, MapEntry>();
    this.#space();
    if (!this.#take('}')) {
      do {
        this.#space();
        this.#member(entries, depth);
        this.#space();
      } while (this.#take(','));
      if (!this.#take('}')) this.#stop('json-syntax', `Expected "," or "}", found ${this.#here()}`);
    }
    return { kind: 'map', entries, range: { file: this.#file, start, end: this.#at } };
  }

  #member(entries: Map<string, MapEntry>, depth: number): void {
    const start = this.#at;
    if (this.#text[start] !== '"')
      this.#stop('json-syntax', `Expected a key in double quotes, found ${this.#here()}`, this.#advice());
    const key = this.#string();
    const keyRange = { file: this.#file, start, end: this.#at };
    this.#space();
    if (!this.#take(':')) this.#stop('json-syntax', `Expected ":" after the key, found ${this.#here()}`);
    this.#space();
    const value = this.#value(depth + 1);
    const first = entries.get(key);
    if (first === undefined) entries.set(key, { keyRange, value });
    else if (this.findings.length < this.#limits.maxFindings)
      this.findings.push(duplicateKey(key, keyRange, first.keyRange));
    else this.untold++;
  }

  #string(): string {
    const open = this.#at;
    let from = open + 1;
    let value = '';
    for (let at = from; ; at++) {
      const unit = this.#text.charCodeAt(at);
      if (unit === 0x22) return this.#closed(value + this.#text.slice(from, at), open, at + 1);
      if (Number.isNaN(unit)) this.#stop('json-syntax', 'The string is not closed');
      if (unit < 0x20) {
        this.#at = at;
        this.#stop('json-syntax', 'A control character stands in a string', 'Write it as an escape, such as \\n.');
      }
      if (unit === 0x5c) {
        value += this.#text.slice(from, at);
        this.#at = at;
        const [text, length] = this.#escape(at + 1);
        value += text;
        at += length;
        from = at + 1;
      }
    }
  }

  #closed(value: string, open: number, end: number): string {
    const problem = unprintable(value);
    this.#at = open;
    if (problem !== null) this.#stop(problem.code, problem.message);
    this.#at = end;
    return value;
  }

  #escape(at: number): readonly [string, number] {
    const letter = this.#text[at] ?? '';
    const simple = Object.hasOwn(escapes, letter) ? escapes[letter] : undefined;
    if (simple !== undefined) return [simple, 1];
    const hex = this.#text.slice(at + 1, at + 5);
    if (letter !== 'u' || !/^[0-9a-fA-F]{4}$/.test(hex))
      this.#stop('json-syntax', 'The escape in the string is not valid JSON');
    return [String.fromCharCode(Number.parseInt(hex, 16)), 5];
  }

  #space(): void {
    for (;;) {
      const unit = this.#text.charCodeAt(this.#at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.#at++;
    }
  }

  #take(mark: string): boolean {
    if (this.#text[this.#at] !== mark) return false;
    this.#at++;
    return true;
  }

  /** What to do about the slips that other notations of objects allow. */
  #advice(): string | undefined {
    if (/[}\]]/.test(this.#text[this.#at] ?? '')) return 'Remove the comma before it.';
    return this.#text[this.#at] === "'" ? 'Write double quotes for single ones.' : undefined;
  }

  #here(): string {
    const point = this.#text.codePointAt(this.#at);
    return point === undefined ? 'the end of the file' : JSON.stringify(String.fromCodePoint(point));
  }

  #stop(code: DiagnosticCode, message: string, hint?: string): never {
    const start = this.#at;
    const comment = this.#text.startsWith('//', start) || this.#text.startsWith('/*', start);
    const advice = comment ? 'JSON has no comments; use a .yaml file for them.' : hint;
    this.findings.push({
      severity: 'error',
      code,
      message,
      range: { file: this.#file, start, end: Math.min(start + 1, this.#text.length) },
      ...(advice === undefined ? {} : { hint: advice }),
    });
    throw new Stop();
  }
}
