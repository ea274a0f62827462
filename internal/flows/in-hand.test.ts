import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestDaemon } from '../base/testkit/daemon.ts';
import { landed } from './in-flight.ts';
import { processInHand, WorkGate } from './in-hand.ts';

test('of two that are tried alone one comes after the other, though the first takes so long that others are let in', async () => {
  const gate = new WorkGate(1);
  const first = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const seen: string[] = [];
  const slow = gate.alone(async () => {
    seen.push('slow begins');
    begun.resolve();
    await first.promise;
    seen.push('slow ends');
  });
  await begun.promise;
  const next = gate.alone(async () => {
    seen.push('next');
  });
  // What is not alone waits only so long.
  const leave = await gate.enter();
  seen.push('beside');
  leave();
  first.resolve();
  await Promise.all([slow, next]);
  assert.deepEqual(seen, ['slow begins', 'beside', 'slow ends', 'next']);
  await assert.rejects(
    gate.alone(() => Promise.reject(new Error('it failed'))),
    /it failed/,
  );
  assert.equal(await gate.alone(async () => 'after a failure'), 'after a failure');
});

test('what is parked is known as such before it is let go, so that an end in between leaves nothing that nobody is told of', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    const { db } = daemon.database;
    await db.query(`insert into svc.suspects (kind, id, ends) values ('notice', 'sick', 3)`);
    const notice = (park: () => Promise<void>) => ({
      kind: 'notice' as const,
      rows: ['sick'],
      idOf: (id: string) => id,
      nameOf: (id: string) => id,
      projectOf: () => '',
      tell: () => assert.fail('it is not told any more'),
      park,
    });
    await assert.rejects(
      processInHand(
        daemon.ctx,
        notice(() => Promise.reject(new Error('the end'))),
      ),
      /the end/,
    );
    const ends = await db.query<{ ends: number }>(`select ends from svc.suspects where id = 'sick'`);
    assert.deepEqual(ends.rows, [{ ends: 4 }]);
    let isParked = false;
    await processInHand(
      daemon.ctx,
      notice(async () => {
        isParked = true;
      }),
    );
    assert.ok(isParked);
  } finally {
    await daemon.stop();
  }
});

test('what is tried alone has a note of its own beside what is in flight still, and neither takes away the other', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const slow = Promise.withResolvers<void>();
  try {
    const { db } = daemon.database;
    await db.query(`insert into svc.suspects (kind, id, ends) values ('notice', 'sick', 2)`);
    const noted = async (): Promise<unknown> =>
      (await db.query('select ids, alone from svc.in_hand order by alone')).rows;
    let seen: unknown[] = [];
    await processInHand(daemon.ctx, {
      kind: 'notice',
      rows: ['slow', 'sick'],
      idOf: (id) => id,
      nameOf: (id) => id,
      projectOf: (id) => id,
      async tell(id) {
        if (id === 'slow') return slow.promise;
        const both = await noted();
        slow.resolve();
        await landed(daemon.ctx);
        seen = [both, await noted()];
      },
      park: () => assert.fail('it is tried'),
    });
    const alone = { ids: ['sick'], alone: true };
    assert.deepEqual(seen, [[{ ids: ['slow', 'sick'], alone: false }, alone], [alone]]);
    assert.deepEqual(await noted(), []);
  } finally {
    slow.resolve();
    await daemon.stop();
  }
});
