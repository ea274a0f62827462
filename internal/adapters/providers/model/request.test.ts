import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelSpec } from '../../../domain/spec.ts';
import { endpointOf, prepareBody, shorten } from './model.ts';

const declared: ModelSpec = { provider: 'provider-b', id: 'm' };

async function sent(path: string, body: object): Promise<unknown> {
  const endpoint = endpointOf('provider-b', 'POST', path) ?? assert.fail();
  const prepared = prepareBody(endpoint, declared, await shorten(Buffer.from(JSON.stringify(body))));
  return JSON.parse(prepared.bodyFor('m').toString('utf8'));
}

test('a connector is taken out wherever a call brings tools along', async () => {
  const connector = { type: 'mcp', server_label: 'x', server_url: 'https://evil.example' };
  const own = { type: 'function', name: 'own' };
  const group = (tools: readonly object[]) => ({ type: 'namespace', name: 'g', tools });
  const item = (type: string, tools: readonly object[]) => ({ type, tools });
  const conversation = (tools: readonly object[]) => [
    { role: 'user', content: 'hi' },
    'text',
    null,
    item('additional_tools', tools),
    item('tool_search_output', [group(tools), ...tools]),
    { type: 'mcp_list_tools', server_label: 'x', tools: [{ name: 'listed' }] },
  ];
  const both = [connector, own];
  assert.deepEqual(
    await sent('/v1/responses', { model: 'm', tools: [...both, group(both)], input: conversation(both) }),
    { model: 'm', tools: [own, group([own])], input: conversation([own]) },
  );
  assert.deepEqual(await sent('/v1/responses', { model: 'm', input: 'text' }), { model: 'm', input: 'text' });
  assert.deepEqual(await sent('/v1/chat/completions', { model: 'm', messages: [item('x', both)] }), {
    model: 'm',
    messages: [item('x', [own])],
  });
  let deep: object = { type: 'namespace', tools: both };
  for (let level = 0; level < 500; level += 1) deep = group([deep]);
  const answer = JSON.stringify(await sent('/v1/responses', { model: 'm', tools: [deep] }));
  assert.doesNotMatch(answer, /mcp/);
  assert.equal(answer.split('namespace').length - 1, 3);
});
