// From a pattern's text to its tree, with every bound held while it is read.

const patternCharsMax = 1_024;
const valueCharsMax = 4_096;
const stepsMax = 16_384;
const depthMax = 32;

/** `count` is the number of derivations; `length` the longest value; `steps` what the longest draw costs. */
interface Sized {
  readonly count: bigint;
  readonly least: number;
  readonly length: number;
  readonly steps: number;
}
export type Node = Sized &
  (
    | { readonly kind: 'chars'; readonly chars: string }
    | { readonly kind: 'sequence'; readonly items: readonly Node[] }
    | { readonly kind: 'choice'; readonly options: readonly Node[] }
    | { readonly kind: 'repeat'; readonly item: Node; readonly min: number; readonly max: number }
  );

class Refused extends Error {
  readonly offset: number;
  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

const printableSet = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join('');
const digits = '0123456789';
const word = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz${digits}_`;
/** Characters that mean something, or would to a reader, and stand for themselves only behind a backslash. */
const special = '\\[](){}|?*+.^$';

export type Parsed =
  | { readonly ok: true; readonly node: Node }
  | { readonly ok: false; readonly offset: number; readonly message: string };

/** Reads the whole text; the message never repeats more of it than one character. */
export function parse(text: string): Parsed {
  try {
    if (text === '') throw new Refused(0, 'the pattern is empty');
    if (text.length > patternCharsMax) {
      throw new Refused(patternCharsMax, `the pattern is longer than ${patternCharsMax} characters`);
    }
    const reader = new Reader(text);
    const node = reader.choice(0);
    if (!reader.atEnd()) throw new Refused(reader.at, 'this ) closes no group');
    if (node.least === 0) throw new Refused(0, 'the pattern may give an empty value');
    return { ok: true, node };
  } catch (error) {
    if (error instanceof Refused) return { ok: false, offset: error.offset, message: error.message };
    throw error;
  }
}

const chars = (set: string): Node => ({
  kind: 'chars',
  chars: set,
  count: BigInt(set.length),
  least: 1,
  length: 1,
  steps: 1,
});

class Reader {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  atEnd(): boolean {
    return this.at >= this.#text.length;
  }

  choice(depth: number): Node {
    if (depth > depthMax) throw new Refused(this.at, `groups nest deeper than ${depthMax}`);
    const options = [this.#sequence(depth)];
    while (this.#text[this.at] === '|') {
      this.at += 1;
      options.push(this.#sequence(depth));
    }
    const [only] = options;
    if (only !== undefined && options.length === 1) return only;
    return {
      kind: 'choice',
      options,
      count: options.reduce((sum, option) => sum + option.count, 0n),
      least: Math.min(...options.map((option) => option.least)),
      length: Math.max(...options.map((option) => option.length)),
      steps: 1 + Math.max(...options.map((option) => option.steps)),
    };
  }

  #sequence(depth: number): Node {
    const items: Node[] = [];
    let [count, least, length, steps] = [1n, 0, 0, 1];
    while (!this.atEnd() && this.#text[this.at] !== '|' && this.#text[this.at] !== ')') {
      const start = this.at;
      const item = this.#quantified(depth);
      items.push(item);
      count *= item.count;
      least += item.least;
      length += item.length;
      steps += item.steps;
      requireSmall(start, length, steps);
    }
    return { kind: 'sequence', items, count, least, length, steps };
  }

  #quantified(depth: number): Node {
    const start = this.at;
    const item = this.#atom(depth);
    const bounds = this.#quantifier();
    if (bounds === undefined) return item;
    const [min, max] = bounds;
    const length = item.length * max;
    const steps = 1 + item.steps * max;
    // Before counting: the numbers grow with what they count.
    requireSmall(start, length, steps);
    let count = 0n;
    let term = item.count ** BigInt(min);
    for (let times = min; times <= max; times += 1) {
      count += term;
      term *= item.count;
    }
    return { kind: 'repeat', item, min, max, count, least: item.least * min, length, steps };
  }

  #quantifier(): readonly [number, number] | undefined {
    const start = this.at;
    const sign = this.#text[start];
    if (sign === '*' || sign === '+') {
      throw new Refused(start, `${sign} has no bound; write {n,m}`);
    }
    let bounds: readonly [number, number] | undefined;
    if (sign === '?') {
      bounds = [0, 1];
      this.at += 1;
    } else if (sign === '{') {
      const match = /^\{(\d{1,6})(?:(,)(\d{1,6})?)?\}/.exec(this.#text.slice(start, start + 16));
      if (match === null) throw new Refused(start, 'this { begins no {n} or {n,m}; write \\{ for the character');
      if (match[2] !== undefined && match[3] === undefined) throw new Refused(start, '{n,} has no bound; write {n,m}');
      bounds = [Number(match[1]), Number(match[3] ?? match[1])];
      if (bounds[0] > bounds[1]) throw new Refused(start, 'the least is more than the most');
      this.at += match[0].length;
    }
    if (bounds !== undefined && '?*+{'.includes(this.#text[this.at] ?? ' ')) {
      throw new Refused(this.at, 'a quantifier cannot follow a quantifier');
    }
    return bounds;
  }

  #atom(depth: number): Node {
    const start = this.at;
    const sign = this.#text[start] ?? '';
    if (sign === '(') return this.#group(depth);
    if (sign === '[') return chars(this.#class());
    if (sign === '\\') return chars(this.#escape());
    if (sign === '.')
      throw new Refused(start, '. stands for no certain character; write a class, or \\. for the character');
    if ('?*+{'.includes(sign)) throw new Refused(start, 'there is nothing before this to repeat');
    if (special.includes(sign)) throw new Refused(start, `write \\${sign} for the character`);
    this.at += 1;
    return chars(printable(sign, start));
  }

  #group(depth: number): Node {
    const start = this.at;
    this.at += 1;
    if (this.#text[this.at] === '?') {
      if (this.#text[this.at + 1] !== ':') throw new Refused(start, 'the only special group is (?:…)');
      this.at += 2;
    }
    const node = this.choice(depth + 1);
    if (this.#text[this.at] !== ')') throw new Refused(start, 'this ( is not closed');
    this.at += 1;
    return node;
  }

  /** The characters of an escape, which is one, or those of a shorthand. */
  #escape(): string {
    const start = this.at;
    const sign = this.#text[start + 1];
    if (sign === undefined) throw new Refused(start, 'a backslash ends the pattern');
    this.at += 2;
    if (sign === 'd') return digits;
    if (sign === 'w') return word;
    if (/[A-Za-z0-9]/.test(sign)) throw new Refused(start, 'of the escapes only \\d, \\w and those of signs are known');
    return printable(sign, start + 1);
  }

  #class(): string {
    const start = this.at;
    this.at += 1;
    const negated = this.#text[this.at] === '^';
    if (negated) this.at += 1;
    const members = new Set<string>();
    while (this.#text[this.at] !== ']') {
      if (this.atEnd()) throw new Refused(start, 'this [ is not closed');
      const from = this.at;
      const first = this.#member();
      if (this.#text[this.at] !== '-' || this.#text[this.at + 1] === ']') {
        for (const char of first) members.add(char);
        continue;
      }
      this.at += 1;
      if (this.atEnd()) throw new Refused(start, 'this [ is not closed');
      const last = this.#member();
      if (first.length !== 1 || last.length !== 1 || first > last) throw new Refused(from, 'this is no range');
      for (let code = first.charCodeAt(0); code <= last.charCodeAt(0); code += 1) {
        members.add(String.fromCharCode(code));
      }
    }
    this.at += 1;
    const set = [...printableSet].filter((char) => members.has(char) !== negated).join('');
    if (set === '') throw new Refused(start, 'this class has no characters');
    return set;
  }

  #member(): string {
    const sign = this.#text[this.at] ?? '';
    if (sign === '\\') return this.#escape();
    if (sign === '[') throw new Refused(this.at, 'write \\[ for the character');
    const at = this.at;
    this.at += 1;
    return printable(sign, at);
  }
}

function printable(sign: string, at: number): string {
  if (!printableSet.includes(sign)) throw new Refused(at, 'only printable ASCII characters are allowed');
  return sign;
}

function requireSmall(at: number, length: number, steps: number): void {
  if (length > valueCharsMax) throw new Refused(at, `the value could be longer than ${valueCharsMax} characters`);
  if (steps > stepsMax) throw new Refused(at, 'the pattern takes too many steps to draw');
}
