// A run by hand that takes the place of one that was about to change something.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { silent } from '../../base/testkit/postgres.ts';
import { inApply } from '../../adapters/store/routing/project-lock.ts';
import { openDatabase } from '../../adapters/store/store.ts';
import { agentFile, agentNames, type Bench, ended, startBench, until, word } from './sync-testkit.ts';

describe('a sync by hand behind one that is being applied', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  it('comes to its own end, though the one before finds itself overtaken while it reads', async () => {
    const { api, ctx } = bench.daemon;
    const repo = await bench.repository('late');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('late-0') });
    await bench.watch('late');
    const sync = async (): Promise<string> => word((await api('POST', 'P/repositories/late/sync')).body['reconcileId']);
    const { rows } = await ctx.db.query<{ id: string }>('select project_id as id from svc.repositories');
    const waitsForLock = `select 1 from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`;
    const { promise: read, resolve: goOn } = Promise.withResolvers<void>();
    const other = openDatabase({ url: ctx.db.url, log: silent });
    await repo.commit({ '.svc/agents/a.yaml': agentFile('late-1') });
    const [first, second] = await inApply(other, rows[0]?.id ?? '', async () => {
      const one = await sync();
      await until('the apply to wait', async () => (await ctx.db.query(waitsForLock)).rowCount > 0);
      await repo.commit({ '.svc/agents/a.yaml': agentFile('late-2') });
      bench.server.fault = () => ({ kind: 'hold', until: read });
      return [one, await sync()];
    });
    await other.close();
    assert.equal(word((await ended(bench.daemon, first))['status']), 'superseded');
    // Whatever the first asked for would have come by now.
    await until('no wish', async () => {
      const wishes = await ctx.db.query('select from svc.repository_polls where wanted is not null');
      return wishes.rowCount === 0;
    });
    goOn();
    const told = await ended(bench.daemon, second);
    assert.equal(word(told['status']), 'applied', word(told['detail']));
    assert.deepEqual(await agentNames(bench.daemon), ['late-2']);
  });
});
