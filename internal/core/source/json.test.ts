import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { toPlain } from './node.ts';
import { printDiagnostics, readSource } from './source.ts';

const read = (text: string) => readSource('a.json', new TextEncoder().encode(text));

test('an object of every kind of value is read as JSON.parse reads it, with places', () => {
  const text =
    '{ "a": [1, -2.5e3, true, false, null], "b\\u0041\\n": {"c": "\\"\\\\\\/\\b\\f\\r\\t"}, "d": {}, "e": [] }';
  const source = read(text);
  const root = source.documents[0]?.root;
  assert.ok(root);
  assert.deepEqual(JSON.parse(JSON.stringify(toPlain(root))), JSON.parse(text));
  const a = root.entries.get('a');
  assert.deepEqual([a?.keyRange.start, a?.value.range.start, a?.value.range.end], [2, 7, 37]);
});

test('JSON.parse and the reader accept the same objects', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const text = JSON.stringify(value);
      const source = read(text);
      if (text.includes('\\u0000') || /\\ud[89a-f]/i.test(text)) return;
      assert.deepEqual(source.findings, []);
      assert.deepEqual(
        JSON.parse(JSON.stringify(toPlain(source.documents[0]?.root ?? assert.fail()))),
        JSON.parse(text),
      );
    }),
  );
});

const refused: readonly (readonly [name: string, text: string, expected: string])[] = [
  ['a list', '[{"name": "a"}]', '1:1 document-not-a-map'],
  ['a single value', '"a"', '1:1 document-not-a-map'],
  ['a comment', '{\n  // no\n}', '2:3 json-syntax'],
  ['a block comment', '/* no */ {}', '1:1 json-syntax'],
  ['a trailing comma', '{"a": 1,}', '1:9 json-syntax'],
  ['a trailing comma in a list', '{"a": [1,]}', '1:10 json-syntax'],
  ['two values', '{} {}', '1:4 json-syntax'],
  ['single quotes', "{'a': 1}", '1:2 json-syntax'],
  ['a missing colon', '{"a" 1}', '1:6 json-syntax'],
  ['an unclosed object', '{"a": 1', '1:8 json-syntax'],
  ['an unclosed list', '{"a": [1', '1:9 json-syntax'],
  ['an unclosed string', '{"a": "x', '1:7 json-syntax'],
  ['a raw line end in a string', '{"a": "x\ny"}', '1:9 json-syntax'],
  ['a bad escape', '{"a": "\\x"}', '1:8 json-syntax'],
  ['a short escape', '{"a": "\\u12"}', '1:8 json-syntax'],
  ['a leading zero', '{"a": 01}', '1:8 json-syntax'],
  ['a plus', '{"a": +1}', '1:7 json-syntax'],
  ['NaN', '{"a": NaN}', '1:7 json-syntax'],
  ['a number out of range', '{"a": 1e999}', '1:7 json-syntax'],
  ['an escaped NUL', '{"a": "x\\u0000"}', '1:7 nul-byte'],
  ['half a surrogate pair', '{"a": "\\ud800"}', '1:7 invalid-utf8'],
  ['a duplicate key', '{"a": 1, "b": 2, "a": 3}', '1:18 duplicate-key'],
  ['a duplicate key written otherwise', '{"a": 1, "\\u0061": 3}', '1:10 duplicate-key'],
];

for (const [name, text, expected] of refused) {
  test(`${name} is refused where it stands`, () => {
    const source = read(text);
    const isPartial = name.startsWith('a duplicate key');
    assert.deepEqual(
      source.documents.map((document) => document.isPartial),
      isPartial ? [true] : [],
    );
    assert.equal(source.broken, true);
    const [first] = printDiagnostics(source.findings, () => source.text);
    assert.equal(`${first?.line}:${first?.column} ${first?.code}`, expected);
  });
}

test('a comment is met with advice', () => {
  assert.match(String(read('{ // x\n}').findings[0]?.hint), /no comments/);
});

test('an empty JSON file holds no document', () => {
  assert.deepEqual(read(' \n').findings, []);
  assert.deepEqual(read('').documents, []);
});
