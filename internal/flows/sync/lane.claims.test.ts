// What a sync under way and what people ask for do to each other, where the test says when each wish is claimed.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type DueRepository, wishSync } from '../../adapters/store/repositories/polls.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import { openDatabase } from '../../adapters/store/store.ts';
import { createLog } from '../../base/log/log.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { pollTurn, SyncLane } from './lane.ts';
import { agentFile, agentNames, type Bench, ended, startBench, until, word } from './sync-testkit.ts';

describe('a look that is under way', () => {
  let bench: Bench;
  let lane: SyncLane;
  let room = 0;
  before(async () => {
    bench = await startBench({ config: { roles: ['api'] } });
    const { ctx } = bench.daemon;
    lane = new SyncLane(ctx, ctx.runtime.log);
    room = lane.room;
  });
  after(async () => {
    await lane.stop();
    await bench.stop();
  });
  const act = async (name: string, action: string, body?: object): Promise<string> => {
    const answer = await bench.daemon.api('POST', `P/repositories/${name}/${action}`, body);
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    return word(answer.body['reconcileId']);
  };
  const idOf = async (name: string): Promise<string> => {
    const text = 'select id from svc.repositories where name = $1::text';
    return (await bench.daemon.ctx.db.query<{ id: string }>(text, [name])).rows[0]?.id ?? '';
  };
  const push = async (name: string, hint: string): Promise<void> =>
    wishSync(bench.daemon.ctx.db, { repositoryId: await idOf(name), reason: 'push', hint });
  /** Claims what is wanted, until nothing is in hand. */
  const look = async (): Promise<void> => {
    // The second turn gives back what the first has claimed.
    for (let turn = 0; turn < 2; turn += 1) {
      await pollTurn(bench.daemon.ctx, lane);
      await over();
    }
  };
  const over = () => until('nothing to be in hand', async () => lane.room === room, 20_000);
  /** Holds what the server is asked for next, until the answer is called. */
  const holdRead = (): { readonly isHeld: () => Promise<unknown>; readonly goOn: () => void } => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = bench.server.log.length;
    bench.server.fault = () => ({ kind: 'hold', until: promise });
    const isHeld = async (): Promise<void> => {
      await until('the read that hangs', async () => bench.server.log.length > asked);
      bench.server.fault = () => null;
    };
    return { isHeld, goOn: resolve };
  };
  /** Begins the look for a commit, and answers with what lets its server answer. */
  const lookHeld = async (name: string, hint: string): Promise<() => void> => {
    const { isHeld, goOn } = holdRead();
    await push(name, hint);
    await pollTurn(bench.daemon.ctx, lane);
    await isHeld();
    return goOn;
  };
  /** A repository of so many commits, of which the last is applied; its agent is called by the number of the commit. */
  const follow = async (name: string, commits: number) => {
    const repo = await bench.repository(name);
    const commit = (n: number): Promise<string> => repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-${n}`) });
    await commit(1);
    const body = { name, url: bench.server.url(`${name}.git`), intervalSeconds: 3600 };
    assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    await look();
    for (let n = 2; n <= commits; n += 1) {
      await push(name, await commit(n));
      await look();
    }
    return { commit };
  };
  const applied = async (name: string): Promise<string[]> =>
    (await agentNames(bench.daemon)).filter((one) => one.startsWith(`${name}-`));

  it('leaves a rollback that waits for a daemon to be done, and what it looked for is looked for behind that', async () => {
    const { commit } = await follow('back', 2);
    const goOn = await lookHeld('back', await commit(3));
    const rollback = await act('back', 'rollback', {});
    goOn();
    const run = await ended(bench.daemon, rollback);
    assert.equal(word(run['status']), 'applied', word(run['detail']));
    await over();
    assert.deepEqual(await applied('back'), ['back-3'], 'the newest commit waits for no interval');
  });

  it('is done again behind a rollback that ended it, or that was asked for at the same time', async () => {
    for (const when of ['at once', 'while it reads']) {
      const name = when.replaceAll(' ', '-');
      const { commit } = await follow(name, 2);
      const goOn = when === 'at once' ? await push(name, await commit(3)) : await lookHeld(name, await commit(3));
      const rollback = await act(name, 'rollback', {});
      await look();
      goOn?.();
      assert.equal(word((await ended(bench.daemon, rollback))['status']), 'applied');
      assert.deepEqual(await applied(name), [`${name}-3`], when);
    }
  });

  it('and finds a run by hand in its way asks for nothing that would end that one', async () => {
    const { commit } = await follow('asks', 1);
    const { db } = bench.daemon.ctx;
    const goOn = await lookHeld('asks', await commit(2));
    const sync = await act('asks', 'sync');
    // Claimed, and not begun yet.
    await db.query('update svc.repository_polls set wanted = null, hint = null');
    goOn();
    const isOver = async () =>
      (await db.query('select from svc.repository_polls where wanted is not null')).rowCount > 0;
    await Promise.race([until('a wish', isOver), until('its end', async () => lane.room === room)]);
    const held = holdRead();
    const server = { projectId: randomUUID(), fence: 1, host: null, hostFailures: null, hostPausedMs: 0 };
    const due: DueRepository = { id: await idOf('asks'), reason: 'manual', isAsked: true, hint: null, ...server };
    lane.start(due);
    await held.isHeld();
    await db.query('update svc.repository_polls set next_at = now() where wanted is not null');
    await pollTurn(bench.daemon.ctx, lane);
    held.goOn();
    const run = await ended(bench.daemon, sync);
    assert.equal(word(run['status']), 'applied', word(run['detail']));
    await over();
  });

  it('is done by another daemon where its own drains before it has come to it', async () => {
    const { commit } = await follow('drained', 1);
    const { ctx, database, token } = bench.daemon;
    const other = await startTestDaemon({ database, token, config: { roles: ['api'], allowPrivateNetwork: true } });
    const drained = new SyncLane(other.ctx, silent);
    const locked = openDatabase({ url: ctx.db.url, log: silent });
    const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories');
    const waitsForLock = `select 1 from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`;
    const stopped = await inApply(locked, rows[0]?.id ?? '', async () => {
      await push('drained', await commit(2));
      await pollTurn(other.ctx, drained);
      await until('the apply to wait', async () => (await ctx.db.query(waitsForLock)).rowCount > 0);
      await push('drained', await commit(3));
      await pollTurn(other.ctx, drained);
      return [drained.stop()];
    });
    await Promise.all(stopped);
    assert.deepEqual(await applied('drained'), ['drained-2']);
    await look();
    assert.deepEqual(await applied('drained'), ['drained-3']);
    await locked.close();
    await other.stop();
  });

  it('is done of what a person asks for, where syncs of the repository have ended daemons and are tried no more', async () => {
    const { commit } = await follow('parked', 2);
    const { db } = bench.daemon.ctx;
    await db.query(`insert into svc.suspects (kind, id, ends) values ('sync', $1::text, 4)`, [await idOf('parked')]);
    await push('parked', await commit(3));
    await look();
    assert.deepEqual(await applied('parked'), ['parked-2'], 'left alone');
    const rollback = await act('parked', 'rollback', {});
    await look();
    const run = await ended(bench.daemon, rollback, 5_000);
    assert.equal(word(run['status']), 'applied', word(run['detail']));
  });

  it('and a sync by hand is one, though a rollback waits for a daemon', async () => {
    await follow('both', 2);
    const rollback = await act('both', 'rollback', {});
    const sync = await act('both', 'sync');
    assert.notEqual(sync, rollback);
    assert.equal(await act('both', 'sync'), sync, 'what nobody has begun yet serves as well');
    await look();
    const statuses = [rollback, sync].map(async (id) => word((await ended(bench.daemon, id))['status']));
    assert.deepEqual(await Promise.all(statuses), ['superseded', 'unchanged']);
    assert.deepEqual(await applied('both'), ['both-2']);
  });

  it('by hand is not ended by a late delivery of the commit that has been seen', async () => {
    const { commit } = await follow('late', 1);
    const two = await commit(2);
    await push('late', two);
    await look();
    const { isHeld, goOn } = holdRead();
    const sync = await act('late', 'sync');
    await pollTurn(bench.daemon.ctx, lane);
    await isHeld();
    await push('late', two);
    await pollTurn(bench.daemon.ctx, lane);
    goOn();
    await over();
    const run = await ended(bench.daemon, sync);
    assert.equal(word(run['status']), 'unchanged', word(run['detail']));
  });

  it('is ended by a rollback, or has ended: then that goes back from what it has applied', async () => {
    const { commit } = await follow('meets', 2);
    const { ctx, api } = bench.daemon;
    const [id, three] = [await idOf('meets'), await commit(3)];
    const { rows } = await ctx.db.query<{ id: string }>(
      `insert into svc.reconciles (id, project_id, repository_id, repository_name, reason, status, daemon_id)
         select gen_random_uuid(), project_id, id, name, 'push', 'running', gen_random_uuid()
           from svc.repositories where id = $1::uuid returning id`,
      [id],
    );
    const [run] = rows;
    const locked = openDatabase({ url: ctx.db.url, log: silent });
    const { asked } = await locked.tx(async (tx) => {
      const end = `update svc.reconciles set status = 'applied', commit = $2::text, finished_at = now() where id = $1::uuid`;
      await tx.query(end, [run?.id, three]);
      const state =
        'update svc.repository_states set applied_commit = $2::text, seen_commit = $2::text where repository_id = $1::uuid';
      await tx.query(state, [id, three]);
      const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      const answer = api('POST', 'P/repositories/meets/rollback', {});
      await until('the rollback to wait for its end', async () => (await ctx.db.query(waits)).rowCount > 0, 10_000);
      return { asked: answer };
    });
    await locked.close();
    assert.equal(word((await asked).body['from']), three);
    await look();
  });

  it('ends without an error of ours where its repository is removed while it reads', async () => {
    const { commit } = await follow('gone', 1);
    const errors: string[] = [];
    const log = createLog('error', { write: (line: string) => void errors.push(line) });
    const other = new SyncLane(bench.daemon.ctx, log);
    const { promise: read, resolve: goOn } = Promise.withResolvers<void>();
    let isAsked = false;
    bench.server.fault = ({ path, bytesUp }) => {
      // The second of its requests: by then the run is there.
      if (!path.endsWith('git-upload-pack') || bytesUp <= 150) return null;
      isAsked = true;
      return { kind: 'hold', until: read };
    };
    await push('gone', await commit(2));
    await pollTurn(bench.daemon.ctx, other);
    await until('the read that hangs', async () => isAsked, 10_000);
    bench.server.fault = () => null;
    assert.equal((await bench.daemon.api('DELETE', 'P/repositories/gone')).status, 204);
    goOn();
    await until('its end', async () => other.room === room);
    assert.deepEqual(errors, []);
  });
});
