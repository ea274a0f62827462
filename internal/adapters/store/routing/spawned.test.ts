import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { lockRouting } from './routing-lock.ts';
import { insertSpawned, type SpawnedInsert } from './spawned.ts';

describe('sessions that routing makes', () => {
  let t: TestDatabase;
  const projectId = randomUUID();
  const now = new Date('2030-01-01T00:00:00Z');
  // Whatever a list of texts is written with: it has to come out as it is.
  const names = ['plain', 'null', 'NULL', 'a"b\\c', 'x,y{z}', ' spaced ', 'é', ''];
  const agents = names.map((name) => ({ id: randomUUID(), name }));
  before(async () => {
    t = await createTestDatabase();
    await insertProject(t.db, projectId);
  });
  after(() => t.close());

  const spawned = (at: number, more: Partial<SpawnedInsert> = {}): SpawnedInsert => {
    const agent = agents[at % agents.length] ?? { id: '', name: '' };
    return {
      id: `00000000-0000-7000-8000-${String(at).padStart(12, '0')}`,
      projectId,
      agentId: agent.id,
      agent: agent.name,
      revision: 1 + (at % 3),
      eventId: randomUUID(),
      eventKey: 'webhook.received',
      ordinal: at % 5,
      decision: 'spawn',
      because: null,
      severity: null,
      displayTitle: `title ${at % 4}`,
      hiddenContext: null,
      mountRefs: {},
      slot: false,
      thread: null,
      text: `text ${at % 2}`,
      mode: 'defer',
      ...more,
    };
  };
  const insert = (rows: readonly SpawnedInsert[]) =>
    t.db.tx(async (sql) => insertSpawned(await lockRouting(sql, projectId), rows, now));

  it('come out as they went in, however their kinds and agents are mixed', async () => {
    // More kinds than are remembered, in turns, so that one that was forgotten comes again.
    const rows = Array.from({ length: 120 }, (_, at) => {
      const n = at % 13;
      return spawned(at, {
        eventKey: n === 1 ? 'webhook.other' : 'webhook.received',
        because: n === 2 ? 'says "why", {so}' : null,
        severity: n === 3 ? 'warning' : null,
        decision: n === 5 ? 'bind-spawned' : 'spawn',
        mountRefs: n === 6 || n === 7 ? { '/work': `ref-${n}` } : {},
        mode: n === 8 ? 'interrupt' : 'defer',
        thread: n === 9 ? `thread ${at}` : null,
        displayTitle: n === 10 ? 'a\0b' : `title ${n}`,
        text: n === 11 ? 'größer, "quoted" \\ {1}' : `text ${at % 2}`,
        hiddenContext: n === 12 ? `of ${at}` : null,
      });
    });
    await insert(rows);
    const stored = await t.db.query<Record<string, unknown>>(
      `select s.id, s.project_id as "projectId", s.agent_id as "agentId", s.agent, s.revision, s.event_id as "eventId", s.ordinal, s.display_title as
              "displayTitle", s.hidden_context as "hiddenContext", s.mount_refs as "mountRefs", m.text,
              m.detail ->> 'event' as "eventKey", i.mode, r.decision, r.because, r.severity, r.agent as "routeAgent",
              r.ordinal as "routeOrdinal", r.agent_id as "routeAgentId", r.session_ids as "sessionIds",
              i.agent_id as "inboxAgentId", i.ordinal as "inboxOrdinal", i.starts,
              (select c.key from svc.session_claims c where c.session_id = s.id) as thread
         from svc.sessions s join svc.messages m on m.session_id = s.id
         join svc.inbox i on i.session_id = s.id and i.seq = m.seq join svc.event_routes r on r.event_id = s.event_id
        order by m.seq`,
    );
    assert.deepEqual(
      stored.rows,
      rows.map(({ slot: _slot, displayTitle, ...row }) => ({
        ...row,
        displayTitle: displayTitle.replace('\0', '\uFFFD'),
        routeAgent: row.agent,
        routeOrdinal: row.ordinal,
        routeAgentId: row.agentId,
        sessionIds: [row.id],
        inboxAgentId: row.agentId,
        inboxOrdinal: row.ordinal,
        starts: true,
      })),
    );
  });

  it('all of them or none: a claim that stands turns the whole batch back', async () => {
    await insert([spawned(1_000, { slot: true })]);
    const rows = [spawned(1_001), spawned(1_000 + agents.length, { slot: true }), spawned(1_003)];
    await assert.rejects(insert(rows), { code: '23505' });
    const { rows: there } = await t.db.query('select from svc.sessions where id = any($1::uuid[])', [
      rows.map((one) => one.id),
    ]);
    assert.equal(there.length, 0);
  });
});
