import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { startTrickle } from '../../../base/testkit/trickle.ts';
import { sendWebhook } from './webhook.ts';

test('a receiver that trickles its answer keeps nobody: it has said how it went', async (t) => {
  const { url, wholes } = await startTrickle(t);
  await sendWebhook({ url, key: null, body: '{}', deliveryId: '1', condition: 'c', allowPrivate: true });
  assert.equal(wholes(), 0);
});

test('a receiver that asks for patience says how much in seconds or by a time', async (t) => {
  let after = '';
  const server = createServer((_, response) => {
    response.writeHead(503, { date: 'Thu, 01 Jan 2026 00:00:00 GMT', 'retry-after': after }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const patience = async (said: string): Promise<unknown> => {
    after = said;
    const webhook = { url, key: null, body: '{}', deliveryId: '1', condition: 'c', allowPrivate: true };
    return sendWebhook(webhook).catch((error: { retryAfterSeconds?: number }) => error.retryAfterSeconds);
  };
  assert.equal(await patience('7'), 7);
  assert.equal(await patience('Thu, 01 Jan 2026 00:10:00 GMT'), 600);
  assert.equal(await patience('Thu, 01 Jan 2026 05:00:00 GMT'), 3_600);
  for (const none of ['soon', '-5', '5 minutes', '2026-02-01']) assert.equal(await patience(none), 60, none);
});
