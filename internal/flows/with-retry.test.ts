import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withRetry } from './with-retry.ts';

test('work that a lost connection keeps failing is given up with its lease, by the steady clock', async (t) => {
  let steadyMs = 0;
  t.mock.method(performance, 'now', () => steadyMs);
  let tries = 0;
  const lost = Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' });
  const work = async (): Promise<void> => {
    tries += 1;
    assert.ok(tries < 20, 'it goes on for ever');
    steadyMs += 4_000;
    throw lost;
  };
  await assert.rejects(withRetry(work), /the connection is gone/);
  assert.equal(tries, 6);
});

test('it goes no further than it is told, nor where nobody waits any more', async (t) => {
  t.mock.method(performance, 'now', () => 1_000);
  const lost = Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' });
  let tries = 0;
  const work = async (): Promise<void> => {
    tries += 1;
    if (tries < 3) throw lost;
  };
  await assert.rejects(withRetry(work, { until: 999 }), /the connection is gone/);
  await assert.rejects(withRetry(work, { isOver: () => true }), /the connection is gone/);
  assert.equal(tries, 2);
  await withRetry(work);
  assert.equal(tries, 3);
});
