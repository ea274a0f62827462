// A daemon that starts among servers that take what is sent to them and never answer.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tempDataDir } from '../../internal/base/testkit/daemon.ts';
import { isWithin } from '../../internal/base/testkit/parsing.ts';
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
    assert.ok(isWithin(ms, 10_000), `after ${Math.round(ms)} ms`);
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
    assert.ok(isWithin(ms, 10_000), `after ${Math.round(ms)} ms`);
  } finally {
    close();
    await bench.stop();
  }
});

/** One that is well when it is tried, and says nothing from then on. */
async function engineThatFallsSilent(): Promise<{ host: string; asked: readonly string[]; close(): void }> {
  const asked: string[] = [];
  const answers: { readonly [path: string]: object } = {
    '/v1.41/version': { Version: '28.0', Components: [] },
    '/v1.41/info': { Runtimes: { runc: {} }, DefaultRuntime: 'runc' },
  };
  const server = createHttpServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? '';
    asked.push(path);
    if (answers[path] !== undefined) response.end(JSON.stringify(answers[path]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked, close };
}

test('an engine that falls silent is told of, and holds up nobody who looks, nor the end of its daemon', async () => {
  const { host, asked, close } = await engineThatFallsSilent();
  const data = await tempDataDir({ empty: true });
  // What an earlier life has left is looked for at once.
  await mkdir(join(data.path, 'sandboxes', randomUUID()), { recursive: true });
  const bench = await createHostBench({
    dataDir: data.path,
    config: { file: { sandboxes: { docker: { host }, presets, snapshots: { maxMB: 0 } } } },
  });
  let isStopped = false;
  try {
    await bench.apply({ plain: {} });
    const session = await bench.start('plain', '!say hello');
    await bench.until(session, ({ said }) => said.includes('hello'));
    const soon = async (path: string) => {
      const begun = performance.now();
      const answer = await bench.daemon.api('GET', path);
      const ms = performance.now() - begun;
      assert.ok(isWithin(ms, 10_000), `${path} after ${Math.round(ms)} ms`);
      assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    await soon('P/overview');
    const { checks } = await soon('P/doctor');
    assert.match(JSON.stringify(checks), /docker does not say which sandboxes it has: no answer within 3 s/);
    const { items, unreachable } = await soon('/api/v1/sandboxes');
    assert.deepEqual(
      (items as unknown as { session: string; state: string }[]).filter((one) => one.state === 'running'),
      (items as unknown as { session: string }[]).filter((one) => one.session === session),
    );
    assert.match(String(unreachable), /^docker on /);
    assert.ok(asked.includes('/v1.41/containers/json'));
    isStopped = true;
    const begun = performance.now();
    await bench.stop();
    const ms = performance.now() - begun;
    assert.ok(isWithin(ms, 10_000), `stopped after ${Math.round(ms)} ms`);
  } finally {
    close();
    if (!isStopped) await bench.stop();
    await data.remove();
  }
});
