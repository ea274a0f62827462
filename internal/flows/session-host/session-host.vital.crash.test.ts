// A daemon that is held up: one project is locked, and all its connections for work and for calls are somebody's. It is not
// taken for dead, its sessions keep their leases, and one that is taken from it is let go of: each over connections that
// nothing else can have.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { suspendLapsed } from '../../adapters/store/sessions/hosts.ts';
import { connectionsMax, openDatabase, type Tx } from '../../adapters/store/store.ts';
import { isLong } from '../../base/testkit/long.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

/** A beat comes every three seconds and a renewal every five; who is silent for so long is taken for dead. */
const withinMs = 15_000;
/** Longer than a daemon may be silent and than a lease lasts; the short form waits for the next of each alone. */
const longMs = 60_000;

describe('a daemon with no connection left, beside another one, while a project is locked', () => {
  let held: HostBench;
  let other: HostBench;
  before(async () => {
    held = await createHostBench();
    const { database, token, ctx } = held.daemon;
    const config = { masterKeyFile: ctx.config.masterKeyFile, file: { sessions: { max: 0 } } };
    other = await createHostBench({ database, token, config });
    await held.apply({ worker: {} });
  });
  after(async () => {
    await other.stop();
    await held.stop();
  });

  it('is not buried, keeps the leases of its sessions, and lets go of one that is taken from it', async () => {
    const { db } = held.daemon.database;
    const [kept, taken] = [await held.start('worker', '!sleep 600000'), await held.start('worker', '!say on')];
    await held.until(kept, ({ state }) => state === 'running');
    await held.until(taken, ({ state, said }) => state === 'idle' && said.includes('on'));
    assert.ok(processesOf(taken, held.daemon.dataDir).length > 0);
    const { rows: projects } = await db.query<{ id: string }>('select id from svc.projects');
    const everything = await takeAll(held, projects[0]?.id ?? '');
    try {
      assert.equal(await everything.left(), 'none', 'neither the work of the daemon nor a call has a connection');
      const seen = await signs();
      await eventually('a beat', async () => (await signs()).beatAt > seen.beatAt, withinMs);
      await eventually('a renewal', async () => (await signs()).until > seen.until, withinMs);
      for (const begun = performance.now(); isLong && performance.now() - begun < longMs; await sleep(500)) {
        const { isFresh, isLeased } = await signs();
        assert.deepEqual({ isFresh, isLeased }, { isFresh: true, isLeased: true });
      }
      const { daemons, epoch } = await signs();
      assert.deepEqual({ daemons, epoch }, { daemons: seen.daemons, epoch: seen.epoch }, 'nobody was buried');
      await db.query(`update svc.session_leases set until = now() - interval '1 hour' where session_id = $1::uuid`, [
        taken,
      ]);
      await eventually('it is taken', async () => (await db.tx(suspendLapsed)).includes(taken) || (await isLost()));
      const gone = (): boolean => processesOf(taken, held.daemon.dataDir).length === 0;
      await eventually('nothing of it runs', gone, withinMs);
    } finally {
      await everything.free();
    }
    await held.send(taken, '!say again');
    await held.until(taken, ({ state, said }) => state === 'idle' && said.includes('again'));
    assert.equal((await held.view(kept)).state, 'running');
    assert.equal((await held.turns(kept)).length, 1, 'in its one turn');

    async function isLost(): Promise<boolean> {
      const { rows } = await db.query<{ lost: boolean }>(
        'select leased_by is null as lost from svc.sessions where id = $1::uuid',
        [taken],
      );
      return rows[0]?.lost === true;
    }

    /** What others see of the daemon and of its session. */
    async function signs() {
      const { rows } = await db.query<{
        readonly beatAt: Date;
        readonly isFresh: boolean;
        readonly until: Date;
        readonly isLeased: boolean;
        readonly epoch: number;
        readonly daemons: readonly string[];
      }>(
        `select d.beat_at as "beatAt", d.beat_at > now() - interval '15 seconds' as "isFresh", l.until,
                l.until > now() as "isLeased", s.epoch, (select array_agg(id || ' ' || started_at order by id) from svc.daemons) as daemons
           from svc.daemons d, svc.sessions s join svc.session_leases l on l.session_id = s.id
          where d.id = $1::uuid and s.id = $2::uuid`,
        [held.daemon.ctx.daemonId, kept],
      );
      assert.ok(rows[0], 'the daemon has its row, and the session its lease');
      return rows[0];
    }
  });
});

/** Locks a project, and takes all that a daemon has for work and calls. */
async function takeAll({ daemon }: HostBench, projectId: string) {
  const { promise: freed, resolve: free } = Promise.withResolvers<void>();
  const holding: Promise<void>[] = [];
  const hold = (db: Pick<typeof daemon.ctx.db, 'tx'>, first: (tx: Tx) => Promise<unknown>): Promise<void> => {
    const { promise: isHeld, resolve: holds } = Promise.withResolvers<void>();
    const work = db.tx(async (tx) => {
      await first(tx);
      holds();
      // The server ends a transaction in which nothing happens for a minute.
      while (await Promise.race([freed.then(() => false), sleep(1_000, true)])) await tx.query('select 1');
    });
    holding.push(work);
    return Promise.race([isHeld, work]);
  };
  const locker = openDatabase({ url: daemon.database.url, log: silent });
  await hold(locker, (tx) => lockRouting(tx, projectId));
  const work = Array.from({ length: connectionsMax.main - 1 }, () => hold(daemon.ctx.db, (tx) => tx.query('select 1')));
  await Promise.all(work);
  await hold(daemon.ctx.db.calls, (tx) => tx.query('select 1'));
  return {
    /** What the daemon's database answers to somebody else. */
    left: (): Promise<string> =>
      Promise.race([daemon.ctx.db.query('select 1').then(() => 'some'), sleep(1_000, 'none', { ref: false })]),
    async free(): Promise<void> {
      free();
      await Promise.all(holding);
      await locker.close();
    },
  };
}
