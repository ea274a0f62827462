// A database that takes lines and is gone before it says so.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lease } from '../../adapters/store/sessions/hosts.ts';
import { type Database, databaseUnavailable } from '../../adapters/store/store.ts';
import { createBench } from '../sessions/sessions-testkit.ts';
import { Mask } from './mask.ts';
import { Transcript } from './transcript.ts';

async function addSession(db: Database): Promise<Lease> {
  const { rows } = await db.query<Lease>(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at, active_at, state)
     select gen_random_uuid(), p.id, gen_random_uuid(), 'a', 1, 'manual', 't', now(), now(), 'running'
       from svc.projects p limit 1 returning id as "sessionId", epoch`,
  );
  return rows[0] ?? assert.fail('no session');
}

async function saidIn(db: Database): Promise<string[]> {
  const { rows } = await db.query<{ text: string }>('select text from svc.messages order by seq');
  return rows.map(({ text }) => text);
}

test('lines whose commit was not answered stand once, and so do those behind them', async () => {
  const bench = await createBench();
  const { db, ctx } = bench;
  try {
    const lease = await addSession(db);
    let lost = 0;
    const query: typeof db.query = async (...of) => {
      const answer = await db.query(...of);
      if (of[2] !== 'append-transcript' || lost > 1) return answer as never;
      lost += 1;
      throw Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' });
    };
    const tx: typeof db.tx = (work, options) => db.tx(work, options);
    const away = { ...ctx, db: { query, tx } as unknown as typeof db };
    const transcript = new Transcript(away, lease, new Mask(), new AbortController().signal);
    await transcript.take({ kind: 'text', text: 'one' });
    await transcript.flush();
    await transcript.take({ kind: 'text', text: 'two' });
    await transcript.flush();
    await transcript.take({ kind: 'text', text: 'two' });
    await transcript.flush();
    assert.equal(lost, 2);
    assert.deepEqual(await saidIn(db), ['one', 'two', 'two']);
  } finally {
    await bench.close();
  }
});

test('lines wait for a database whose disk is full for as long as their session is their host’s, and no longer', async (t) => {
  const bench = await createBench();
  const { db, ctx } = bench;
  const [now, steady] = [performance.now.bind(performance), { aheadMs: 0 }];
  t.mock.method(performance, 'now', () => now() + steady.aheadMs);
  try {
    let tries = 0;
    const leaving = new AbortController();
    const meetsFull = (): void => {
      tries += 1;
      // Each try is half a minute behind the one before.
      steady.aheadMs += 30_000;
      if (tries < 3 || leaving.signal.aborted) throw databaseUnavailable(undefined, 'takes no writes');
    };
    const query: typeof db.query = async (...of) => {
      if (of[2] === 'append-transcript') meetsFull();
      return db.query(...of) as never;
    };
    const tx: typeof db.tx = async (work, options) => {
      meetsFull();
      return db.tx(work, options);
    };
    const full = { ...ctx, db: { query, tx } as unknown as typeof db };
    const transcript = new Transcript(full, await addSession(db), new Mask(), leaving.signal);
    await transcript.take({ kind: 'text', text: 'one' });
    const flushed = transcript.flush();
    await transcript.take({ kind: 'text', text: 'two' });
    await flushed;
    await transcript.flush();
    assert.deepEqual([await saidIn(db), tries], [['one', 'two'], 4]);
    leaving.abort();
    await transcript.take({ kind: 'text', text: 'three' });
    await assert.rejects(transcript.flush(), { code: 'unavailable' });
  } finally {
    await bench.close();
  }
});
