import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, startBench } from './gateway-testkit.ts';
import { json, messagesStream } from './testkit.ts';

const call = { model: 'm-1', stream: true, messages: [{ role: 'user', content: 'x'.repeat(4_000) }] };

test('calls that wait for their provider hold so much, of one project half of it, and nothing once it answers', async (t) => {
  const bench = await startBench({ limits: { heldMaxBytes: 10_000 } });
  const { promise: speaks, resolve: speak } = Promise.withResolvers<void>();
  const { promise: ends, resolve: end } = Promise.withResolvers<void>();
  t.after(() => (speak(), end(), bench.stop()));
  bench.stub.answers(async (response) => {
    await speaks;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    await ends;
    response.end(messagesStream(['x']).join(''));
  });
  const until = async (asked: number): Promise<void> => {
    while (bench.stub.asked.length < asked) await sleep(5);
  };
  const [one, other] = await Promise.all([bench.open(), bench.open()]);
  const first = ask(one, '/v1/messages', call);
  await until(1);
  const refused = await ask(one, '/v1/messages', call);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1']);
  const chunked = { body: new Blob([JSON.stringify(call)]).stream(), duplex: 'half' } as RequestInit;
  assert.equal((await ask(one, '/v1/messages', '', chunked)).status, 429);
  const second = ask(other, '/v1/messages', call);
  await until(2);
  speak();
  // Both answers have begun, and neither has ended.
  while (bench.stub.asked.length < 3) {
    const third = ask(one, '/v1/messages', call);
    const met = await Promise.race([third.then(({ status }) => status), until(3)]);
    assert.ok(met === undefined || met === 429, String(met));
    if (met === undefined) void third.catch(() => undefined);
  }
  end();
  assert.deepEqual([(await first).status, (await second).status], [200, 200]);
  bench.stub.answers(json(200, {}));
  assert.equal((await ask(one, '/v1/messages', call)).status, 200);
});
