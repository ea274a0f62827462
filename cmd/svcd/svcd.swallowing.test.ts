// A daemon that starts among servers that take what is sent to them and never answer.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench } from '../../internal/flows/session-host/host-testkit.ts';

async function swallowingEngine(): Promise<{ host: string; held: ReadonlySet<Socket>; close(): void }> {
  const held = new Set<Socket>();
  const server = createServer((socket) => {
    held.add(socket.on('error', () => undefined));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = (): void => {
    for (const socket of held) socket.destroy();
    server.close();
  };
  return { host, held, close };
}
const presets = { boxed: { provider: 'docker', image: 'none' } };

test('an engine that never answers holds up no start: sessions of other engines run at once', async () => {
  const { host, held, close } = await swallowingEngine();
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
    close();
    await bench.stop();
  }
});

test('sessions that another daemon has left in boxes of an engine that never answers hold up no start of others', async () => {
  const { host, close } = await swallowingEngine();
  const bench = await createHostBench({ config: { file: { sandboxes: { docker: { host }, presets } } } });
  try {
    const { db } = bench.daemon.ctx;
    const environment = { name: 'box', image: { kind: 'preset', name: 'boxed' } };
    await bench.apply({ plain: {}, boxed: { environment } });
    // As that daemon has left them.
    await db.query(
      `with left_running as (
         insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at, epoch)
         select gen_random_uuid(), project_id, id, name, revision, 'manual', 'idle', 't', now(), now(), 1
           from svc.agents cross join generate_series(1, 5) where name = 'boxed' returning id)
       insert into svc.session_holds (id, session_id, epoch, provider, key_version, sealed, cursor, offered_at)
       select gen_random_uuid(), id, 1, 'docker', 1, 'x'::bytea, '{}'::jsonb, now() from left_running`,
    );
    await sleep(4_000);
    const begun = performance.now();
    const session = await bench.start('plain', '!say hello');
    await bench.until(session, ({ said }) => said.includes('hello'));
    const ms = performance.now() - begun;
    assert.ok(ms < 10_000, `after ${Math.round(ms)} ms`);
  } finally {
    close();
    await bench.stop();
  }
});
