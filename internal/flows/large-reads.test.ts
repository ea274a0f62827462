import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LargeReads, type ReadRoom } from './large-reads.ts';

const never = new AbortController().signal;
const mebibyte = 1024 * 1024;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A read of so many mebibytes that is then held; `tries` counts how often it was begun. */
function reading(room: ReadRoom, mebibytes: number, signal = never) {
  const state = { tries: 0, isDone: false, ended: Promise.resolve() };
  const call = async (): Promise<void> => {
    state.tries += 1;
    for (let at = 0; at < mebibytes; at += 1) room.taking(mebibyte);
  };
  state.ended = room.read(call, signal).then(() => {
    state.isDone = true;
  });
  return state;
}

test('small reads never wait, and of large ones two are held at a time, one of a project, by turns of projects', async () => {
  const reads = new LargeReads();
  const rooms = ['a', 'a', 'a', 'b', 'b', 'c'].map((owner) => reads.roomOf(owner));
  const states = rooms.map((room) => reading(room, 10));
  const small = reading(reads.roomOf('a'), 2);
  await turn();
  const done = (): string => states.map(({ isDone }) => (isDone ? 'x' : '-')).join('');
  assert.deepEqual([done(), small.isDone], ['x--x--', true]);
  const seen: string[] = [];
  for (const at of [0, 3, 1, 4, 5]) {
    rooms[at]?.leave();
    await turn();
    seen.push(done());
  }
  assert.deepEqual(seen, ['xx-x--', 'xx-xx-', 'xx-xxx', 'xxxxxx', 'xxxxxx']);
  // What found room at once was not begun anew.
  assert.deepEqual(
    states.map(({ tries }) => tries),
    [1, 2, 2, 1, 2, 2],
  );
});

test('who is overtaken while it waits leaves its place to others, and a read that was given up takes none', async () => {
  const reads = new LargeReads();
  const [one, other, third] = ['a', 'a', 'a'].map((owner) => reads.roomOf(owner)) as [ReadRoom, ReadRoom, ReadRoom];
  await reading(one, 10).ended;
  const ending = new AbortController();
  const overtaken = reading(other, 10, ending.signal);
  ending.abort(new Error('something newer'));
  await assert.rejects(overtaken.ended, /something newer/);
  await assert.rejects(reading(third, 10, ending.signal).ended, /something newer/);
  one.leave();
  one.leave();
  assert.throws(() => one.taking(10 * mebibyte));
  await reading(reads.roomOf('a'), 10).ended;
});

test('what is known to be large waits before it is read', async () => {
  const reads = new LargeReads();
  const [one, other] = [reads.roomOf('a'), reads.roomOf('a')];
  await one.hold(mebibyte, never);
  await one.hold(10 * mebibyte, never);
  let isIn = false;
  const waiting = other.hold(10 * mebibyte, never).then(() => {
    isIn = true;
  });
  await turn();
  assert.equal(isIn, false);
  one.leave();
  await waiting;
  other.taking(60 * mebibyte);
});
