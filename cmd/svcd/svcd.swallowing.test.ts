// A daemon that starts among servers that take what is sent to them and never answer.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { createHostBench } from '../../internal/flows/session-host/host-testkit.ts';

test('an engine that never answers holds up no start: sessions of other engines run at once', async () => {
  const held = new Set<Socket>();
  const server = createServer((socket) => {
    held.add(socket.on('error', () => undefined));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const presets = { boxed: { provider: 'docker', image: 'none' } };
  const begun = performance.now();
  const bench = await createHostBench({ config: { file: { sandboxes: { docker: { host }, presets } } } });
  try {
    const ms = performance.now() - begun;
    assert.ok(held.size > 0, 'it was asked');
    assert.ok(ms < 10_000, `after ${Math.round(ms)} ms`);
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', '!say hello');
    await bench.until(session, ({ said }) => said.includes('hello'));
  } finally {
    for (const socket of held) socket.destroy();
    server.close();
    await bench.stop();
  }
});
