// What of a harness's request reaches the provider, seen from the provider's side of the gateway's port.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ask, type Bench, startBench } from './gateway-testkit.ts';
import { chatStream, messagesStream, responsesStream, streams } from './testkit.ts';

describe('nothing goes on that has a provider reach what the session could not', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  const own = { name: 'own', type: 'function' };
  const tools = [{ type: 'mcp', server_url: 'https://evil.example' }, { type: 'mcp_toolset' }, own];
  const around = {
    tools,
    mcp_servers: [{ type: 'url', url: 'https://evil.example', name: 'evil' }],
    container: 'c',
    plugins: [{ id: 'web' }],
    prompt: { id: 'kept-there' },
    conversation: 'kept-there',
    of_next_year: true,
  };
  for (const [path, provider, stream, asked] of [
    ['/v1/messages', 'provider-a', messagesStream(['a']), { messages: [{ role: 'user', content: 'hi' }] }],
    ['/v1/responses', 'provider-b', responsesStream(['a'], {}), { input: 'hi' }],
    ['/v1/chat/completions', 'provider-c', chatStream(['a'], {}), { messages: [{ role: 'user', content: 'hi' }] }],
  ] as const) {
    test(path, async () => {
      bench.stub.answers(streams(stream));
      const route = await bench.open({ model: { provider, id: 'v/m' } });
      const got = await ask(route, path, { model: 'v/m', stream: true, ...asked, ...around });
      assert.equal(got.status, 200, got.text);
      const sent = bench.stub.asked.at(-1);
      assert.ok(sent !== undefined && sent.path.endsWith(path));
      const usage = path.endsWith('completions') && {
        stream_options: { include_usage: true },
        usage: { include: true },
      };
      assert.deepEqual(sent.body, { model: 'v/m', stream: true, ...asked, tools: [own], ...usage });
      await route.settled();
    });
  }
});
