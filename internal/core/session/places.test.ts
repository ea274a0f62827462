import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placesToAskBack } from './session.ts';

/** `a5` rests for 5 ms in project a; `a` does not rest; `a!` is leaving. */
const held = (words: string) =>
  words.split(' ').map((word) => ({
    word,
    projectId: word.charAt(0),
    restsForMs: /\d/.test(word) ? Number(word.slice(1)) : undefined,
    isLeaving: word.endsWith('!'),
  }));
/** `b2`: the place would be its project's second. */
const waiting = (words: string) =>
  words
    .split(' ')
    .filter(Boolean)
    .map((word) => ({ projectId: word.charAt(0), turn: Number(word.slice(1)) }));
const asked = (of: string, who: string, max: number, perProject?: number): string =>
  placesToAskBack(held(of), waiting(who), { max, perProject })
    .map((one) => one.word)
    .join(' ');

test('while nobody waits no place is asked back, and none for whom there is room', () => {
  assert.equal(asked('a9 a8', '', 2), '');
  assert.equal(asked('a9 a8', 'b1', 3), '');
  assert.equal(asked('a9 a8', 'b1 b2', 3), 'a9');
});

test('one place for each that waits, of the project that holds most, the longest rest first', () => {
  assert.equal(asked('b99 a1 a2 a3', 'c1', 4), 'a3');
  assert.equal(asked('b99 a1 a2 a3', 'c1 c2', 4), 'a3 a2');
  assert.equal(asked('b99 a1 a a', 'c1 c2 c3', 4), 'a1 b99');
  assert.equal(asked('a a', 'c1', 2), '', 'what works is never asked');
});

test('what is leaving counts as free already', () => {
  assert.equal(asked('a! a2', 'c1', 2), '');
  assert.equal(asked('a! a2', 'c1 c2', 2), 'a2');
});

test('whom the number of its own project holds up is helped by that project alone', () => {
  assert.equal(asked('a b9', 'a2', 10, 1), '');
  assert.equal(asked('a5 b9', 'a2', 10, 1), 'a5');
  assert.equal(asked('a! b9', 'a2', 10, 1), '', 'its place is under way');
  assert.equal(asked('a! a5', 'a2', 10, 1), '');
  assert.equal(asked('a! a5', 'a3', 10, 1), 'a5', 'one is under way, and two wait');
  assert.equal(asked('a! a! a5', 'a3', 10, 1), '');
  assert.equal(asked('a5 a6', 'a3 a3', 10, 2), 'a6', 'what was asked serves the next of the same turn');
  assert.equal(asked('a5 a6', 'a3 a4', 10, 2), 'a6 a5');
  assert.equal(asked('a5 a6 a7', 'a4 a5 a5', 10, 3), 'a7 a6');
  assert.equal(asked('a b9', 'a2 a2', 2, 1), '', 'what could not be asked frees nothing');
  assert.equal(asked('a5 b9', 'a2 a3 c1', 2, 1), 'a5 b9');
});
