import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { agentFile, startBench } from './sync-testkit.ts';

test('a slug that its provider does not list is a warning of a sync and of an apply, at its line', async (t) => {
  const server = createServer((_, response) => response.end('{"data":[{"id":"vendor/small"}]}'));
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const bench = await startBench({
    config: {
      file: { providers: { model: { 'provider-c': { baseUrl, keyEnv: 'A_KEY' } } } },
      secretEnv: (name) => (name === 'A_KEY' ? 'its-value' : undefined),
    },
  });
  t.after(() => bench.stop());
  const lines = [
    'model:',
    '  provider: provider-c',
    '  id: vendor/smal',
    '  gateway:',
    '    models: [vendor/small, vendor/x]',
  ];
  const content = agentFile('a', ...lines).replace('harness-a', 'harness-b');
  const told = [
    'warning model-unlisted .svc/agents/a.yaml:6 model.id Did you mean vendor/small?',
    'warning model-unlisted .svc/agents/a.yaml:8 model.gateway.models[1] Write a vendor/model that it lists.',
  ];
  const words = (diagnostics: unknown) =>
    (diagnostics as { [field: string]: unknown }[]).map(
      ({ severity, code, file, line, path, hint }) => `${severity} ${code} ${file}:${line} ${path} ${hint}`,
    );
  const files = [{ path: '.svc/agents/a.yaml', content }];
  const planned = await bench.daemon.api('POST', 'P/apply', { files, dryRun: true });
  assert.equal(planned.status, 200, JSON.stringify(planned.body));
  assert.deepEqual(words(planned.body['diagnostics']), told);
  const repository = await bench.repository('r');
  await repository.commit({ '.svc/agents/a.yaml': content });
  const run = await bench.watch('r');
  assert.equal(run['status'], 'applied');
  assert.deepEqual(words(run['diagnostics']), told);
});
