import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { listEvents } from './event-reads.ts';
import { recordEvents } from './events.ts';

let t: TestDatabase;
const projectId = randomUUID();
before(async () => {
  t = await createTestDatabase();
  await insertProject(t.db, projectId);
});
after(() => t.close());

it('a page ends early where very much was decided on its events, and the pages together have all of them', async () => {
  const ids = Array.from({ length: 12 }, () => randomUUID());
  const received = { projectId, key: 'webhook.received', dedupHash: null, raw: Buffer.from('{}'), payload: null };
  const events = ids.map((id) => ({ ...received, id, receivedAt: new Date('2030-01-01T00:00:00Z') }));
  await recordEvents(t.db, events, { routing: false });
  // Each by 300 triggers, of 200 sessions each; the oldest by more than a page holds.
  await t.db.query(
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
       select id, '00000000-0000-7000-8000-000000000001', n, 'a', 'deliver', array_fill(id, array[200])
         from unnest($1::uuid[]) with ordinality u (id, at), generate_series(1, case when at = 1 then 900 else 300 end) n`,
    [ids],
  );
  const seen: string[] = [];
  const sizes: number[] = [];
  for (let before: number | undefined; ; ) {
    const { rows, lookedTo } = await listEvents(t.db, projectId, { payloadMax: 1_000, limit: 10, before });
    seen.push(...rows.map((row) => row.id));
    sizes.push(JSON.stringify(rows.map((row) => row.routes)).length);
    before = lookedTo ?? (rows.length === 10 ? rows.at(-1)?.seq : undefined);
    if (before === undefined || rows.length === 0) break;
  }
  assert.deepEqual(seen, ids.toReversed());
  assert.ok(sizes.length > 4 && Math.max(...sizes) < 12_000_000, sizes.join());
});
