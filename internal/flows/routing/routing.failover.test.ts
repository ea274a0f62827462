// A standby that is promoted may lack the last commits: the database goes on from a moment before what a daemon has seen of it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Database } from '../../adapters/store/store.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, eventState, hook, post, runnable, settled } from './routing-testkit.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

/** Keeps all rows as they are; the answer puts them back. */
async function keepRows(db: Database): Promise<() => Promise<void>> {
  const { rows: tables } = await db.query<{ table: string; columns: string }>(
    `select c.relname as table, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      where c.relnamespace = 'svc'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname <> 'daemons' group by 1`,
  );
  await db.query('create schema kept');
  for (const { table } of tables) await db.query(`create table kept.${table} as table svc.${table}`);
  return () =>
    db.tx(async (tx) => {
      // Neither triggers nor references are asked.
      await tx.query('set local session_replication_role = replica');
      for (const { table, columns } of tables) {
        await tx.query(`delete from svc.${table}`);
        await tx.query(
          `insert into svc.${table} (${columns}) overriding system value select ${columns} from kept.${table}`,
        );
      }
    });
}

test('events go by the triggers that are there, not by those of an apply that the database has lost', async () => {
  const { api, ctx, url } = daemon;
  const apply = (go: string) =>
    applyAgents(api, { one: { ...runnable, triggers: [hook('in', { kind: 'spawn' }, { where: { '$.go': go } })] } });
  const { in: endpoint = '' } = await apply('first');
  const routed = async (): Promise<string> => {
    const id = await post(url, endpoint, { go: 'third' });
    await settled(ctx.db);
    return (await eventState(ctx.db, id)).status;
  };
  assert.equal(await routed(), 'unmatched');
  const putBack = await keepRows(ctx.db);
  await apply('second');
  assert.equal(await routed(), 'unmatched');
  await putBack();
  await apply('third');
  assert.equal(await routed(), 'routed');
});
