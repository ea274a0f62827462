// The database dies under a daemon while events come in, a schedule ticks and pages are looked at; nobody lends a hand.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCutProxy } from '../../internal/base/testkit/cut-proxy.ts';
import { embeddedPid, startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { isWithin } from '../../internal/base/testkit/parsing.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';

const runnable = { harness: 'harness-a', environment: { name: 'default', image: { kind: 'preset', name: 'base' } } };
const agent = (name: string, trigger: object): { path: string; content: string } => ({
  path: `.svc/agents/${name}.yaml`,
  content: JSON.stringify({ name, ...runnable, triggers: [trigger] }),
});

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 6_000; tries += 1) {
    const found = await look().catch(() => undefined);
    if (found !== undefined) return found;
    await sleep(20);
  }
  return assert.fail(`never: ${what}`);
}

test('what was acknowledged is there and routed once, and the tick of the outage fires once, when the database is back', async () => {
  // The clock stops short of the minute until the database is dead, and then short of the next one: however slow the
  // machine is, one tick falls into the outage, and one alone.
  const minute = Math.ceil((performance.timeOrigin + performance.now()) / 60_000) * 60_000 + 60_000;
  const clockFrom = (ms: number, mostMs: number) => {
    const begun = performance.now();
    return (): Date => new Date(Math.min(ms + performance.now() - begun, mostMs));
  };
  let clock = clockFrom(minute - 30_000, minute - 3_000);
  const now = (): Date => clock();
  const daemon = await startTestDaemon({ runtime: { now }, embedded: true });
  try {
    const files = [
      agent('hook', { event: 'webhook.received', endpoint: 'e', auth: { kind: 'none' }, routing: { kind: 'spawn' } }),
      agent('beat', { kind: 'heartbeat', cron: '* * * * *', routing: { kind: 'spawn' } }),
    ];
    const applied = await daemon.api('POST', 'P/apply', { files });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const hook = String(applied.body['webhooks']?.[0]?.['ingestUrl']);
    const due = String((await daemon.api('GET', 'P/schedules')).body['items']?.[0]?.['nextAt']);

    const taken: string[] = [];
    const refused = new Map<number, number>();
    let stopped = false;
    const send = async (lane: number): Promise<void> => {
      for (let n = 0; !stopped; n += 1) {
        const body = JSON.stringify({ dedupKey: `${lane}-${n}` });
        const response = await fetch(hook, { method: 'POST', body }).catch(() => undefined);
        const answer = (await response?.json().catch(() => undefined)) as { eventRecordId?: string } | undefined;
        if (response?.status === 202 && answer?.eventRecordId !== undefined) taken.push(answer.eventRecordId);
        else refused.set(response?.status ?? 0, (refused.get(response?.status ?? 0) ?? 0) + 1);
        await sleep(5);
      }
    };
    const senders = [0, 1, 2, 3].map(send);
    await until('events before', async () => (taken.length > 50 ? true : undefined));
    const pid = await embeddedPid(daemon.dataDir);
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    clock = clockFrom(minute, minute + 30_000);
    const before = taken.length;
    await until('another server', async () => {
      const next = await embeddedPid(daemon.dataDir);
      return next !== undefined && next !== pid ? true : undefined;
    });
    await until('events after', async () => (taken.length > before + 50 ? true : undefined));
    const ticked = await until('the tick', async () => {
      const row = (await daemon.api('GET', 'P/schedules')).body['items']?.[0];
      return row?.['lastAt'] === null ? undefined : row;
    });
    assert.deepEqual([ticked?.['lastAt'], ticked?.['lastStatus']], [due, 'fired']);
    stopped = true;
    await Promise.all(senders);
    assert.deepEqual(
      [...refused.keys()].filter((status) => status !== 503),
      [],
      'only 503 in between',
    );

    const { db } = daemon.ctx;
    await until('all routed', async () => {
      const { rows } = await db.query(`select from svc.events where router_status = 'pending' limit 1`);
      return rows.length === 0 ? true : undefined;
    });
    const found = await db.query<{ id: string; sessions: number }>(
      `select e.id, (select count(*)::int from svc.sessions s where s.event_id = e.id) as sessions
         from svc.events e where e.id = any($1::uuid[]) and e.router_status = 'routed'`,
      [taken],
    );
    assert.equal(found.rows.length, taken.length, 'nothing acknowledged is lost');
    assert.ok(
      found.rows.every((row) => row.sessions === 1),
      'each spawned once',
    );
    const ticks = await db.query<{ n: number }>(
      `select count(*)::int as n from svc.events where key like 'heartbeat.%'`,
    );
    assert.equal(ticks.rows[0]?.n, 1);

    // Providers make a database read-only when its disk is full, and after a failover it may be a standby.
    const others = 'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()';
    await db.query('alter database svc set default_transaction_read_only = on');
    // Its own goes last: one that stayed would write on, or would go on writing nothing.
    const endAll = async (): Promise<void> => {
      const ending = db.tx(async (tx) => {
        await tx.query(others);
        await tx.query('select pg_terminate_backend(pg_backend_pid())');
      });
      await ending.catch(() => undefined);
    };
    await endAll();
    const ready = async (status: number): Promise<string> =>
      until(`ready ${status}`, async () => {
        const response = await fetch(`${daemon.url}/readyz`);
        return response.status === status ? response.text() : undefined;
      });
    await until('that it is told', async () => ((await ready(503)).includes('read-only') ? true : undefined));
    const post = (): Promise<Response> => fetch(hook, { method: 'POST', body: '{}' });
    const written = async (): Promise<number[]> => {
      const made = await daemon.api('POST', 'P/endpoints', { name: `x-${randomUUID()}` });
      return [(await post()).status, made.status];
    };
    // A connection that was being made while the others were ended may write still.
    await until('that nothing is taken', async () => {
      const told = await written();
      if (told.every((status) => status === 503)) return true;
      await db.query(others).catch(() => undefined);
      return undefined;
    });
    await db.tx(async (tx) => {
      await tx.query('set transaction read write');
      await tx.query('alter database svc reset default_transaction_read_only');
    });
    await endAll();
    await ready(200);
    await until('an event', async () => ((await post()).status === 202 ? true : undefined));

    // One whose disk is full still reads: what it says at a write, and then at what is tried, stands for it.
    const full = `begin raise exception using errcode = '53100', message = 'No space left on device'; end`;
    await db.query(`create function public.full_row() returns trigger language plpgsql as $$${full}$$`);
    await db.query(`create function public.full_disk() returns event_trigger language plpgsql as $$${full}$$`);
    await db.query(
      'create trigger full_row before insert on svc.events for each statement execute function public.full_row()',
    );
    await db.query(`create event trigger full_disk on ddl_command_start when tag in ('CREATE TABLE AS')
      execute function public.full_disk()`);
    assert.equal((await post()).status, 503);
    await until('that it has no room', async () => {
      const response = await fetch(`${daemon.url}/readyz`);
      return (await response.text()).includes('takes no writes: No space left on device') ? true : undefined;
    });
    await db.query('drop event trigger full_disk');
    await ready(200);
    await db.query('drop trigger full_row on svc.events');
    assert.equal((await post()).status, 202);
  } finally {
    await daemon.stop();
  }
});

test('pages that are asked for while the database is away say that the service is, as calls do', async () => {
  const database = await createTestDatabase();
  const network = await startCutProxy(database.url);
  const dir = await mkdtemp(join(tmpdir(), 'svc-outage-'));
  await writeFile(join(dir, 'secret'), 'secret');
  const [baseUrl, away] = ['https://tracker.example', 'https://away.example'];
  const errtrack = {
    ...{ baseUrl, regions: { us: away, de: away }, mcpUrl: `${away}/mcp` },
    ...{ clientId: 'c', clientSecretFile: join(dir, 'secret'), appSlug: 'a' },
  };
  const daemon = await startTestDaemon({
    database: { ...database, url: network.url },
    config: { file: { providers: { errtrack } } },
  });
  try {
    const { headers } = await daemon.api('POST', '/api/v1/auth/sessions', { token: daemon.token });
    const cookie = headers
      .getSetCookie()
      .map((one) => one.split(';', 1)[0])
      .join('; ');
    const look = (path: string) => daemon.api('GET', path, undefined, { token: null, headers: { cookie } });
    const isAway = async (path: string): Promise<void> => {
      const { status, headers: told, body } = await look(path);
      assert.deepEqual([status, told.get('retry-after')], [503, '1'], path);
      assert.match(String(body), /The service cannot answer at the moment/, path);
    };
    assert.equal((await look('/default/default')).status, 200);
    const callback = `/connections/errtrack/callback?state=${'s'.repeat(43)}&installationId=${randomUUID()}&code=c`;
    assert.equal((await look(callback)).headers.get('location'), '/connections/errtrack/error');
    await database.db.tx(async (tx) => {
      await tx.query('lock table svc.sessions in access exclusive mode');
      const tools = { token: 't'.repeat(43) };
      const asked = await daemon.api('POST', `/api/v1/sessions/${randomUUID()}/mcp/svc`, {}, tools);
      assert.deepEqual([asked.status, asked.headers.get('retry-after')], [503, '1']);
    });
    await database.db.tx(async (tx) => {
      await tx.query('lock table svc.errtrack_attempts in access exclusive mode');
      await isAway(callback);
    });
    await network.stop();
    for (const path of ['/', '/default/default', '/default/default/sessions', '/device', callback]) await isAway(path);
  } finally {
    await daemon.stop();
    await network.stop();
    await database.close();
    await rm(dir, { recursive: true, force: true });
  }
});

test('a daemon whose database says nothing, or holds it up, stops before it would be ended by force', async () => {
  const stops = async (how: 'silent' | 'locked'): Promise<void> => {
    const database = await createTestDatabase();
    const network = await startCutProxy(database.url);
    const daemon = await startTestDaemon({ database: { ...database, url: network.url } });
    const released = Promise.withResolvers<void>();
    let locking = Promise.resolve();
    let isStopped = false;
    try {
      if (how === 'silent') network.cut();
      else
        locking = database.db.tx(async (tx) => {
          await tx.query('lock table svc.sessions, svc.daemons, svc.repository_polls in access exclusive mode');
          await released.promise;
        });
      // As long as it takes until every loop waits for it.
      await sleep(4_000);
      const begun = performance.now();
      isStopped = true;
      await daemon.stop();
      const ms = Math.round(performance.now() - begun);
      assert.ok(isWithin(ms, 20_000), `${how}: stopped after ${ms} ms`);
    } finally {
      released.resolve();
      await locking;
      await network.stop();
      if (!isStopped) await daemon.stop();
      await database.close();
    }
  };
  // Side by side: both wait most of the time.
  await Promise.all([stops('silent'), stops('locked')]);
});
