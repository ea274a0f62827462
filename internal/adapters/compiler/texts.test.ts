import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CompiledResource } from './run.ts';
import { packed, unpacked } from './texts.ts';

const resource = (spec: unknown): CompiledResource =>
  ({ kind: 'Agent', name: 'a', hash: 'h', source: { file: 'f', document: 0 }, spec }) as unknown as CompiledResource;

/** As it goes from thread to thread. */
function sent(resources: readonly CompiledResource[]): readonly CompiledResource[] {
  const made = packed(resources);
  return unpacked(structuredClone(made, { transfer: [made.bytes.buffer] }));
}

test('what is taken over has every value, and every key in its place', () => {
  const unit = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('x', 'ф', '😀', '\0', '\ud800', '"'));
  const long = fc.tuple(unit, fc.constantFrom(1, 1_023, 1_024, 3_000)).map(([of, times]) => of.repeat(times));
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      long,
      fc.integer(),
      fc.constantFrom(null, true),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'systemPrompt', '0', '7'), tie('value'), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.constantFrom('x', 'y', 'z'), value), { maxLength: 4 }), (specs) => {
      const resources = specs.map((spec) => resource({ ...spec }));
      const before = JSON.stringify(resources);
      const taken = sent(resources);
      assert.equal(JSON.stringify(resources), before, 'what is given is not changed');
      // Each reading gives the same, and so does a copy.
      assert.equal(JSON.stringify(taken), before);
      assert.equal(JSON.stringify(structuredClone(taken)), before);
      assert.equal(JSON.stringify(taken.map((one) => ({ ...one, spec: { ...one.spec } }))), before);
    }),
    { numRuns: 200 },
  );
});

test('a long text is bytes until somebody reads it, and a spec without one stays the object that it is', () => {
  const short = resource({ systemPrompt: 'short', list: ['a'] });
  const { resources, bytes } = packed([short, resource({ systemPrompt: 'ф'.repeat(2_000) })]);
  assert.equal(resources[0], short);
  assert.equal(bytes.length, 4_000);
  const [, taken] = unpacked(packed([short, resource({ systemPrompt: 'ф'.repeat(2_000) })]));
  const read = Object.getOwnPropertyDescriptor(taken?.spec, 'systemPrompt');
  assert.equal(typeof read?.get, 'function');
  assert.equal(read?.get?.call(taken?.spec), 'ф'.repeat(2_000));
});
