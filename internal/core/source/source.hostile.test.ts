import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { printDiagnostics, readSource, renderDiagnostic } from './source.ts';

/** What any file must give: a result whose places lie inside the text, and whose printing works. */
function examine(file: string, bytes: Uint8Array): void {
  const source = readSource(file, bytes);
  assert.equal(
    source.broken,
    source.findings.some((f) => f.severity === 'error'),
  );
  for (const { range } of source.findings) {
    if (range === undefined) continue;
    assert.ok(
      0 <= range.start && range.start <= range.end && range.end <= source.text.length + 1,
      JSON.stringify(range),
    );
  }
  for (const diagnostic of printDiagnostics(source.findings, () => source.text)) renderDiagnostic(diagnostic);
}

const files = fc.constantFrom('a.yaml', 'a.yml', 'a.json');
const runs = 500;

test('any bytes whatever give a result', () => {
  fc.assert(
    fc.property(files, fc.uint8Array({ maxLength: 300 }), (file, bytes) => examine(file, bytes)),
    { numRuns: runs },
  );
});

test('any mixture of the words and marks of YAML gives a result', () => {
  const words = [
    'name',
    'a',
    '1',
    '-',
    ':',
    '?',
    '[',
    ']',
    '{',
    '}',
    ',',
    '&x',
    '*x',
    '!!str',
    '!',
    '|',
    '>',
    '"',
    "'",
    '#',
    '%YAML 1.1',
    '---',
    '...',
    '\n',
    '\n  ',
    '\t',
    ' ',
    '<<',
    '\\',
    '~',
    '\r\n',
    '@',
    '`',
    '\ufeff',
    '\u0085',
    '- - ',
    ': : ',
    '{{ $x }}',
  ];
  fc.assert(
    fc.property(files, fc.array(fc.constantFrom(...words), { maxLength: 60 }), (file, parts) =>
      examine(file, new TextEncoder().encode(parts.join(''))),
    ),
    { numRuns: runs },
  );
});

const size = 1024 * 1024;
const fill = (unit: string, before = '', after = ''): string =>
  before + unit.repeat(Math.floor((size - before.length - after.length) / unit.length)) + after;

/** Megabytes of what parsers choke on; each must end in a verdict (hazards of the library: quadratic keys, deep recursion). */
const floods: { readonly [name: string]: string } = {
  'open brackets': fill('['),
  'open braces': fill('{a: '),
  'nested list marks': fill('- '),
  'explicit keys': fill('? '),
  colons: fill(': '),
  commas: fill(',', '['),
  'closing brackets': fill(']'),
  'blank lines': fill('\n'),
  comments: fill('#\n'),
  'double quotes': fill('"'),
  'single quotes': fill("'"),
  directives: fill('%\n'),
  tags: fill('!a '),
  documents: fill('a\n---\n'),
  'document ends': fill('...\n'),
  aliases: fill('*a,', 'a: &a 1\nb: [', '1]'),
  'duplicate keys': fill('a: b\n'),
  'many keys': Array.from({ length: 45_000 }, (_, k) => `k${k}: v`).join('\n'),
  'a folded scalar of blank lines': fill('  \n', 'a: >\n'),
  'spaces in a quoted scalar': fill(' ', 'a: "x', '"'),
  'typed brackets': `${'['.repeat(3000)}!!int "`,
};

for (const [name, text] of Object.entries(floods)) {
  test(`a megabyte of ${name} gives a result`, () =>
    examine('a.yaml', new TextEncoder().encode(text).subarray(0, size)));
}

test('a flat map of many keys is no error, and its last duplicate is found', () => {
  const text = `${floods['many keys']}\nk7: again\n`;
  const codes = readSource('a.yaml', new TextEncoder().encode(text)).findings.map((f) => f.code);
  assert.deepEqual(codes, ['duplicate-key']);
});

test('a billion laughs are refused before they are laughed', () => {
  const lines = ['a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]'];
  for (let k = 1; k < 10; k++)
    lines.push(
      `a${k}: &a${k} [${Array(10)
        .fill(`*a${k - 1}`)
        .join(', ')}]`,
    );
  const source = readSource('a.yaml', new TextEncoder().encode(lines.join('\n')));
  assert.deepEqual([...new Set(source.findings.map((f) => f.code))], ['yaml-aliases']);
  assert.deepEqual(source.documents, []);
});

const corpusDir = fileURLToPath(new URL('../../../testdata/hostile/', import.meta.url));
const corpus = readdirSync(corpusDir).sort();
assert.ok(corpus.length > 30, 'the hostile corpus is there');

for (const name of corpus) {
  const [code = '', what] = name.split('.');
  test(`hostile: ${name} is refused as ${code} (${what})`, () => {
    const bytes = readFileSync(`${corpusDir}${name}`);
    examine(name, bytes);
    const source = readSource(name, bytes);
    assert.deepEqual([...new Set(source.findings.map((finding) => finding.code))], [code]);
    assert.equal(source.broken, true);
    assert.ok(source.documents.every(({ isPartial }) => isPartial));
  });
}
