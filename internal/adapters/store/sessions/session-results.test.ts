import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { diffsOf } from './session-results.ts';

let t: TestDatabase;
before(async () => {
  t = await createTestDatabase();
});
after(() => t.close());

it('of very many clones that all differ a bounded number is told, and of the others that they do', async () => {
  const [projectId, agentId, id] = [randomUUID(), randomUUID(), randomUUID()];
  await insertProject(t.db, projectId);
  await t.db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, state, origin, display_title, created_at, active_at)
     values ($1::uuid, $2::uuid, $3::uuid, 'a', 1, 'idle', 'manual', 't', now(), now())`,
    [id, projectId, agentId],
  );
  await t.db.query(
    `insert into svc.session_diffs (session_id, mount_path, repository, commit, diff, truncated, taken_at)
     select $1::uuid, '/m' || to_char(n, 'FM000'), 'r', 'c', repeat('+', 1048576), false, now() from generate_series(1, 40) n`,
    [id],
  );
  const found = await diffsOf(t.db, id);
  assert.equal(found.length, 40);
  assert.deepEqual(
    found.filter(({ diff }) => diff !== '').map(({ mountPath, truncated }) => [mountPath, truncated]),
    Array.from({ length: 16 }, (_, at) => [`/m${String(at + 1).padStart(3, '0')}`, false]),
  );
  assert.ok(found.slice(16).every(({ truncated }) => truncated));
});
