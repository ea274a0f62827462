import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Mask } from './mask.ts';
import { beginningAtEnd, replaceLong } from './mask-search.ts';

/** Texts that repeat themselves and one another. */
const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), maxLength: 40 });

test('a long text is found where the runtime finds it, and its beginning at an end as a reader would', () => {
  fc.assert(
    fc.property(text, text, (said, value) => {
      fc.pre(value !== '');
      assert.equal(
        replaceLong(said, value, '*'),
        said.replaceAll(value, () => '*'),
      );
      const lengths = Array.from({ length: Math.min(said.length, value.length - 1) }, (_, at) => at + 1);
      const longest = lengths.findLast((length) => value.startsWith(said.slice(said.length - length))) ?? 0;
      assert.equal(beginningAtEnd(said, value), longest);
    }),
  );
});

test('a value is hidden at any length, at once and in turns, and at the end of what was cut off', async () => {
  for (const length of [8, 255, 256, 257, 5_000]) {
    const value = Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * at) % 26))).join('');
    const mask = new Mask();
    mask.hide([value]);
    const said = `it is ${value}, or ${Buffer.from(value).toString('base64')}.`;
    assert.equal(mask.apply(said), 'it is ***, or ***.');
    assert.equal(await mask.applyInTurns(said), 'it is ***, or ***.');
    assert.equal(mask.applyToCut(`it is ${value.slice(0, -1)}`), 'it is ');
  }
});

test('of what a harness gives without end, the newest is hidden, and what the session has all the while', () => {
  const mask = new Mask();
  mask.hide(['the-own-value']);
  for (let given = 0; given < 1_000; given += 1) mask.hideGiven([`given-${given}-value`]);
  assert.equal(mask.apply('given-999-value given-940-value the-own-value'), '*** *** ***');
  assert.equal(mask.apply('given-0-value'), 'given-0-value');
  const long = 'x'.repeat(65_000);
  mask.hideGiven([long]);
  assert.equal(mask.apply(`${long} given-999-value the-own-value`), '*** *** ***');
});
