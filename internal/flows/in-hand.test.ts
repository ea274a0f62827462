import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { turnSuspect } from '../adapters/store/operations/in-hand.ts';
import { inProject } from '../adapters/store/routing/project-lock.ts';
import { type ClaimedSession, claimedColumns } from '../adapters/store/sessions/hosts.ts';
import { startTestDaemon, type TestDaemon } from '../base/testkit/daemon.ts';
import { processInHand, WorkGate } from './in-hand.ts';
import { applyAgents } from './routing/routing-testkit.ts';
import { Parked, withLaunchInHand, withTurnInHand } from './session-host/in-hand.ts';
import { endSession } from './sessions/sessions.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

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
  const { db } = daemon.database;
  await db.query(`insert into svc.suspects (kind, id, ends) values ('notice', 'sick', 3)`);
  const notice = (park: () => Promise<void>) => ({
    kind: 'notice' as const,
    rows: ['sick'],
    idOf: (id: string) => id,
    nameOf: (id: string) => id,
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
});

test('what is parked is known as such until its session has failed, so that an end in between begins nothing anew', async () => {
  const { ctx } = daemon;
  const { db } = ctx;
  await applyAgents(daemon.api, { sick: {} });
  const { body } = await daemon.api('POST', 'P/agents/sick/sessions', { message: 'go' });
  const sessionId = String(body['id']);
  const ids = [sessionId, turnSuspect(sessionId)];
  await db.query(`insert into svc.suspects (kind, id, ends) select 'session', unnest($1::text[]), 3`, [ids]);
  const suspects = async (): Promise<number> =>
    (await db.query('select from svc.suspects where id = any($1::text[])', [ids])).rowCount;
  const { rows } = await db.query<ClaimedSession>(
    `select ${claimedColumns} from svc.sessions s where s.id = $1::uuid`,
    [sessionId],
  );
  const [claimed] = rows;
  assert.ok(claimed);
  const never = () => assert.fail('it is not tried any more');
  // Each time that a daemon comes to it, however often one ended before the session was failed.
  for (const _ of [1, 2]) {
    await assert.rejects(withLaunchInHand(ctx, claimed, never), Parked);
    assert.deepEqual(await withTurnInHand(ctx, claimed, never), { kind: 'failed', reason: 'ended-the-process' });
    assert.equal(await suspects(), 2);
  }
  await inProject(db, claimed.projectId, (tx) => endSession(ctx, tx, sessionId, 'failed', 'ended-the-process'));
  assert.equal(await suspects(), 0);
});
