// Whom a project tells, changed by people.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionsMax } from '../../adapters/store/store.ts';
import { createBench } from '../sync/apply-testkit.ts';
import { addReceiver, changeReceiver } from './receivers.ts';

test('a receiver is changed while other calls have all connections that calls may have but one', async (t) => {
  const bench = await createBench();
  t.after(() => bench.close());
  const { orgId, projectId, db } = bench;
  await db.query(
    `insert into svc.connections (project_id, provider, product, name, status) values ($1::uuid, 'chat', 'slack', 'team', 'active')`,
    [projectId],
  );
  const ctx = { ...bench.ctx, db: db.calls };
  const project = { id: projectId, orgId, slug: 'p', orgSlug: 'o' };
  const actor = { kind: 'system', id: null, name: 'somebody' } as const;
  await addReceiver(ctx, project, actor, { name: 'room', kind: 'chat', connection: 'team', channel: 'C1' });
  const over = Promise.withResolvers<void>();
  const begun: Promise<void>[] = [];
  const others = Array.from({ length: connectionsMax.main - 2 }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    begun.push(promise);
    return ctx.db.tx(async (tx) => {
      await tx.query('select 1');
      resolve();
      await over.promise;
    });
  });
  await Promise.all(begun);
  try {
    const changed = await changeReceiver(ctx, project, actor, { name: 'room', channel: 'C2' });
    assert.equal(changed.channel, 'C2');
  } finally {
    over.resolve();
    await Promise.all(others);
  }
});
