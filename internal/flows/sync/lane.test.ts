import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { staggerPolls, wishSync } from '../../adapters/store/repositories/polls.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { createTestDatabase } from '../../base/testkit/postgres.ts';
import { syncPortsOf } from '../context.ts';
import { SyncLane, takeOver } from './lane.ts';
import { planCommit } from './plan-commit.ts';
import { agentFile, type Bench, ended, runsOf, settled, startBench, syncNow, until, word } from './sync-testkit.ts';

/** A server that takes connections and sends nothing, or a byte of a git answer now and then. */
async function startDullServer(trickle: boolean): Promise<{ url: string; sockets: Set<Socket>; server: Server }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let timer: NodeJS.Timeout | undefined;
    socket.once('data', () => {
      if (!trickle) return;
      const type = 'application/x-git-upload-pack-result';
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`);
      timer = setInterval(() => socket.write('1\r\na\r\n'), 100);
    });
    socket.on('close', () => {
      clearInterval(timer);
      sockets.delete(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/x.git`, sockets, server };
}

describe('git servers that swallow and trickle', () => {
  let bench: Bench;
  const dull: Awaited<ReturnType<typeof startDullServer>>[] = [];
  const readSeconds = 4;
  before(async () => {
    bench = await startBench({ config: { file: { sources: { readSeconds } } } });
    for (let index = 0; index < 12; index += 1) dull.push(await startDullServer(index % 2 === 1));
  });
  after(async () => {
    await bench.stop();
    for (const { server, sockets } of dull) {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });
  const sync = async (name: string): Promise<string> =>
    word((await bench.daemon.api('POST', `P/repositories/${name}/sync`)).body['reconcileId']);
  const add = async (name: string, url: string): Promise<void> => {
    const { status } = await bench.daemon.api('POST', 'P/repositories', { name, url, intervalSeconds: 3600 });
    assert.equal(status, 201);
  };

  it('hold up nobody else, and each read of theirs ends in its time', async () => {
    const repo = await bench.repository('healthy');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('healthy-a') });
    const begun = performance.now();
    for (const [index, { url }] of dull.entries()) await add(`dull-${index}`, url);
    const runs = await Promise.all(dull.map((_, index) => sync(`dull-${index}`)));
    await until('all of them to be asked', async () => dull.every(({ sockets }) => sockets.size > 0));
    assert.equal(word((await bench.watch('healthy'))['status']), 'applied');
    const states = await Promise.all(
      runs.map(async (id) => (await bench.daemon.api('GET', `P/reconciles/${id}`)).body),
    );
    const isFast = performance.now() - begun < readSeconds * 1000;
    if (isFast)
      assert.ok(
        states.some((run) => word(run['status']) === 'running'),
        'they hang meanwhile',
      );
    for (const id of runs) {
      const run = await ended(bench.daemon, id);
      assert.deepEqual([word(run['status']), word(run['condition'])], ['failed', 'unreachable'], JSON.stringify(run));
    }
    const trickled = await ended(bench.daemon, runs[1] ?? '');
    assert.match(word(trickled['detail']), /longer than 4 s/);
  });

  it('are let go of at once when something newer is wanted', async () => {
    const [first] = dull;
    assert.ok(first);
    await add('hung', first.url);
    const older = await sync('hung');
    await until('the read', async () => first.sockets.size > 0);
    // One that has not begun to read yet takes a further wish in.
    let newer = older;
    await until('a wish of its own', async () => (newer = await sync('hung')) !== older);
    assert.equal(word((await ended(bench.daemon, older, 3_000))['status']), 'superseded');
    const repo = await bench.repository('hung');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('hung-a') });
    const { status } = await bench.daemon.api('PATCH', 'P/repositories/hung', { url: bench.server.url('hung.git') });
    assert.equal(status, 200);
    assert.equal(word((await ended(bench.daemon, newer))['status']), 'superseded');
    await settled(bench.daemon, 'hung', (run) => word(run['commit']) === commit && word(run['status']) === 'applied');
  });

  it('a pushed commit ends the read of the one before', async () => {
    const repo = await bench.repository('pushed');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('pushed-one') });
    await bench.watch('pushed');
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    const asked = bench.server.log.length;
    // Only the first request hangs.
    bench.server.fault = (_request, index) => (index === asked ? { kind: 'hold', until: freed } : null);
    const { rows } = await bench.daemon.ctx.db.query<{ id: string }>(
      `select id from svc.repositories where name = 'pushed'`,
    );
    const id = rows[0]?.id ?? '';
    await wishSync(bench.daemon.ctx.db, { repositoryId: id, reason: 'push' });
    await until('the read that hangs', async () => bench.server.log.length > asked);
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('pushed-two') });
    await wishSync(bench.daemon.ctx.db, { repositoryId: id, reason: 'push', hint: commit });
    const run = await settled(bench.daemon, 'pushed', (latest) => word(latest['commit']) === commit);
    free();
    bench.server.fault = () => null;
    assert.deepEqual([word(run['status']), word(run['reason'])], ['applied', 'push']);
  });

  it('a push that ends the read of a thorough comparison forgets it not', async () => {
    const repo = await bench.repository('compared');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('compared-a') });
    await bench.watch('compared');
    const { db } = bench.daemon.ctx;
    const { rows } = await db.query<{ id: string }>(`select id from svc.repositories where name = 'compared'`);
    const repositoryId = rows[0]?.id ?? '';
    await db.query(`delete from svc.agents where name = 'compared-a'`);
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    const asked = bench.server.log.length;
    bench.server.fault = (_request, index) => (index === asked ? { kind: 'hold', until: freed } : null);
    await wishSync(db, { repositoryId, reason: 'resync' });
    await until('the read that hangs', async () => bench.server.log.length > asked);
    // It names no commit, and finds the one that has been applied.
    await wishSync(db, { repositoryId, reason: 'push' });
    const there = `select 1 from svc.agents where name = 'compared-a'`;
    await until('what is lacking to be there again', async () => (await db.query(there)).rowCount === 1);
    free();
    bench.server.fault = () => null;
  });

  it('a late delivery of the commit that is being left does not end the rollback', async () => {
    const repo = await bench.repository('late');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('late-one') });
    await bench.watch('late');
    const two = await repo.commit({ '.svc/agents/a.yaml': agentFile('late-two') });
    await syncNow(bench.daemon, 'late');
    const { ctx, api } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string; project: string }>(
      `select id, project_id as project from svc.repositories where name = 'late'`,
    );
    const [{ id, project } = { id: '', project: '' }] = rows;
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    // What is about to be applied waits for those before it in the project.
    const before = Promise.all(Array.from({ length: 64 }, () => syncPortsOf(ctx).applying(project, () => freed)));
    const { body } = await api('POST', 'P/repositories/late/rollback', {});
    const { reconcileId } = body;
    const column = async (text: string): Promise<unknown> =>
      (await ctx.db.query<{ is: unknown }>(`select (${text}) as is`)).rows[0]?.is;
    await until(
      'its commit',
      async () =>
        (await column(`select inputs <> '{}' from svc.reconciles where id = '${word(reconcileId)}'`)) === true,
    );
    await wishSync(ctx.db, { repositoryId: id, reason: 'push', hint: two });
    await until(
      'the delivery to be heard',
      async () =>
        (await column(`select wanted is null from svc.repository_polls where repository_id = '${id}'`)) === true,
    );
    free();
    await before;
    const run = await ended(bench.daemon, word(reconcileId));
    assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', one]);
    const passed = await settled(bench.daemon, 'late', (latest) => word(latest['id']) !== word(reconcileId));
    assert.deepEqual([word(passed['status']), word(passed['commit'])], ['quarantined', two]);
  });

  it('a run by hand that another wish has taken along is not ended by its own', async () => {
    const repo = await bench.repository('taken');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('taken-one') });
    await bench.watch('taken');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('taken-two') });
    const { db } = bench.daemon.ctx;
    const asked = bench.server.log.length;
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    bench.server.fault = (_request, index) => (index === asked ? { kind: 'hold', until: freed } : null);
    // As when the settings are changed and a sync is asked for at the same moment: the sync of the settings finds the run.
    const { rows } = await db.query<{ id: string; run: string }>(
      `insert into svc.reconciles (id, project_id, repository_id, repository_name, reason, status, started_at, request)
         select gen_random_uuid(), project_id, id, name, 'manual', 'running', now(), '{"kind": "sync"}'
           from svc.repositories where name = 'taken'
         returning repository_id as id, id as run`,
    );
    const [{ id, run } = { id: '', run: '' }] = rows;
    await wishSync(db, { repositoryId: id, reason: 'poll' });
    await until('the read that hangs', async () => bench.server.log.length > asked);
    await wishSync(db, { repositoryId: id, reason: 'manual' });
    const told = await ended(bench.daemon, run);
    free();
    bench.server.fault = () => null;
    assert.deepEqual([word(told['status']), word(told['commit'])], ['applied', commit]);
  });

  it('are left alone after a failure, also by a daemon that starts, but never when asked by hand', async () => {
    const { db } = bench.daemon.ctx;
    const paused = async (): Promise<number> => {
      const { rows } = await db.query<{ seconds: number }>(
        `select extract(epoch from least(p.next_at, s.retry_at) - now())::float8 as seconds
           from svc.repository_polls p join svc.repository_states s using (repository_id)
           join svc.repositories r on r.id = p.repository_id where r.name = 'dull-2'`,
      );
      return rows[0]?.seconds ?? 0;
    };
    assert.ok((await paused()) > 60, 'backed off');
    await staggerPolls(db, true);
    assert.ok((await paused()) > 60, 'a start does not forget it');
    // As after a crash of the database, which empties the unlogged table.
    await db.query('truncate svc.repository_polls');
    await until('the rows to be made again', async () => (await paused()) > 60);
    const asked = dull[2];
    const run = await sync('dull-2');
    await until('a request by hand', async () => (asked?.sockets.size ?? 0) > 0);
    assert.equal(word((await ended(bench.daemon, run))['status']), 'failed');
  });

  it('several repositories of one server that cannot reach it pause the server, and a first sync and one by hand do not wait', async () => {
    const { db } = bench.daemon.ctx;
    const { server, url } = await startDullServer(false);
    await new Promise((resolve) => server.close(resolve));
    const away = new URL(url);
    const names = ['away-1', 'away-2', 'away-3'];
    for (const name of names) {
      await add(name, `${away.origin}/${name}.git`);
      await syncNow(bench.daemon, name);
    }
    const hosts = async () =>
      (await db.query('select from svc.server_pauses where host = $1::text', [away.host])).rowCount;
    assert.equal(await hosts(), 1);
    await db.query(`update svc.server_pauses set retry_at = now() + interval '1 hour' where host = $1::text`, [
      away.host,
    ]);
    await add('away-4', `${away.origin}/away-4.git`);
    const first = await until('a first sync, which waits for no pause', async () => {
      const [run] = await runsOf(bench.daemon, 'away-4');
      return run === undefined || word(run['status']) === 'running' ? undefined : run;
    });
    assert.deepEqual([word(first['reason']), word(first['condition'])], ['poll', 'unreachable']);
    await syncNow(bench.daemon, 'away-4');
    assert.equal((await runsOf(bench.daemon, 'away-4')).length >= 1, true, 'by hand it is tried all the same');
  });
});

describe('a registry of templates that swallows', () => {
  it('holds up no end of a daemon: the sync that asks it is handed back', async () => {
    const [registry, database] = [await startDullServer(false), await createTestDatabase()];
    const file = { templates: [{ scope: '@slow', registry: registry.url }] };
    const bench = await startBench({ database, config: { file } });
    let isStopped = false;
    try {
      const repo = await bench.repository('slow');
      await repo.commit({ '.svc/agents/a.yaml': agentFile('a', "imports: '@slow/t@1.0.0/agents/x.yaml'") });
      const body = { name: 'slow', url: bench.server.url('slow.git'), intervalSeconds: 3600 };
      assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
      await until('the registry to be asked', async () => registry.sockets.size > 0);
      const begun = performance.now();
      isStopped = true;
      await bench.stop();
      const ms = performance.now() - begun;
      assert.ok(isWithin(ms, 8_000), `after ${Math.round(ms)} ms`);
      const runs = await database.db.query('select status, daemon_id as daemon from svc.reconciles');
      assert.deepEqual(runs.rows, [{ status: 'running', daemon: null }]);
    } finally {
      if (!isStopped) await bench.stop();
      for (const socket of registry.sockets) socket.destroy();
      registry.server.close();
      await database.close();
    }
  });

  it('is not waited for by the plan of a pull request that nobody wants any more', async () => {
    const registry = await startDullServer(false);
    const file = { templates: [{ scope: '@slow', registry: registry.url }] };
    const bench = await startBench({ config: { roles: ['api'], file } });
    try {
      const repo = await bench.repository('slow');
      const commit = await repo.commit({
        '.svc/agents/a.yaml': agentFile('a', "imports: '@slow/t@1.0.0/agents/x.yaml'"),
      });
      const body = { name: 'slow', url: bench.server.url('slow.git') };
      const added = await bench.daemon.api('POST', 'P/repositories', body);
      const ending = new AbortController();
      const of = { repositoryId: word(added.body['id']), commit, signal: ending.signal };
      const planning = planCommit(bench.daemon.ctx, of);
      await until('the registry to be asked', async () => registry.sockets.size > 0);
      const begun = performance.now();
      ending.abort(new Error('the daemon stops'));
      await assert.rejects(planning, /the daemon stops/);
      assert.ok(performance.now() - begun < 5_000);
    } finally {
      await bench.stop();
      for (const socket of registry.sockets) socket.destroy();
      registry.server.close();
    }
  });
});

describe('a run that is just being taken in hand', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it("is nobody else's, though nothing is known of it yet", async () => {
    const { ctx } = bench.daemon;
    const lane = new SyncLane(ctx, ctx.runtime.log);
    const [id, other] = [randomUUID(), randomUUID()];
    const server = { projectId: randomUUID(), fence: 1, host: null, hostFailures: null, hostPausedMs: 0 };
    lane.start({ id, reason: 'manual', isAsked: true, hint: null, ...server });
    assert.deepEqual([lane.owns(randomUUID(), id), lane.owns(randomUUID(), other)], [true, false]);
    await lane.stop();
    assert.equal(lane.owns(randomUUID(), id), false);
  });
});

describe('a run that waits for a daemon', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench({ config: { roles: ['api'] } });
  });
  after(() => bench.stop());

  it('is asked for again where its wish was lost, and not while somebody has its repository in hand', async () => {
    const { ctx, api } = bench.daemon;
    const body = { name: 'patient', url: 'https://git.test/o/patient' };
    assert.equal((await api('POST', 'P/repositories', body)).status, 201);
    assert.equal((await api('POST', 'P/repositories/patient/sync')).status, 202);
    await ctx.db.query(`update svc.reconciles set started_at = now() - interval '1 minute'`);
    const wanted = async (claimedBy: string | null, wish: string | null): Promise<unknown> => {
      await ctx.db.query('update svc.repository_polls set claimed_by = $1::uuid, wanted = $2::text', [claimedBy, wish]);
      await takeOver(ctx, { owns: () => true }, ctx.runtime.log);
      return (await ctx.db.query<{ wanted: string }>('select wanted from svc.repository_polls')).rows[0]?.wanted;
    };
    assert.equal(await wanted(ctx.daemonId, null), null);
    assert.equal(await wanted(null, null), 'manual');
    assert.equal(await wanted(null, 'poll'), 'manual');
    // The table is unlogged: a crash of the database empties it.
    await ctx.db.query('truncate svc.repository_polls');
    await takeOver(ctx, { owns: () => true }, ctx.runtime.log);
    const { rows } = await ctx.db.query<{ wanted: string }>('select wanted from svc.repository_polls');
    assert.deepEqual(rows, [{ wanted: 'manual' }]);
  });
});

describe('ten thousand repositories', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench({ config: { roles: ['api'] } });
  });
  after(() => bench.stop());

  it('are spread over their interval by a start, and not all at once', async () => {
    const { db } = bench.daemon.ctx;
    await db.query(`insert into svc.repositories (id, project_id, name, url, url_key, interval_seconds)
      select gen_random_uuid(), p.id, 'r' || n, 'https://git.test/o/' || n, 'git.test/o/' || n, 60
        from svc.projects p, generate_series(1, 10000) n`);
    await db.query(`insert into svc.repository_states (repository_id) select id from svc.repositories`);
    await db.query(`insert into svc.repository_polls (repository_id, next_at)
      select id, now() - interval '1 hour' from svc.repositories`);
    await staggerPolls(db, false);
    const { rows } = await db.query<{ most: number; last: number; due: number }>(
      `select max(count)::int as most, max(second)::int as last, sum(count) filter (where second <= 0)::int as due from (
         select ceil(extract(epoch from next_at - now())) as second, count(*) as count
           from svc.repository_polls group by 1) seconds`,
    );
    const [spread] = rows;
    assert.ok(spread);
    assert.ok(spread.most <= 200, `${spread.most} in one second`);
    assert.ok(spread.last <= 60, `the last after ${spread.last} s`);
  });
});
