import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bordersOf, contains } from './borders.ts';
import { isWithin } from './testkit/parsing.ts';

/** As it is said, for each end the longest beginning that is not all of it. */
function slowly(text: string): number[] {
  return Array.from(text, (_, last) => {
    const whole = text.slice(0, last + 1);
    for (let length = last; length > 0; length -= 1) if (whole.endsWith(whole.slice(0, length))) return length;
    return 0;
  });
}

test('of characters and of bytes it is the longest beginning that ends there', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 24 }), (text) => {
      const bytes = Buffer.from(text);
      assert.deepEqual([...bordersOf(text.length, (at) => text.charCodeAt(at))], slowly(text));
      assert.deepEqual([...bordersOf(bytes.length, (at) => bytes[at] as number)], slowly(text));
    }),
  );
});

test('a text has another in it where the runtime says so', () => {
  const few = (most: number) => fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: most });
  fc.assert(
    fc.property(few(300), few(20), few(100), (text, lead, what) => {
      for (const [whole, part] of [
        [text, what],
        [text + lead.repeat(8) + what + text, lead.repeat(8) + what],
      ] as const)
        assert.equal(contains(whole, part), whole.includes(part));
    }),
  );
});

test('what repeats itself is looked for in the time of both lengths', () => {
  const [text, half] = ['a'.repeat(1_000_000), 'a'.repeat(20_000)];
  const begun = performance.now();
  assert.equal(contains(text, `${half}b${half}`), false);
  assert.equal(contains(`${text}b${text}`, `${half}b${half}`), true);
  const ms = performance.now() - begun;
  assert.ok(isWithin(ms, 1_000), `${Math.round(ms)} ms`);
});
