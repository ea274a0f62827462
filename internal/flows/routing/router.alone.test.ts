// Events that were in hand when a daemon ended, twice in a row, beside those of other projects.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordEvents } from '../../adapters/store/events/events.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { gateOf } from '../in-hand.ts';
import { createBench } from '../sessions/sessions-testkit.ts';
import { Router } from './router.ts';
import { settled } from './routing-testkit.ts';

test('events that wait to be tried alone, of however many projects, keep none of another one from being routed', async () => {
  const bench = await createBench();
  const { db, ctx } = bench;
  const router = new Router(ctx);
  const gate = gateOf(ctx);
  const slow = Promise.withResolvers<void>();
  const trying = gate.alone(() => slow.promise);
  try {
    const add = async (): Promise<{ projectId: string; id: string }> => {
      const [projectId, id] = [randomUUID(), timeOrderedId(ctx.runtime)];
      await db.query(
        `insert into svc.projects (id, org_id, slug, name)
         select $1::uuid, o.id, $2::text, $2::text from svc.orgs o limit 1`,
        [projectId, `p-${projectId.slice(0, 8)}`],
      );
      const body = { dedupHash: null, raw: Buffer.from('{}'), payload: null, receivedAt: ctx.runtime.now() };
      await recordEvents(db, [{ id, projectId, key: 'webhook.received', ...body }], { routing: false });
      return { projectId, id };
    };
    const suspected = await Promise.all([add(), add(), add(), add()]);
    const ids = suspected.map(({ id }) => id);
    await db.query(`insert into svc.suspects (kind, id, ends) select 'event', id, 2 from unnest($1::text[]) u (id)`, [
      ids,
    ]);
    const other = await add();
    // Until others are let in beside what takes so long.
    (await gate.enter())();
    for (const { projectId } of suspected) router.wake(projectId);
    await sleep(1_000);
    router.wake(other.projectId);
    const isPending = async (): Promise<boolean> => {
      const found = await db.query(`select from svc.events where id = $1::uuid and router_status = 'pending'`, [
        other.id,
      ]);
      return found.rowCount > 0;
    };
    const begun = performance.now();
    while (await isPending()) {
      const ms = performance.now() - begun;
      assert.ok(isWithin(ms, 10_000), `not routed after ${Math.round(ms)} ms`);
      await sleep(50);
    }
    // Who stops leaves them to the next one.
    const stopped = router.stop().then(() => 'it has stopped');
    assert.equal(await Promise.race([stopped, sleep(5_000, 'it waits', { ref: false })]), 'it has stopped');
    const { rows } = await db.query(`select from svc.events where id = any($1::uuid[]) and router_status = 'pending'`, [
      ids,
    ]);
    assert.equal(rows.length, ids.length);
    slow.resolve();
    await trying;
    const next = new Router(ctx);
    for (const { projectId } of suspected) next.wake(projectId);
    await settled(db);
    await next.stop();
  } finally {
    slow.resolve();
    await trying;
    await router.stop();
    await bench.close();
  }
});
