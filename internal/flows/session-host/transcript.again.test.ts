// A database that takes lines and is gone before it says so.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lease } from '../../adapters/store/sessions/hosts.ts';
import { createBench } from '../sessions/sessions-testkit.ts';
import { Mask } from './mask.ts';
import { Transcript } from './transcript.ts';

test('lines whose commit was not answered stand once, and so do those behind them', async () => {
  const bench = await createBench();
  const { db, ctx } = bench;
  try {
    const { rows } = await db.query<Lease>(
      `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at, active_at, state)
       select gen_random_uuid(), p.id, gen_random_uuid(), 'a', 1, 'manual', 't', now(), now(), 'running'
         from svc.projects p limit 1 returning id as "sessionId", epoch`,
    );
    const [lease] = rows;
    assert.ok(lease);
    let lost = 0;
    const query: typeof db.query = async (...of) => {
      const answer = await db.query(...of);
      if (of[2] !== 'append-transcript' || lost > 1) return answer as never;
      lost += 1;
      throw Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' });
    };
    const tx: typeof db.tx = (work, options) => db.tx(work, options);
    const away = { ...ctx, db: { query, tx } as unknown as typeof db };
    const transcript = new Transcript(away, lease, new Mask());
    await transcript.take({ kind: 'text', text: 'one' });
    await transcript.flush();
    await transcript.take({ kind: 'text', text: 'two' });
    await transcript.flush();
    await transcript.take({ kind: 'text', text: 'two' });
    await transcript.flush();
    assert.equal(lost, 2);
    const { rows: said } = await db.query<{ text: string }>('select text from svc.messages order by seq');
    assert.deepEqual(
      said.map(({ text }) => text),
      ['one', 'two', 'two'],
    );
  } finally {
    await bench.close();
  }
});
