import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTrickle } from '../testkit/trickle.ts';
import { postOnce } from './post-once.ts';

test('an answer that trickles is given up, and of a write nobody knows what became of it', async (t) => {
  const { url, wholes } = await startTrickle(t);
  const post = (isWrite: boolean) =>
    postOnce({ url: new URL(url), headers: {}, body: '', isWrite, allowPrivate: true, who: 'it' });
  await assert.rejects(post(false), { code: 'provider-unavailable' });
  await assert.rejects(post(true), { name: 'OutcomeUnknown', message: 'it took too long' });
  assert.equal(wholes(), 0);
});
