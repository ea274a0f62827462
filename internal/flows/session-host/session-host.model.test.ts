// What becomes of a turn whose model fails after it has begun to answer: by the gateway the harness has a status of success, and
// what it says of the failure is its own.

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';
import { type ModelStub, startModelStub } from './model-testkit.ts';

const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

const begin = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const breakOff = (response: ServerResponse): void =>
  void begin(response).write('event: ping\ndata: {"type":"ping"}\n\n', () => response.destroy());
const failWith = (type: string) => (response: ServerResponse) =>
  void begin(response).end(
    `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type, message: 'no' } })}\n\n`,
  );

describe('a model that fails within its answer', () => {
  let bench: HostBench;
  let stub: ModelStub;
  before(async () => {
    stub = await startModelStub();
    bench = await createHostBench({
      config: {
        allowPrivateNetwork: true,
        file: { providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
        secretEnv: () => 'a-key-of-the-provider',
      },
    });
    await bench.apply({ asker: { model: { provider: 'provider-a', id: 'claude-opus-4-8' } } });
  });
  after(async () => {
    await bench.stop();
    await stub.stop();
  });

  for (const [what, failing, told] of [
    ['breaks off', breakOff, 'no model answers'],
    [
      'tells that it is overloaded',
      failWith('overloaded_error'),
      'the model did not answer to its end: The model provider failed: overloaded_error.',
    ],
  ] as const) {
    it(`is asked again where it ${what}, and its session goes on`, async () => {
      stub.instead.push(failing);
      const session = await bench.start('asker', '!model hello');
      const seen = await bench.until(session, (view) => view.state === 'failed' || (idle(view) && view.said !== ''));
      assert.deepEqual([seen.state, seen.said], ['idle', 'paid']);
      assert.deepEqual(
        (await bench.turns(session)).map(({ state }) => state),
        ['failed', 'done'],
      );
      assert.ok(seen.texts.includes(told), seen.texts.join('\n'));
    });
  }

  it('ends its session where it tells that what it was asked is wrong', async () => {
    stub.instead.push(failWith('invalid_request_error'));
    const session = await bench.start('asker', '!model hello');
    const { reason } = await bench.until(
      session,
      (view) => view.state === 'failed' || (idle(view) && view.said !== ''),
    );
    assert.match(reason ?? '', /The model provider failed: invalid_request_error/);
  });
});
