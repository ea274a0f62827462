import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { nestsDeeper } from '../../words/depth.ts';

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;

it('the levels of any JSON are counted as they nest, whatever its texts hold', () => {
  const text = fc.string({ unit: fc.constantFrom('{', '[', '"', '\\', '}', ']', 'a') });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'medium' }, text, fc.array(tie('value')), fc.dictionary(text, tie('value'))),
  }));
  fc.assert(
    fc.property(value, fc.nat(12), (json, levels) => {
      assert.equal(nestsDeeper(Buffer.from(JSON.stringify(json)), levels), depthOf(json) > levels);
    }),
    { numRuns: 2_000 },
  );
});

it('what never closes is as deep as it opens', () => {
  assert.equal(nestsDeeper(Buffer.from('['.repeat(64)), 64), false);
  assert.equal(nestsDeeper(Buffer.from('['.repeat(65)), 64), true);
  assert.equal(nestsDeeper(Buffer.from(`"${'['.repeat(65)}`), 64), false);
});
