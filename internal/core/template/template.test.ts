import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Json } from '../../domain/json.ts';
import { lookUp, missingPaths, parseTemplate, renderWithin, substituteVariables, type Template } from './template.ts';

const payload = {
  chat: { provider: 'huddle', count: 3, open: true, none: null, empty: '', 'with-dash': 'd' },
  list: [1, { k: 'v' }],
  '{{ chat.provider }}': 'x',
};

const rendered = (template: Template | string, root: Json): string => renderWithin(template, root, 1_000_000).text;

const renderedList: readonly (readonly [name: string, template: string, expected: string])[] = [
  ['a string', 'on {{chat.provider}}!', 'on huddle!'],
  ['white space inside the braces', '{{ chat.provider }}{{\n\tchat.count\n}}', 'huddle3'],
  ['a boolean', '{{ chat.open }}', 'true'],
  ['an object as JSON', '{{ list.1 }}', '{"k":"v"}'],
  ['an array as JSON', '{{ list }}', '[1,{"k":"v"}]'],
  ['an item of an array', '{{ list.1.k }}', 'v'],
  ['the length of an array, which no payload has, as nothing', '[{{ list.length }}]', '[]'],
  ['null as nothing', '[{{ chat.none }}]', '[]'],
  ['a missing path as nothing', '[{{ chat.nope.deeper }}{{ nope }}]', '[]'],
  ['a path through a scalar as nothing', '[{{ chat.provider.length }}]', '[]'],
  ['prototypes as nothing', '[{{ chat.constructor }}{{ chat.__proto__ }}{{ toString }}]', '[]'],
  ['a dash in a segment', '{{ chat.with-dash }}', 'd'],
  ['a variable as text', '{{ $chat }} {{$chat.provider}}', '{{ $chat }} {{$chat.provider}}'],
  [
    'braces around no path as text',
    '{{ }} {{ a b }} {{ .a }} {{ a. }} {{ a..b }} {{ a',
    '{{ }} {{ a b }} {{ .a }} {{ a. }} {{ a..b }} {{ a',
  ],
  ['single braces as text', '{ "name": "x" } {chat.provider}', '{ "name": "x" } {chat.provider}'],
  ['the inner pair of three braces', '{{{ chat.count }}}', '{3}'],
];

for (const [name, template, expected] of renderedList) {
  test(`rendering gives ${name}`, () => assert.equal(rendered(template, payload), expected));
}

test('a template read once renders many payloads', () => {
  const template = parseTemplate('{{ a }}-{{ a }}-{{ b.c }}');
  assert.deepEqual(
    template.tokens.map(({ path, start, end }) => [path, start, end]),
    [
      ['a', 0, 7],
      ['a', 8, 15],
      ['b.c', 16, 25],
    ],
  );
  assert.equal(rendered(template, { a: 1 }), '1-1-');
  assert.equal(rendered(template, { a: 'x', b: { c: [] } }), 'x-x-[]');
});

test('a rendering stops at its bound, and knows what it lacks to the byte', () => {
  const segment = fc.constantFrom('a', 'b', '0', '1', 'é');
  const leaf = fc.oneof(fc.string({ unit: 'grapheme' }), fc.double(), fc.boolean(), fc.constant(null));
  const value = fc.letrec<{ root: Json }>((tie) => ({
    root: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf as fc.Arbitrary<Json>,
      fc.array(tie('root')),
      fc.dictionary(segment, tie('root')),
    ),
  })).root;
  const token = fc.array(segment, { minLength: 1, maxLength: 4 }).map((path) => `{{ ${path.join('.')} }}`);
  const template = fc
    .array(fc.oneof(token, fc.string({ unit: 'grapheme' })), { maxLength: 30 })
    .map((all) => all.join(''));
  fc.assert(
    fc.property(template, value, fc.nat(200), (text, root, bytesMax) => {
      const all = rendered(text, root);
      const { text: shown, beyond } = renderWithin(text, root, bytesMax);
      assert.ok(all.startsWith(shown));
      assert.equal(beyond(), Buffer.byteLength(all.slice(shown.length)));
      if (Buffer.byteLength(all) <= bytesMax) assert.equal(shown, all);
      else assert.ok(Buffer.byteLength(shown) + beyond() > bytesMax);
    }),
  );
});

test('a number that is kept by its digits is counted by them', () => {
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): Json };
  const root = { a: [rawJSON('123456789012345678901234567890')], b: rawJSON('1e400') };
  const { text, beyond } = renderWithin('xx{{ a }}{{ b }}', root, 1);
  assert.deepEqual([text, beyond()], ['xx', '[123456789012345678901234567890]1e400'.length]);
});

test('members without a value count as JSON prints them: left out of an object, null in a list', () => {
  const root = { a: [undefined, { b: undefined, c: 1 }] } as unknown as Json;
  assert.equal(renderWithin('xx{{ a }}', root, 1).beyond(), '[null,{"c":1}]'.length);
});

test('a text that has just reached its bound goes on by one value', () => {
  assert.equal(renderWithin('xx{{ a }}', { a: 'y' }, 2).text, 'xxy');
  assert.equal(renderWithin('xxx{{ a }}', { a: 'y' }, 2).text, 'xxx');
});

test('what four thousand tokens make of a megabyte is neither put together nor printed four thousand times', () => {
  const nested = Array.from({ length: 60 }).reduce<Json>((inner) => ({ n: inner }), { z: 'z'.repeat(1_000_000) });
  const paths = Array.from(
    { length: 4_000 },
    (_, at) => `{{${Array.from({ length: (at % 60) + 1 }, () => 'n').join('.')}}}`,
  );
  const { text, beyond } = renderWithin(paths.join(''), nested, 1_048_576);
  assert.ok(text.length < 3_200_000);
  assert.ok(text.length + beyond() > 4_000_000_000);
});

test('a rendered value is not read again for tokens', () => {
  assert.equal(rendered('{{ a }}', { a: '{{ b }}', b: 'no' }), '{{ b }}');
});

test('missing paths are named once each, in order', () => {
  assert.deepEqual(missingPaths('{{ z }}{{ chat.none }}{{ chat.empty }}{{ z }}{{ chat.count }}', payload), [
    'z',
    'chat.none',
    'chat.empty',
  ]);
  assert.deepEqual(missingPaths(parseTemplate('plain'), payload), []);
});

test('look-up walks own properties only', () => {
  assert.equal(lookUp(JSON.parse('{"__proto__": {"a": 1}}'), ['__proto__', 'a']), 1);
  assert.equal(lookUp({}, ['__proto__', 'a']), undefined);
  assert.equal(lookUp(null, ['a']), undefined);
  assert.equal(lookUp('text', ['length']), undefined);
});

const scope = new Map([
  ['a', 'A'],
  ['b_1', '{{ $a }}'],
  ['empty', ''],
]);

const substituted: readonly (readonly [name: string, text: string, expected: string])[] = [
  ['a token', 'x {{ $a }} y', 'x A y'],
  ['free white space', '{{$a}}{{  $a\n}}{{\t$a}}', 'AAA'],
  ['a value that looks like a token, once', '{{ $b_1 }}', '{{ $a }}'],
  ['an empty value', '[{{ $empty }}]', '[]'],
  ['tokens without $ untouched', '{{ a }} {{a.b}} {{ }}', '{{ a }} {{a.b}} {{ }}'],
  ['a token inside more braces', '{{{ $a }}}', '{A}'],
  ['a dollar without braces untouched', '$a {$a} { {$a} }', '$a {$a} { {$a} }'],
];

for (const [name, text, expected] of substituted) {
  test(`substitution gives ${name}`, () => {
    const { text: result, problems } = substituteVariables(text, scope);
    assert.deepEqual([result, problems], [expected, []]);
  });
}

test('unknown and malformed tokens are problems with their place, and stay', () => {
  const text = '{{ $nope }} {{ $1x }} {{ $a.b }} {{ $ }} {{ $a b }} {{ $1 $a }} {{ $a }} {{ $a {{ $a }} {{ $end';
  const { text: result, tokens, problems } = substituteVariables(text, scope);
  assert.equal(result, '{{ $nope }} {{ $1x }} {{ $a.b }} {{ $ }} {{ $a b }} {{ $1 $a }} A {{ $a A {{ $end');
  assert.equal(tokens, 10);
  assert.equal(problems.filter((one) => Object.hasOwn(one, 'name')).length, 1);
  assert.deepEqual(
    problems.map((p) => [p.kind, p.token, p.name, text.slice(p.start, p.end).trimEnd()]),
    [
      ['unknown', '{{ $nope }}', 'nope', '{{ $nope }}'],
      ['malformed', '{{ $1x }}', undefined, '{{ $1x }}'],
      ['malformed', '{{ $a.b }}', undefined, '{{ $a.b }}'],
      ['malformed', '{{ $ }}', undefined, '{{ $ }}'],
      ['malformed', '{{ $a b }}', undefined, '{{ $a b }}'],
      ['malformed', '{{ $1 $a }}', undefined, '{{ $1 $a }}'],
      ['malformed', '{{ $a', undefined, '{{ $a'],
      ['malformed', '{{ $end', undefined, '{{ $end'],
    ],
  );
});

test('a long malformed token is quoted in part', () => {
  const [problem] = substituteVariables(`{{ $${'x'.repeat(200)} y }}`, scope).problems;
  assert.equal(problem?.token.length, 61);
  const whole = `{{ $${'x'.repeat(51)} y }}`;
  assert.deepEqual([whole.length, substituteVariables(whole, scope).problems[0]?.token], [60, whole]);
});

test('names of prototypes are no variables', () => {
  assert.equal(substituteVariables('{{ $constructor }}{{ $__proto__ }}', new Map()).problems.length, 2);
});

test('text without tokens comes back as it was, whatever it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('{', '}', ' ', '$', 'a', '.', '\n', '1') }), (text) => {
      const { text: result, tokens, problems } = substituteVariables(text, scope);
      if (tokens === 0) assert.deepEqual([result, problems], [text, []]);
      assert.equal(tokens === 0, !/\{\{\s*\$/.test(text));
      for (const { start, end } of problems) assert.ok(start < end && end <= text.length);
      rendered(text, payload);
    }),
  );
});
