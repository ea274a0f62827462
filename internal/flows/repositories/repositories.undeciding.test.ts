// Changes of a repository that decide nothing of what is read or applied: they end nothing that a person has asked for.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import { openDatabase } from '../../adapters/store/store.ts';
import { silent } from '../../base/testkit/postgres.ts';
import { syncPortsOf } from '../context.ts';
import { agentFile, agentNames, type Bench, ended, startBench, syncNow, until, word } from '../sync/sync-testkit.ts';

describe('a rollback that is under way', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  const column = async (text: string): Promise<unknown> =>
    (await bench.daemon.ctx.db.query<{ is: unknown }>(`select (${text}) as is`)).rows[0]?.is;
  const state = (name: string) => `(select id from svc.repositories where name = '${name}')`;
  /** Two commits, the second applied; asks to go back, and resolves to the run once it is about to be applied. */
  const goBack = async (name: string): Promise<string> => {
    const repo = await bench.repository(name);
    await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-1`) });
    await bench.watch(name);
    await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-2`) });
    await syncNow(bench.daemon, name);
    return name;
  };
  const rollBack = async (name: string): Promise<string> =>
    word((await bench.daemon.api('POST', `P/repositories/${name}/rollback`, {})).body['reconcileId']);
  const isApplied = async (name: string, run: string): Promise<void> => {
    const told = await ended(bench.daemon, run);
    assert.equal(word(told['status']), 'applied', word(told['detail']));
    assert.ok((await agentNames(bench.daemon)).includes(`${name}-1`));
  };
  const patch = (name: string, body: object) => () => bench.daemon.api('PATCH', `P/repositories/${name}`, body);
  const changes: { readonly [what: string]: (name: string) => () => Promise<{ readonly status: number }> } = {
    interval: (name) => patch(name, { intervalSeconds: 1800 }),
    plan: (name) => patch(name, { plan: { check: false } }),
    same: (name) => patch(name, { root: '', branch: null, suspended: false }),
    resumed: (name) => () => bench.daemon.api('POST', `P/repositories/${name}/resume`),
  };

  for (const [what, of] of Object.entries(changes))
    it(`goes on beside a change that decides nothing: ${what}`, async () => {
      const { ctx } = bench.daemon;
      const name = await goBack(`waits-${what}`);
      const change = of(name);
      const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories limit 1');
      const { promise: freed, resolve: free } = Promise.withResolvers<void>();
      // What is about to be applied waits for those before it in the project.
      const before = Promise.all(
        Array.from({ length: 64 }, () => syncPortsOf(ctx).applying(rows[0]?.id ?? '', () => freed)),
      );
      const run = await rollBack(name);
      const begun = `select inputs <> '{}' from svc.reconciles where id = '${run}'`;
      await until('its commit', async () => (await column(begun)) === true);
      assert.equal((await change()).status, 200);
      const heard = `select wanted is null from svc.repository_polls where repository_id = ${state(name)}`;
      await until('the wish to be heard', async () => (await column(heard)) === true);
      free();
      await before;
      await isApplied(name, run);
    });

  it('and while it waits for its project to be changed by somebody else', async () => {
    const { ctx } = bench.daemon;
    const name = await goBack('locked');
    const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories limit 1');
    const waitsForLock = `select 1 from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`;
    const other = openDatabase({ url: ctx.db.url, log: silent });
    const run = await inApply(other, rows[0]?.id ?? '', async () => {
      const asked = await rollBack(name);
      await until('the apply to wait', async () => (await ctx.db.query(waitsForLock)).rowCount > 0);
      for (const of of Object.values(changes)) assert.equal((await of(name)()).status, 200);
      return asked;
    });
    await other.close();
    await isApplied(name, run);
  });

  it('is ended by a change of what is read, and every change is another version', async () => {
    const { ctx, api } = bench.daemon;
    const name = await goBack('decided');
    const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories limit 1');
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    const before = Promise.all(
      Array.from({ length: 64 }, () => syncPortsOf(ctx).applying(rows[0]?.id ?? '', () => freed)),
    );
    const run = await rollBack(name);
    const begun = `select inputs <> '{}' from svc.reconciles where id = '${run}'`;
    await until('its commit', async () => (await column(begun)) === true);
    const generations = [];
    for (const body of [{ intervalSeconds: 1800 }, { context: { team: 'x' } }])
      generations.push((await api('PATCH', `P/repositories/${name}`, body)).body['generation']);
    assert.equal(Number(generations[1]), Number(generations[0]) + 1);
    assert.equal(word((await ended(bench.daemon, run))['status']), 'superseded');
    free();
    await before;
  });
});
