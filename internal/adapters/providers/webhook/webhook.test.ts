import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTrickle } from '../../../base/testkit/trickle.ts';
import { sendWebhook } from './webhook.ts';

test('a receiver that trickles its answer keeps nobody: it has said how it went', async (t) => {
  const { url, wholes } = await startTrickle(t);
  await sendWebhook({ url, key: null, body: '{}', deliveryId: '1', condition: 'c', allowPrivate: true });
  assert.equal(wholes(), 0);
});
