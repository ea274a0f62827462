// Servers of git and how a daemon treats them: one that was paused is left alone by all daemons until somebody reaches it, and
// what is read at a time is bounded for each server and each repository, not by the sum of them.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { syncPortsOf } from '../context.ts';
import { keepPolls, pollTurn, scheduleAll, SyncLane } from './lane.ts';
import { agentFile, type Bench, ended, startBench, until, word } from './sync-testkit.ts';

/** Reads that are never answered stay open however slow the machine is. */
const readSeconds = 1_200;
const api = { roles: ['api'], allowPrivateNetwork: true, file: { sources: { readSeconds } } } as const;

/** A daemon whose looks the test takes: what it claims in one turn, to its end. */
interface Looker {
  readonly ctx: TestDaemon['ctx'];
  readonly lane: SyncLane;
}
const lookerOf = ({ ctx }: TestDaemon): Looker => ({ ctx, lane: new SyncLane(ctx, ctx.runtime.log) });

async function look({ ctx, lane }: Looker): Promise<void> {
  const empty = lane.room;
  // The second turn gives back what the first has claimed.
  for (let turn = 0; turn < 2; turn += 1) {
    await pollTurn(ctx, lane);
    await until('the looks of a turn', async () => lane.room === empty);
  }
}

interface DullRead {
  readonly port: number;
  readonly path: string;
  isOpen: boolean;
}

/** What a server of git begins its answer with. */
const greeting = '001e# service=git-upload-pack\n';

/** Servers that take every request and come to no end of an answer: without any a read ends after ten seconds. */
class DullServers {
  /** Every request that they took. */
  readonly reads: DullRead[] = [];
  readonly #servers: Server[];

  private constructor(count: number) {
    this.#servers = Array.from({ length: count }, () =>
      createServer((socket) => {
        const port = socket.localPort ?? 0;
        socket.on('error', () => undefined);
        socket.once('data', (head: Buffer) => {
          const read = { port, path: /\/r\d+\.git/.exec(head.toString('latin1'))?.[0] ?? '', isOpen: true };
          this.reads.push(read);
          socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\n\r\n');
          let at = 0;
          const trickle = setInterval(() => socket.write(greeting.charAt(at++)), 5_000);
          socket.once('close', () => {
            clearInterval(trickle);
            read.isOpen = false;
          });
        });
      }),
    );
  }

  static async start(count: number): Promise<DullServers> {
    const made = new DullServers(count);
    await Promise.all(
      made.#servers.map((server) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))),
    );
    return made;
  }

  get ports(): number[] {
    return this.#servers.map((server) => (server.address() as AddressInfo).port);
  }

  open(): DullRead[] {
    return this.reads.filter(({ isOpen }) => isOpen);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

describe('servers of git', () => {
  let bench: Bench;
  let other: TestDaemon;
  before(async () => {
    bench = await startBench({ config: api });
    const { database, token } = bench.daemon;
    other = await startTestDaemon({ database, token, config: api });
    for (const name of ['one', 'two', 'three', 'four']) {
      const repo = await bench.repository(name);
      await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-a`) });
      const body = { name, url: bench.server.url(`${name}.git`), intervalSeconds: 3600 };
      assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    }
  });
  after(async () => {
    await other.stop();
    await bench.stop();
  });

  const asked = (name: string): number =>
    bench.server.log.filter(({ path }) => path.startsWith(`/${name}.git/`)).length;
  const byHand = async (name: string, by: Looker): Promise<readonly [string, string]> => {
    const { body } = await bench.daemon.api('POST', `P/repositories/${name}/sync`);
    await look(by);
    const run = await ended(bench.daemon, word(body['reconcileId']));
    return [word(run['status']), word(run['condition'])];
  };
  const makeDue = (name: string) =>
    bench.daemon.ctx.db.query(
      `update svc.repository_polls set next_at = now()
        where repository_id = (select id from svc.repositories where name = $1::text)`,
      [name],
    );
  const isPaused = async (): Promise<boolean> =>
    (await bench.daemon.ctx.db.query('select from svc.server_pauses where retry_at > now()')).rowCount > 0;
  const fail = async (by: Looker): Promise<void> => {
    bench.server.fault = () => ({ kind: 'status', status: 429, headers: { 'retry-after': '600' } });
    for (const name of ['one', 'two', 'three']) {
      assert.equal(await isPaused(), false, `before ${name}`);
      assert.deepEqual(await byHand(name, by), ['failed', 'rate-limited']);
    }
    assert.equal(await isPaused(), true);
  };

  it('three repositories in a row that cannot be read pause the turns of all at all daemons, and no sync by hand, until one is read', async () => {
    const [first, second] = [lookerOf(bench.daemon), lookerOf(other)];
    await until('a first read', async () => (await look(first), asked('four') > 0));
    await fail(first);
    const before = asked('four');
    await makeDue('four');
    for (const one of [first, second]) await look(one);
    assert.equal(asked('four'), before, 'its turn waits, though nothing is known of itself');
    assert.deepEqual(await byHand('four', second), ['failed', 'rate-limited']);
    assert.ok(asked('four') > before, 'by hand it is tried at once');
    bench.server.fault = () => null;
    assert.equal((await byHand('four', second))[0], 'unchanged');
    assert.equal(await isPaused(), false, 'whoever reaches it ends its pause');
    const since = asked('four');
    await makeDue('four');
    await look(first);
    assert.ok(asked('four') > since, 'also for the daemon that had paused it');
  });

  it('what one project cannot read there has no other project wait', async () => {
    const { api: call } = bench.daemon;
    assert.equal((await call('POST', '/api/v1/orgs/default/projects', { slug: 'other' })).status, 201);
    const repo = await bench.repository('theirs');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('theirs-a') });
    const repositories = '/api/v1/orgs/default/projects/other/repositories';
    const body = { name: 'theirs', url: bench.server.url('theirs.git'), intervalSeconds: 3600 };
    assert.equal((await call('POST', repositories, body)).status, 201);
    const reader = lookerOf(bench.daemon);
    await until('its first read', async () => (await look(reader), asked('theirs') > 0));
    await fail(reader);
    bench.server.fault = ({ path }) => (path.startsWith('/theirs') ? null : { kind: 'status', status: 429 });
    for (const one of [reader, lookerOf(other)]) {
      const before = asked('theirs');
      await makeDue('theirs');
      await look(one);
      assert.ok(asked('theirs') > before, 'its turn comes');
    }
    assert.equal(await isPaused(), true, 'and ends nobody else’s pause');
    // What is left of a pause that nobody has tried for a day is let go of.
    await bench.daemon.ctx.db.query(`update svc.server_pauses set retry_at = now() - interval '25 hours'`);
    await keepPolls(bench.daemon.ctx);
    assert.equal((await bench.daemon.ctx.db.query('select from svc.server_pauses')).rowCount, 0);
    bench.server.fault = () => null;
    assert.equal((await byHand('four', reader))[0], 'unchanged');
  });

  it('of a server whose turns one project has filled no more is claimed for that project, and for others it is', async (t) => {
    const { db } = bench.daemon.ctx;
    const reader = lookerOf(bench.daemon);
    const dull = await DullServers.start(1);
    t.after(async () => {
      await reader.lane.stop();
      await dull.stop();
      await db.query(`delete from svc.repositories where name like 'slow-%'`);
      await db.query(`update svc.projects set archived_at = now() where slug = 'other'`);
    });
    const add = (slug: string, count: number) =>
      db.query(
        `with made as (
           insert into svc.repositories (id, project_id, name, url, url_key, interval_seconds)
           select gen_random_uuid(), p.id, 'slow-' || n, 'http://' || $1::text || '/r' || n || '.git', $1::text || '/r' || n, 3600
             from svc.projects p, generate_series(1, $3::int) n where p.slug = $2::text
           returning id), polled as (
           insert into svc.repository_polls (repository_id, next_at) select id, now() from made)
         insert into svc.repository_states (repository_id) select id from made`,
        [`127.0.0.1:${dull.ports[0]}`, slug, count],
      );
    await add('default', 70);
    assert.ok((await pollTurn(reader.ctx, reader.lane)).begun >= 70);
    await until('four reads', async () => dull.open().length === 4, 300_000);
    await db.query(
      `update svc.repository_polls set next_at = now(), claimed_by = null
        where repository_id in (select id from svc.repositories where name like 'slow-%')`,
    );
    await add('other', 1);
    const before = reader.lane.room;
    await pollTurn(reader.ctx, reader.lane);
    assert.equal(reader.lane.room, before - 1, 'theirs is taken in hand, and none of those again');
  });

  it('the pause outlives a restart, and a crash of the database', async () => {
    await fail(lookerOf(bench.daemon));
    const before = asked('four');
    for (const again of [async () => undefined, () => other.ctx.db.query('truncate svc.repository_polls')]) {
      await again();
      const started = lookerOf(other);
      await scheduleAll(other.ctx);
      await makeDue('four');
      await look(started);
      assert.equal(asked('four'), before);
    }
    bench.server.fault = () => null;
    assert.equal((await byHand('four', lookerOf(other)))[0], 'unchanged');
    assert.equal(await isPaused(), false);
  });

  it('a tree of megabytes waits while others hold theirs, read once it is let in, and others of its server are read meanwhile', async () => {
    const reader = lookerOf(bench.daemon);
    const { largeReads } = syncPortsOf(bench.daemon.ctx);
    const begin = async (name: string): Promise<string> => {
      const { body } = await bench.daemon.api('POST', `P/repositories/${name}/sync`);
      await pollTurn(reader.ctx, reader.lane);
      return word(body['reconcileId']);
    };
    const empty = reader.lane.room;
    const never = new AbortController().signal;
    await Promise.all([largeReads.enter('theirs', never), largeReads.enter('others', never)]);
    const commit = await (await bench.repository('four')).commit({ '.svc/large': randomBytes(1_500_000) });
    const large = await begin('four');
    assert.equal(word((await ended(bench.daemon, await begin('one')))['status']), 'unchanged');
    const { body } = await bench.daemon.api('GET', `P/reconciles/${large}`);
    assert.deepEqual([word(body['status']), word(body['commit'])], ['running', commit]);
    largeReads.leave('theirs');
    assert.equal(word((await ended(bench.daemon, large))['status']), 'unchanged');
    largeReads.leave('others');
    // Of the places all are free again.
    await Promise.all([largeReads.enter('theirs', never), largeReads.enter('others', never)]);
    // Where enough of a project waits, none of its polls is begun, and what is asked for is.
    const { rows } = await bench.daemon.ctx.db.query('select project_id as "projectId" from svc.repositories limit 1');
    const { projectId } = rows[0] as { projectId: string };
    const ending = new AbortController();
    const waiting = Array.from({ length: 64 }, () => largeReads.enter(projectId, ending.signal));
    await bench.daemon.ctx.db.query('update svc.repository_polls set next_at = now(), claimed_by = null');
    assert.equal((await pollTurn(reader.ctx, reader.lane)).begun, 0);
    assert.equal(word((await ended(bench.daemon, await begin('one')))['status']), 'unchanged');
    ending.abort(new Error('they are over'));
    assert.ok((await Promise.allSettled(waiting)).every(({ status }) => status === 'rejected'));
    for (const owner of ['theirs', 'others']) largeReads.leave(owner);
    assert.ok((await pollTurn(reader.ctx, reader.lane)).begun > 0);
    await until('the looks', async () => reader.lane.room === empty);
  });

  it('hundreds are read at a time, each for four repositories and each repository once, and one that answers beside them', async (t) => {
    const { db } = bench.daemon.ctx;
    const reader = lookerOf(bench.daemon);
    const dull = await DullServers.start(61);
    t.after(async () => {
      await reader.lane.stop();
      await dull.stop();
    });
    const hosts = dull.ports.map((port) => `127.0.0.1:${port}`);
    // Five of each server, and one of the last.
    await db.query(
      `with made as (
         insert into svc.repositories (id, project_id, name, url, url_key, interval_seconds)
         select gen_random_uuid(), p.id, 'dull-' || h || '-' || n, 'http://' || host || '/r' || n || '.git',
                host || '/r' || n, 3600
           from svc.projects p, unnest($1::text[]) with ordinality as t (host, h), generate_series(1, 5) n
          where p.archived_at is null and (h < 61 or n = 1)
         returning id), polled as (
         insert into svc.repository_polls (repository_id, next_at) select id, now() from made)
       insert into svc.repository_states (repository_id) select id from made`,
      [hosts],
    );
    const { begun } = await pollTurn(reader.ctx, reader.lane);
    assert.ok(begun >= 301, `${begun} begun`);
    const ofAll = async (): Promise<boolean> => dull.open().length >= 241;
    await until('four reads of each and one of the last', ofAll, 300_000);
    const repo = await bench.repository('five');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('five-a') });
    const body = { name: 'five', url: bench.server.url('five.git'), intervalSeconds: 3600 };
    assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    const { body: sync } = await bench.daemon.api('POST', 'P/repositories/five/sync');
    await pollTurn(reader.ctx, reader.lane);
    const run = await ended(bench.daemon, word(sync['reconcileId']));
    assert.deepEqual([word(run['status']), word(run['commit'])], ['applied', commit]);
    // No other daemon reads what one has in hand, due or not.
    await db.query(`update svc.repository_polls set next_at = now() where claimed_by is not null`);
    await pollTurn(other.ctx, lookerOf(other).lane);
    const counts = (key: (read: DullRead) => string): number[] => [
      ...Map.groupBy(dull.reads, key)
        .values()
        .map(({ length }) => length),
    ];
    assert.deepEqual(
      [dull.open().length, dull.reads.length],
      [241, 241],
      'none was ended for it, and none begun beside it',
    );
    assert.deepEqual(
      counts(({ port }) => `${port}`).sort((a, b) => a - b),
      [1, ...Array.from({ length: 60 }, () => 4)],
    );
    assert.equal(Math.max(...counts(({ port, path }) => `${port}${path}`)), 1);
    for (let wish = 2; wish < 5; wish += 1) {
      assert.equal((await bench.daemon.api('POST', 'P/repositories/dull-61-1/sync')).status, 202);
      await pollTurn(reader.ctx, reader.lane);
      const ofLast = (reads: readonly DullRead[]): number => reads.filter(({ port }) => port === dull.ports[60]).length;
      await until('the newer read in place of the older', async () => {
        return ofLast(dull.reads) === wish && ofLast(dull.open()) === 1;
      });
    }
  });
});
