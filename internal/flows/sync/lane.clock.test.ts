// A clock that was ahead for a while, and was set back: what it has put off is not waited for.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { keepPolls } from './lane.ts';
import { type Bench, startBench } from './sync-testkit.ts';

let bench: Bench;
let nowMs = Date.now();
before(async () => {
  bench = await startBench({ config: { roles: ['api'] }, runtime: { now: () => new Date(nowMs) } });
});
after(() => bench.stop());

test('repositories that are due in a year are looked at now, but for those that back off', async () => {
  const { api, ctx } = bench.daemon;
  for (const name of ['plain', 'failing', 'failed']) {
    const body = { name, url: bench.server.url(`${name}.git`), intervalSeconds: 60 };
    assert.equal((await api('POST', 'P/repositories', body)).status, 201);
  }
  await keepPolls(ctx);
  await ctx.db.query(
    `update svc.repository_polls set next_at = now() + interval '1 year', resync_at = now() + interval '1 year'`,
  );
  // One that failed a moment ago, and one that did while the clock was ahead.
  for (const [name, at] of Object.entries({ failing: '10 minutes', failed: '1 year' }))
    await ctx.db.query(
      `insert into svc.repository_states (repository_id, retry_at)
       select id, now() + $2::interval from svc.repositories where name = $1::text
       on conflict (repository_id) do update set retry_at = excluded.retry_at`,
      [name, at],
    );
  const due = async (): Promise<unknown> => {
    const { rows } = await ctx.db.query<{ name: string; isDue: boolean; isCompared: boolean }>(
      `select r.name, p.next_at <= now() as "isDue", p.resync_at < now() + interval '1 day' as "isCompared"
         from svc.repository_polls p join svc.repositories r on r.id = p.repository_id order by r.name`,
    );
    return Object.fromEntries(rows.map(({ name, isDue, isCompared }) => [name, [isDue, isCompared]]));
  };
  nowMs += 10_000;
  await keepPolls(ctx);
  assert.deepEqual(await due(), { failed: [false, false], failing: [false, false], plain: [false, false] });
  nowMs -= 365 * 24 * 3_600_000;
  await keepPolls(ctx);
  assert.deepEqual(await due(), { failed: [true, true], failing: [false, true], plain: [true, true] });
});
