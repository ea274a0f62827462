import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { OneATurn } from './one-a-turn.ts';

test('each is done in a turn of its own, owners one after the other, and one that fails ends none behind it', async () => {
  const work = new OneATurn();
  const done: string[] = [];
  for (const name of ['a1', 'a2', 'a3', 'b1', 'b2']) work.add(name.charAt(0), () => void done.push(name));
  const seen: string[][] = [];
  while (done.length < 5) {
    await turn();
    seen.push([...done]);
  }
  assert.deepEqual(
    seen.map(({ length }) => length),
    [1, 2, 3, 4, 5],
  );
  assert.deepEqual(done, ['a1', 'b1', 'a2', 'b2', 'a3']);
});
