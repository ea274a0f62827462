// What ended the process in a launch or a turn, at the moment in which it is given up; with real ends in session-host.parking.crash.test.ts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { turnSuspect } from '../../adapters/store/operations/in-hand.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import { type ClaimedSession, claimedColumns } from '../../adapters/store/sessions/hosts.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents } from '../routing/routing-testkit.ts';
import { endSession } from '../sessions/sessions.ts';
import { gateOf } from '../in-hand.ts';
import { Parked, withLaunchInHand, withTurnInHand } from './in-hand.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

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

test('a turn that is tried alone is in hand no more once others are let in: what ends the process then is theirs', async () => {
  const { ctx } = daemon;
  const { db } = ctx;
  await applyAgents(daemon.api, { long: {} });
  const { body } = await daemon.api('POST', 'P/agents/long/sessions', { message: 'go' });
  const sessionId = String(body['id']);
  await db.query(`insert into svc.suspects (kind, id, ends) values ('session', $1::text, 2)`, [turnSuspect(sessionId)]);
  const { rows } = await db.query<ClaimedSession>(
    `select ${claimedColumns} from svc.sessions s where s.id = $1::uuid`,
    [sessionId],
  );
  const [claimed] = rows;
  assert.ok(claimed);
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const turn = withTurnInHand(ctx, claimed, () => {
    begun.resolve();
    return over.promise;
  });
  await begun.promise;
  const leave = await gateOf(ctx).enter();
  assert.equal((await db.query('select from svc.in_hand where alone')).rowCount, 0);
  leave();
  over.resolve();
  await turn;
});
