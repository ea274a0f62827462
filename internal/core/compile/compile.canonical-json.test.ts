import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson, type Json } from '../../domain/json.ts';

/** What the words of the definition say: each map with its keys by code unit, and nothing that is undefined. */
function byTheWords(value: Json | undefined): string {
  if (value === undefined) return 'null';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(byTheWords).join(',')}]`;
  const record = value as { readonly [key: string]: Json | undefined };
  const keys = Object.keys(record).filter((key) => record[key] !== undefined);
  return `{${keys
    .sort()
    .map((key) => `${JSON.stringify(key)}:${byTheWords(record[key])}`)
    .join(',')}}`;
}

const key = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.constantFrom('', 'a', 'B', 'a b', '"', '\\', '\0', '\ud800', '10', '9', '$.x-y', '__proto__', 'toString'),
);
const leaf = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.double(),
  fc.integer(),
  fc.constantFrom(null, true, false, undefined, -0, 1e21),
);
const { value } = fc.letrec<{ value: Json | undefined }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 40, noNullPrototype: false }),
  ) as fc.Arbitrary<Json | undefined>,
}));

test('the canonical text is the one that the words of its definition give, for records small and large', () => {
  fc.assert(
    fc.property(value, (one) => {
      assert.equal(canonicalJson(one), byTheWords(one));
    }),
    { numRuns: 500 },
  );
});

test('equal values give equal text whatever the order of their keys', () => {
  fc.assert(
    fc.property(fc.uniqueArray(key, { maxLength: 40 }), (keys) => {
      const made = (order: readonly string[]) => Object.fromEntries(order.map((name) => [name, name.length]));
      assert.equal(canonicalJson(made(keys)), canonicalJson(made(keys.toReversed())));
    }),
  );
});
