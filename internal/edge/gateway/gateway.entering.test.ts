import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, startBench } from './gateway-testkit.ts';
import { json } from './testkit.ts';

const asked = { model: 'm-1', messages: [{ role: 'user', content: 'hi' }] };

test('a call is held against what the one before it has cost, however long that takes to enter', async (t) => {
  const bench = await startBench();
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>();
  t.after(() => (enter(), bench.stop()));
  bench.stub.answers(json(200, { model: 'm-1', usage: { input_tokens: 1, output_tokens: 1 } }));
  bench.entering = () => entered;
  const known: number[] = [];
  bench.verdict = () => (known.push(bench.settled.length), { allowed: true });
  const statusOf = async (route: Awaited<ReturnType<typeof bench.open>>): Promise<number> =>
    (await ask(route, '/v1/messages', asked)).status;
  const [route, another] = await Promise.all([bench.open(), bench.open()]);
  assert.equal(await statusOf(route), 200);
  const next = statusOf(route);
  // Another session waits for nothing of this one's; by its second call, the waiting one has long been read.
  assert.equal(await statusOf(another), 200);
  assert.deepEqual(known, [0, 0]);
  enter();
  assert.equal(await next, 200);
  assert.ok((known[2] ?? 0) >= 1);
});
