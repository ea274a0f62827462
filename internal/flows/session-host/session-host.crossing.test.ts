// What a host writes of a session while others change it, and has not committed when they begin to look: they wait for the row of
// the session, and see all of what was written. The host is played here.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type Lease, moveSession } from '../../adapters/store/sessions/hosts.ts';
import { askPermission } from '../../adapters/store/sessions/permissions.ts';
import { claimSessions } from '../../adapters/store/sessions/places.ts';
import { beginTurn } from '../../adapters/store/sessions/turns.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents } from '../routing/routing-testkit.ts';
import { eventually } from './host-crash-testkit.ts';
import { upkeepTurn } from './session-host.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

/** A session between two turns, at a host. */
async function hosted(agent: string): Promise<Lease> {
  const { status, body } = await daemon.api('POST', `P/agents/${agent}/sessions`, { message: 'Begin' });
  assert.equal(status, 201, JSON.stringify(body));
  const { db } = daemon.ctx;
  const asks = {
    daemonId: randomUUID(),
    harnesses: ['harness-a'],
    home: `${randomUUID()} /here`,
    limit: 1,
    now: new Date(),
  } as const;
  const [lease] = await claimSessions(db, asks);
  assert.equal(lease?.sessionId, body['id']);
  assert.ok(lease !== undefined && (await moveSession(db, lease, ['provisioning'], 'idle')));
  return lease;
}

async function begin(sql: Sql, lease: Lease): Promise<void> {
  const { rows } = await daemon.ctx.db.query<{ seq: number }>('select seq from svc.inbox where session_id = $1::uuid', [
    lease.sessionId,
  ]);
  const turn = { id: randomUUID(), seqs: rows.map(({ seq }) => seq), now: new Date() };
  assert.equal(await beginTurn(sql, lease, turn), 1);
}

/** `act`, which begins when `write` is written and not committed, and meets its commit while it waits for it. */
async function meets<T>(write: (sql: Sql) => Promise<unknown>, act: () => Promise<T>): Promise<T> {
  const { db } = daemon.ctx;
  let acting: Promise<T> | undefined;
  await db.tx(async (tx) => {
    await write(tx);
    acting = act();
    await eventually('it waits', async () => {
      const { rows } = await db.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    });
  });
  assert.ok(acting !== undefined);
  return acting;
}

const view = async ({ sessionId }: Lease) => (await daemon.api('GET', `P/sessions/${sessionId}`)).body;
const archive = ({ sessionId }: Lease) => daemon.api('POST', `P/sessions/${sessionId}/archive`);

test('a session that is archived as its turn begins leaves no turn that runs', async () => {
  await applyAgents(daemon.api, { plain: {} });
  const lease = await hosted('plain');
  assert.equal(
    (
      await meets(
        (sql) => begin(sql, lease),
        () => archive(lease),
      )
    ).status,
    200,
  );
  const { state, lastTurn, inbox } = await view(lease);
  assert.deepEqual([state, lastTurn?.['state'], inbox?.['failed']], ['archived', 'cancelled', 1]);
});

test('nor one that is archived as its harness asks a question which nobody could answer', async () => {
  await applyAgents(daemon.api, { plain: {} });
  const lease = await hosted('plain');
  await begin(daemon.ctx.db, lease);
  const ask = { id: randomUUID(), title: 'May I?', request: {}, now: new Date() };
  assert.equal(
    (
      await meets(
        (sql) => askPermission(sql, lease, ask),
        () => archive(lease),
      )
    ).status,
    200,
  );
  const { state, permissions } = await view(lease);
  assert.deepEqual([state, permissions], ['archived', []]);
  const answer = await daemon.api('POST', `P/sessions/${lease.sessionId}/permissions/${ask.id}`, { decision: 'allow' });
  assert.equal(answer.status, 409);
});

test('a stale session is not replaced as its turn begins', async () => {
  const keeper = (systemPrompt: string) => ({ keeper: { concurrency: 1, replace: 'auto', systemPrompt } });
  await applyAgents(daemon.api, keeper('As ever.'));
  const lease = await hosted('keeper');
  await applyAgents(daemon.api, keeper('Anew.'));
  await meets(
    (sql) => begin(sql, lease),
    () => upkeepTurn(daemon.ctx),
  );
  const { state, lastTurn, inbox } = await view(lease);
  assert.deepEqual([state, lastTurn?.['state'], inbox?.['inFlight']], ['running', 'running', 1]);
});
