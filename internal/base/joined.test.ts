import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Joined } from './joined.ts';

test('parts of any size are one in their order, and it begins anew', () => {
  const joined = new Joined();
  assert.equal(joined.take().length, 0);
  for (const sizes of [
    [5],
    [1, 1, 1],
    [1, 70_000, 3, 16_383, 16_384, 1],
    Array.from({ length: 70_000 }, () => 1),
    [0, 2, 0],
  ]) {
    const parts = sizes.map((size, at) => Buffer.alloc(size, at % 251));
    for (const part of parts) joined.add(part);
    const whole = Buffer.concat(parts);
    assert.equal(joined.length, whole.length);
    assert.ok(joined.take().equals(whole));
    assert.equal(joined.length, 0);
  }
});

test('one part is not copied', () => {
  const joined = new Joined();
  const part = Buffer.from('whole');
  joined.add(part);
  assert.equal(joined.take(), part);
});

test('a million parts of a byte take little more than a million bytes', () => {
  const before = process.memoryUsage().heapUsed;
  const joined = new Joined();
  const part = Buffer.from('x');
  for (let at = 0; at < 1_000_000; at += 1) joined.add(part);
  assert.ok(process.memoryUsage().heapUsed - before < 8_000_000);
  assert.equal(joined.take().length, 1_000_000);
});
