// Where a cursor stands in a document that is being written: the path of keys, the word before it, and what stands beside it.
// It reads lines and indentation, not a tree: while somebody types, there is none. Pure.

export interface At {
  /** Keys from the root to the map or list in which the cursor stands, without indexes. */
  readonly path: readonly string[];
  /** What is being written there. */
  readonly kind: 'key' | 'value';
  /** Of a value, the key that it belongs to; an item of a list has none of its own. */
  readonly key: string | undefined;
  /** What stands of it before the cursor. */
  readonly typed: string;
  /** Plain values of the map in which the cursor stands, by key. */
  readonly beside: ReadonlyMap<string, string>;
  /** The same of each map around it, the nearest first. */
  readonly around: readonly ReadonlyMap<string, string>[];
  /** Inside an open `{{`: what stands behind it. */
  readonly token: string | undefined;
}

const keyPattern = /^(?:"([^"]*)"|'([^']*)'|([^\s#:{}[\],'"&*!|>%@`][^:#]*?|\$\.[^:\s]*))\s*:(?=\s|$)\s*(.*)$/;

interface Line {
  readonly indent: number;
  /** Columns at which an item of a list begins on this line, its dashes. */
  readonly dashes: readonly number[];
  /** Column at which what is behind the dashes begins. */
  readonly start: number;
  readonly key: string | undefined;
  readonly value: string;
}

function lineOf(text: string): Line | undefined {
  if (/^\s*(?:#.*)?$/.test(text)) return undefined;
  const dashes: number[] = [];
  let start = text.length - text.trimStart().length;
  const indent = start;
  while (/^-(?:\s|$)/.test(text.slice(start))) {
    dashes.push(start);
    const rest = text.slice(start + 1);
    start += 1 + (rest.length - rest.trimStart().length);
  }
  const body = text.slice(start);
  const match = keyPattern.exec(body);
  if (match === null) return { indent, dashes, start, key: undefined, value: body };
  return { indent, dashes, start, key: match[1] ?? match[2] ?? match[3] ?? '', value: match[4] ?? '' };
}

const plain = (value: string): string =>
  value
    .replace(/\s+#.*$/, '')
    .trim()
    .replace(/^(['"])(.*)\1$/, '$2');

/** The maps around a line, by indentation: the key of each, and the column at which its children stand. */
function blocksAbove(
  lines: readonly string[],
  at: number,
  column: number,
): { readonly line: number; readonly key: string }[] {
  const found: { readonly line: number; readonly key: string }[] = [];
  let limit = column;
  for (let index = at - 1; index >= 0 && limit > 0; index--) {
    const text = lines[index] ?? '';
    if (/^---(?:\s|$)/.test(text)) break;
    const line = lineOf(text);
    if (line === undefined || line.key === undefined) continue;
    // A key at the column of a list's dash holds that list too.
    const holds = line.start < limit && plain(line.value) === '';
    if (holds) {
      found.unshift({ line: index, key: line.key });
      limit = line.start;
    } else if (line.start < limit && line.dashes.length > 0) limit = line.start;
    const dash = line.dashes[0];
    if (dash !== undefined && line.start <= limit) limit = Math.min(limit, dash + 1);
  }
  return found;
}

/** Keys and plain values of the map whose keys stand at `column` around line `at`. */
function mapAt(lines: readonly string[], at: number, column: number): Map<string, string> {
  const found = new Map<string, string>();
  const take = (index: number): 'go on' | 'stop' | 'last' => {
    const text = lines[index] ?? '';
    if (/^---(?:\s|$)/.test(text)) return 'stop';
    const line = lineOf(text);
    if (line === undefined) return 'go on';
    if (line.start < column) return 'stop';
    if (line.start === column && line.key !== undefined) {
      if (line.value.startsWith('{'))
        for (const [key, value] of flowPairs(line.value)) found.set(`${line.key}.${key}`, value);
      found.set(line.key, plain(line.value));
    }
    return line.start === column && line.dashes.length > 0 ? 'last' : 'go on';
  };
  for (let index = at; index >= 0; index--) {
    const went = take(index);
    if (went !== 'go on') break;
  }
  for (let index = at + 1; index < lines.length; index++) {
    const line = lineOf(lines[index] ?? '');
    if (line !== undefined && line.dashes.length > 0 && line.start === column) break;
    if (take(index) !== 'go on') break;
  }
  return found;
}

const flowPairs = (text: string): [string, string][] =>
  [...text.matchAll(/(?:^|[{,])\s*([\w$.-]+)\s*:\s*([^,{}[\]]*)/g)].map(([, key = '', value = '']) => [
    key,
    plain(value),
  ]);

/** Flow maps that are open before the cursor: the key of each, and what stands in it. */
function flowOf(text: string): { readonly keys: string[]; readonly inside: string; readonly isList: boolean } {
  const stack: { key: string; from: number; isList: boolean }[] = [];
  let quote = '';
  let word = '';
  for (let index = 0; index < text.length; index++) {
    const character = text[index] ?? '';
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if ((character === '"' || character === "'") && /^\s*$/.test(word.slice(word.lastIndexOf(':') + 1)))
      quote = character;
    else if (character === '{' || character === '[') {
      stack.push({ key: /([\w$.-]+)\s*:\s*$/.exec(word)?.[1] ?? '', from: index + 1, isList: character === '[' });
      word = '';
      continue;
    } else if (character === '}' || character === ']') {
      stack.pop();
      word = '';
      continue;
    } else if (character === ',') {
      word = '';
      continue;
    }
    word += character;
  }
  const top = stack.at(-1);
  return {
    keys: stack.map(({ key }) => key),
    inside: top === undefined ? '' : text.slice(top.from),
    isList: top?.isList === true,
  };
}

/** Lines and columns count from 0. */
export function placeAt(text: string, line: number, column: number): At {
  const lines = text.split(/\r?\n/);
  const before = (lines[line] ?? '').slice(0, column);
  const here = lineOf(before) ?? { indent: column, dashes: [], start: column, key: undefined, value: '' };
  const above = blocksAbove(lines, line, here.dashes[0] === undefined ? here.start : here.dashes[0] + 1);
  const path = above.map(({ key }) => key);
  const around = [
    mapAt(lines, line, here.start),
    ...above.toReversed().map(({ line: at }) => mapAt(lines, at, lineOf(lines[at] ?? '')?.start ?? 0)),
  ];
  const token = /\{\{\s*([^{}]*)$/.exec(before)?.[1];
  const flow = flowOf(here.key === undefined ? here.value : here.value);
  if (token === undefined && (here.value.startsWith('{') || here.value.startsWith('[')) && flow.keys.length > 0) {
    const keys = [...path, ...(here.key === undefined ? [] : [here.key]), ...flow.keys.slice(1)].filter(
      (key) => key !== '',
    );
    const last = flow.inside.split(/[,{[]/).at(-1) ?? '';
    const pair = /^\s*["']?([\w$.-]+)["']?\s*:\s+(.*)$/.exec(last);
    const beside = new Map(flowPairs(`{${flow.inside}`));
    const base = { path: keys, beside, around: [beside, ...around], token: undefined };
    if (pair !== null) return { ...base, kind: 'value', key: pair[1], typed: (pair[2] ?? '').replace(/^['"]/, '') };
    return { ...base, kind: flow.isList ? 'value' : 'key', key: undefined, typed: last.trim() };
  }
  const beside = around[0] ?? new Map<string, string>();
  const base = { path, beside, around, token };
  if (here.key !== undefined) return { ...base, kind: 'value', key: here.key, typed: here.value.replace(/^['"]/, '') };
  const isItem = here.dashes.length > 0;
  return {
    ...base,
    kind: token === undefined ? 'key' : 'value',
    key: undefined,
    typed: here.value.trim(),
    ...(isItem && {}),
  };
}
