// What the sweep takes of stored commits and their files, and what it leaves (docs/reference/repositories.md#runs).

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import { insertSnapshot, snapshotById } from '../../adapters/store/repositories/snapshots.ts';
import type { FlowContext } from '../context.ts';
import { sweep } from './lane.ts';
import { agentFile, agentNames, type Bench, ended, startBench, syncNow, word } from './sync-testkit.ts';

/** More than two slices of a repository. */
const many = 450;
const oidOf = (number: number): string => number.toString(16).padStart(40, '0');

describe('the sweep of snapshots and blobs', () => {
  let bench: Bench;
  let repositoryId = '';
  let present = '';
  const query = async <T extends object>(text: string, values: unknown[] = []): Promise<readonly T[]> =>
    (await bench.daemon.ctx.db.query<T>(text, values)).rows;
  before(async () => {
    bench = await startBench();
    const repo = await bench.repository('swept');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('swept') });
    await bench.watch('swept');
    const [state] = await query<{ id: string; snapshot: string }>(
      'select repository_id as id, snapshot_id as snapshot from svc.repository_states',
    );
    repositoryId = state?.id ?? '';
    present = state?.snapshot ?? '';
  });
  after(() => bench.stop());

  /** Old snapshots, each with a file of its own and those of the present one; their ids by number. */
  let old: string[] = [];
  beforeEach(async () => {
    const { ctx } = bench.daemon;
    const stored = await snapshotById(ctx.db, present);
    assert.ok(stored !== undefined);
    await query('delete from svc.snapshots where id <> $1::uuid', [present]);
    await query(
      `insert into svc.blobs (oid, size, bytes, last_used_at)
       select lpad(to_hex(n), 40, '0'), 1, '\\x00'::bytea, now() - interval '3 hours' from generate_series(0, $1::int) n
       on conflict (oid) do update set last_used_at = excluded.last_used_at`,
      [many],
    );
    old = Array.from({ length: many }, () => randomUUID());
    for (const [number, id] of old.entries()) {
      const own = { path: `.svc/agents/${number}.yaml`, kind: 'file' as const, oid: oidOf(number), size: 1 };
      await insertSnapshot(ctx.db, { ...stored, id, repositoryId, entries: [...stored.entries, own] });
    }
    await query(`update svc.snapshots set created_at = now() - interval '2 hours'`);
    await query(`update svc.blobs set last_used_at = now() - interval '3 hours'`);
  });

  const snapshots = async (): Promise<string[]> =>
    (await query<{ id: string }>('select id from svc.snapshots order by id')).map(({ id }) => id);
  const blobs = async (): Promise<string[]> =>
    (await query<{ oid: string }>('select oid from svc.blobs order by oid')).map(({ oid }) => oid);
  const filesOf = async (ids: readonly string[]): Promise<string[]> =>
    (
      await query<{ oid: string }>(
        'select distinct oid from svc.snapshot_blobs where snapshot_id = any($1) order by oid',
        [ids],
      )
    ).map(({ oid }) => oid);

  it('takes what nothing will ask for again, and leaves what runs can go back to, what is young and what is in use', async () => {
    const { ctx } = bench.daemon;
    const [applied = '', held = '', unchanged = '', young = ''] = old;
    for (const [status, snapshotId] of [
      ['applied', applied],
      ['held', held],
      ['unchanged', unchanged],
    ]) {
      await query(
        `insert into svc.reconciles (id, project_id, repository_id, repository_name, reason, status, finished_at, inputs)
         select $1::uuid, project_id, id, name, 'poll', $2::text, now(), jsonb_build_object('snapshotId', $3::text)
           from svc.repositories where id = $4::uuid`,
        [randomUUID(), status, snapshotId, repositoryId],
      );
    }
    await query('update svc.snapshots set created_at = now() where id = $1::uuid', [young]);
    // Named by no snapshot, and just used by a read that has not written its own yet.
    await query('update svc.blobs set last_used_at = now() where oid = $1::text', [oidOf(many)]);
    await sweep(ctx, ctx.runtime.log);
    const kept = [present, applied, held, unchanged, young].sort();
    assert.deepEqual(await snapshots(), kept);
    assert.deepEqual(await blobs(), [...(await filesOf(kept)), oidOf(many)].sort());
    assert.equal((await filesOf([present])).length, 1, 'the present commit has its file');
    await query(`delete from svc.reconciles where reason = 'poll'`);
  });

  it('goes on where it was broken off, and takes nothing that is in use on the way', async () => {
    const { ctx } = bench.daemon;
    const stop = new AbortController();
    let turns = 0;
    const tx: FlowContext['db']['tx'] = async (act) => {
      turns += 1;
      // The second slice of snapshots has been.
      if (turns === 3) stop.abort();
      return ctx.db.tx(act);
    };
    await sweep({ ...ctx, db: { tx } as FlowContext['db'] }, ctx.runtime.log, stop.signal);
    const left = await snapshots();
    assert.ok(left.length > 1 && left.length < many, `${left.length} are left`);
    assert.ok(left.includes(present));
    const listed = await filesOf(left);
    const there = new Set(await blobs());
    assert.ok(listed.every((oid) => there.has(oid)));
    await sweep(ctx, ctx.runtime.log);
    assert.deepEqual(await snapshots(), [present]);
    assert.deepEqual(await blobs(), await filesOf([present]));
  });

  it('is one daemon’s at a time', async () => {
    const { ctx } = bench.daemon;
    await ctx.db.tx(async (tx) => {
      await tx.query(`select pg_advisory_xact_lock(hashtext('svc.sweep'))`);
      await sweep(ctx, ctx.runtime.log);
    });
    assert.equal((await snapshots()).length, many + 1);
  });
});

describe('what was applied before many commits that change nothing', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('can be gone back to', async () => {
    const { ctx, api } = bench.daemon;
    const repo = await bench.repository('busy');
    const one = await repo.commit({ '.svc/agents/a.yaml': agentFile('busy-1') });
    await bench.watch('busy');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('busy-2') });
    assert.equal(word((await syncNow(bench.daemon, 'busy'))['status']), 'applied');
    for (let n = 0; n < 21; n += 1) {
      await repo.commit({ 'README.md': `${n}` });
      assert.equal(word((await syncNow(bench.daemon, 'busy'))['status']), 'unchanged');
    }
    await ctx.db.query(`update svc.snapshots set created_at = now() - interval '2 hours'`);
    await ctx.db.query(`update svc.blobs set last_used_at = now() - interval '3 hours'`);
    await sweep(ctx, ctx.runtime.log);
    const { status, body } = await api('POST', 'P/repositories/busy/rollback', {});
    assert.deepEqual([status, body['to']], [202, one], JSON.stringify(body));
    assert.equal(word((await ended(bench.daemon, word(body['reconcileId'])))['status']), 'applied');
    assert.deepEqual(await agentNames(bench.daemon), ['busy-1']);
  });
});
