import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bordersOf } from './borders.ts';

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
