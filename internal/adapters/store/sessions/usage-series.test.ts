import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { createTestDatabase, insertProject } from '../../../base/testkit/postgres.ts';
import { agentSessions } from './usage-series.ts';

test('the sessions since a day are those since its midnight in UTC, whatever zone the database shows its times in', async () => {
  const { db, close } = await createTestDatabase();
  try {
    const projectId = randomUUID();
    await insertProject(db, projectId);
    for (const [agent, at] of Object.entries({ before: '2026-03-14T23:59:59Z', behind: '2026-03-15T00:00:00Z' }))
      await db.query(
        `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
         values ($1::uuid, $2::uuid, $3::uuid, $4::text, 1, 'manual', 'idle', 't', $5::timestamptz, now())`,
        [randomUUID(), projectId, randomUUID(), agent, at],
      );
    for (const zone of ['UTC', 'Asia/Kolkata', 'America/New_York']) {
      const rows = await db.tx(async (tx) => {
        await tx.query(`set local timezone = '${zone}'`);
        return agentSessions(tx, projectId, '2026-03-15');
      });
      assert.deepEqual(
        rows.map(({ agent }) => agent),
        ['behind'],
        zone,
      );
    }
  } finally {
    await close();
  }
});
