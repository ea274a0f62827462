import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { errorCode, type Sql } from '../../adapters/store/store.ts';
import { insertRun, moveRun, notMoved, prepareMove } from '../../adapters/store/repositories/reconciles.ts';
import { repositoryById, updateState } from '../../adapters/store/repositories/repositories.ts';
import { agentFile, type Bench, runsOf, startBench, word } from './sync-testkit.ts';
import { RunConflict, RunRecord } from './run-record.ts';

describe('the row of a run', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('stands aside for a run of the same commit that ends between its statements', async () => {
    const repo = await bench.repository('meet');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('meet-a') });
    const first = await bench.watch('meet');
    const { ctx } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string }>(`select id from svc.repositories where name = 'meet'`);
    const repository = await repositoryById(ctx.db, rows[0]?.id ?? '');
    assert.ok(repository);
    const [commit, hash] = ['c'.repeat(40), 'h'.repeat(64)];
    const run = new RunRecord({ ctx, repository, reason: 'poll', request: { kind: 'sync' }, taken: null });
    // Held by no daemon and not due for an hour: nobody takes it up, nobody takes it for lost.
    const now = ctx.runtime.now();
    const startedAt = new Date(now.getTime() + 3_600_000);
    const other = ctx.runtime.uuid();
    const common = { projectId: repository.projectId, repositoryId: repository.id, repositoryName: 'meet' };
    const theirs = { ...common, id: other, commit, reason: 'poll', daemonId: null, startedAt, request: {} } as const;
    await insertRun(ctx.db, { ...theirs, inputs: { generation: repository.generation } });
    const end = async (): Promise<void> => {
      await ctx.db.tx(async (tx) => {
        await moveRun(tx, other, { status: 'failed' }, now);
        await updateState(tx, repository.id, { seenCommit: commit, seenHash: hash }, now);
      });
    };
    const subject = { commit, hash, inputs: {} };
    const opening = ctx.db.tx((tx) => run.openIn(endsBeforeItLooks(tx, end), subject));
    await assert.rejects(opening, (error) => error instanceof RunConflict && error.verdict === 'leave');
    const runs = (await runsOf(bench.daemon, 'meet')).map((one) => word(one['id']));
    assert.deepEqual(runs, [other, word(first['id'])]);
  });

  it('stands aside for what another daemon has, or has seen, meanwhile: which of the two commits is the newer it does not know', async () => {
    const repo = await bench.repository('late');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('late-a') });
    const first = await bench.watch('late');
    const { ctx } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string }>(`select id from svc.repositories where name = 'late'`);
    const read = await repositoryById(ctx.db, rows[0]?.id ?? '');
    assert.ok(read);
    const subject = { commit: 'c'.repeat(40), hash: 'h'.repeat(64), inputs: {} };
    const opening = async (reason: 'poll' | 'resync'): Promise<string> => {
      const run = new RunRecord({ ctx, repository: read, reason, request: { kind: 'sync' }, taken: null });
      return run.open(subject).then(
        () => 'opened',
        (error: unknown) => (error instanceof RunConflict ? error.verdict : String(error)),
      );
    };
    const now = ctx.runtime.now();
    const [theirs, them] = [ctx.runtime.uuid(), ctx.runtime.uuid()];
    await ctx.db.tx(async (tx) => {
      // A daemon that is there, so that nobody takes over from it.
      await tx.query(`insert into svc.daemons (id, roles, host, pid) values ($1::uuid, '{}', 'elsewhere', 1)`, [them]);
      const common = { projectId: read.projectId, repositoryId: read.id, repositoryName: 'late', daemonId: them };
      await insertRun(tx, { ...common, id: theirs, commit: 'd'.repeat(40), reason: 'poll', startedAt: now });
    });
    assert.deepEqual([await opening('poll'), await opening('resync')], ['wait', 'wait']);
    await ctx.db.tx(async (tx) => {
      await moveRun(tx, theirs, { status: 'applied' }, now);
      await updateState(tx, read.id, { seenCommit: 'd'.repeat(40) }, now);
    });
    assert.deepEqual([await opening('poll'), await opening('resync')], ['wait', 'wait']);
    const runs = (await runsOf(bench.daemon, 'late')).map((one) => word(one['id']));
    assert.deepEqual(runs, [theirs, word(first['id'])]);
  });

  it('has its long lists copied from the run that had the same, and written again where that is gone', async () => {
    const { ctx } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string }>('select id from svc.projects limit 1');
    const list = (of: string): { op: string; n: number }[] => Array.from({ length: 30 }, (_, n) => ({ op: of, n }));
    const lists = { actions: list('a'), webhooks: list('w') };
    const sent: string[] = [];
    const watched: Sql = {
      query: (text, values, name) => {
        sent.push(JSON.stringify(values));
        return ctx.db.query(text, values, name);
      },
    };
    const ended = async (): Promise<{ readonly id: string; readonly bytes: number }> => {
      const id = ctx.runtime.uuid();
      const startedAt = ctx.runtime.now();
      const common = { projectId: rows[0]?.id ?? '', repositoryId: null, repositoryName: null, commit: null };
      const run = { ...common, id, reason: 'apply', daemonId: null, startedAt, request: {}, inputs: {} } as const;
      await insertRun(ctx.db, run);
      sent.length = 0;
      assert.ok(await moveRun(watched, id, { status: 'unchanged', ...lists }, ctx.runtime.now()));
      const text = 'select actions, webhooks from svc.reconciles where id = $1::uuid';
      assert.deepEqual((await ctx.db.query(text, [id])).rows, [lists]);
      return { id, bytes: sent.join('').length };
    };
    const first = await ended();
    const second = await ended();
    assert.ok(first.bytes > 1_000 && second.bytes < 300, `${first.bytes} and ${second.bytes} bytes`);
    await ctx.db.query('delete from svc.reconciles where id = any($1::uuid[])', [[first.id, second.id]]);
    const third = await ended();
    assert.ok(third.bytes > 1_000, 'whole again');
    // With the commit in the same message: what has ended is not moved again, and nothing beside that stands.
    const patch = { status: 'failed', detail: 'again' } as const;
    const move = await prepareMove({ id: third.id, patch, now: ctx.runtime.now() });
    const both = ctx.db.tx(async (tx) => {
      const moving = [
        move.runLast(tx),
        tx.query(`update svc.reconciles set detail = 'seen' where id = $1::uuid`, [third.id]),
      ];
      tx.last();
      await Promise.all(moving);
    });
    await assert.rejects(both, (error) => errorCode(error) === notMoved);
    const text = 'select status, detail from svc.reconciles where id = $1::uuid';
    assert.deepEqual((await ctx.db.query(text, [third.id])).rows, [{ status: 'unchanged', detail: null }]);
  });
});

/** Calls `end` right before the statement that looks for a running run. */
function endsBeforeItLooks(tx: Sql, end: () => Promise<void>): Sql {
  return {
    async query(text, values, name) {
      if (/from svc\.reconciles .*status = 'running'/.test(text)) await end();
      return tx.query(text, values, name);
    },
  };
}
