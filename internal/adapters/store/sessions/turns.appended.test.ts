// Lines of a transcript whose commit was not answered are sent again, and stand once.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import type { Database } from '../store.ts';
import { putHold } from './holds.ts';
import type { Lease } from './hosts.ts';
import { appendTranscript, type TranscriptEntry } from './turns.ts';

let t: TestDatabase;
const projectId = randomUUID();
before(async () => {
  t = await createTestDatabase();
  await insertProject(t.db, projectId);
});
after(() => t.close());

async function held(): Promise<Lease> {
  const { rows } = await t.db.query<Lease>(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at, active_at, state, epoch)
     values (gen_random_uuid(), $1::uuid, gen_random_uuid(), 'a', 1, 'manual', 't', now(), now(), 'running', 3)
     returning id as "sessionId", epoch`,
    [projectId],
  );
  const [lease] = rows;
  assert.ok(lease);
  return lease;
}
const said = async ({ sessionId }: Lease): Promise<string[]> =>
  (
    await t.db.query<{ text: string }>('select text from svc.messages where session_id = $1::uuid order by seq', [
      sessionId,
    ])
  ).rows.map(({ text }) => text);
const now = new Date();
const lines = (...texts: string[]): TranscriptEntry[] =>
  texts.map((text) => ({ role: 'assistant', kind: 'text', text, at: now }));

test('what stands is not written again, and what is said again is', async () => {
  const lease = await held();
  const first = await appendTranscript(t.db, lease, lines('one', 'two'), { now });
  assert.equal(typeof first, 'number');
  await appendTranscript(t.db, lease, lines('one', 'two'), { now, againBehind: 0 });
  assert.deepEqual(await said(lease), ['one', 'two']);
  await appendTranscript(t.db, lease, lines('one'), { now });
  await appendTranscript(t.db, lease, lines('one', 'three'), { now, againBehind: first });
  assert.deepEqual(await said(lease), ['one', 'two', 'one']);
  await appendTranscript(t.db, lease, lines('four'), { now, againBehind: first });
  assert.deepEqual(await said(lease), ['one', 'two', 'one', 'four']);
  await appendTranscript(t.db, { ...lease, epoch: 4 }, lines('five'), { now, againBehind: first });
  assert.deepEqual(await said(lease), ['one', 'two', 'one', 'four']);
});

for (const isHeld of [false, true])
  test(`what was sent before and has not ended is waited for${isHeld ? ', with the cursor too' : ''}`, async () => {
    const lease = await held();
    const cursor = { out: 0, skip: 0, in: 0, unclean: false, turn: null, prompt: null, next: 0, active: false };
    const id = randomUUID();
    if (isHeld) await putHold(t.db, lease, { id, provider: 'docker', keyVersion: 1, sealed: Buffer.alloc(1), cursor });
    const write = isHeld ? { cursor: { ...cursor, out: 9 }, number: 1 } : undefined;
    let again: Promise<unknown> | undefined;
    await t.db.tx(async (tx) => {
      const within = { query: tx.query, tx: (act: (one: typeof tx) => unknown) => act(tx) } as unknown as Database;
      await appendTranscript(within, lease, lines('one'), { now, write });
      again = appendTranscript(t.db, lease, lines('one'), { now, write, againBehind: 0 });
      await Promise.race([again, sleep(300)]);
    });
    await again;
    assert.deepEqual(await said(lease), ['one']);
  });
