import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formsOf } from './mask-forms.ts';
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

/** Some are like others at one end or at both. */
const line = fc
  .tuple(
    fc.constantFrom('', '        ', 'value-of-'),
    fc.string({ unit: fc.constantFrom('a', 'b', '-'), maxLength: 24 }),
  )
  .map((parts) => parts.join(''));

test('very many values are hidden as if each were looked for by itself, also where a text ends within one', () => {
  const lines = fc.array(line, { minLength: 8, maxLength: 30 });
  fc.assert(
    fc.property(lines, fc.array(fc.nat(), { minLength: 6, maxLength: 6 }), fc.nat(60), (values, draws, cut) => {
      const mask = new Mask();
      mask.hide(values);
      // Longest first: one may be part of another.
      const forms = [...new Set(values.flatMap(formsOf))].filter((form) => form.length >= 4);
      const each = forms.toSorted((one, other) => other.length - one.length);
      const drawn = draws.map((draw) => forms[draw % forms.length] ?? '').join(' and ');
      const said = drawn.slice(0, drawn.length - cut);
      assert.equal(
        mask.apply(said),
        each.reduce((text, form) => text.replaceAll(form, '***'), said),
      );
      assert.equal(mask.open(said), Math.max(0, ...each.map((form) => beginningAtEnd(said, form))));
    }),
  );
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
