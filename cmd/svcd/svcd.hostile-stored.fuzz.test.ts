// The same bounds as in svcd.hostile.fuzz.test.ts for what one project has stored: notes on bindings, and messages that wait, as
// large and as many as their doors take in one by one. Here they are read, told and passed on all at once.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { howMany } from '../../internal/base/testkit/long.ts';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { applyAgents, hook, post, settled } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf, most } from './hostile-bounds-testkit.ts';
import { filled } from './hostile-testkit.ts';

let daemon: MeasuredDaemon;
before(async () => {
  // Sessions wait, with all that they hold.
  const nowhere = JSON.stringify(['/nowhere/harness']);
  daemon = await startMeasuredDaemon({ SVC_LOG_LEVEL: 'warn', SVC_HARNESS_A_COMMAND: nowhere });
});
after(() => daemon.stop());
const { isBounded } = boundsOf(() => daemon);

/** Once: what it changes is changed by then. */
async function isWithin(what: string, act: () => Promise<void>): Promise<void> {
  const { grownMb, busyMs } = await daemon.costOf(act);
  if (process.env['SVC_COSTS'] !== undefined) process.stderr.write(`${what}: +${grownMb} MB, ${busyMs} ms\n`);
  assert.ok(grownMb <= most.grownMb, `${what}: grew by ${grownMb} MB`);
}
async function started(agent: string): Promise<string> {
  const { status, body } = await daemon.api('POST', `P/agents/${agent}/sessions`, { message: 'go' });
  assert.equal(status, 201, JSON.stringify(body));
  return String(body['id']);
}
const sql = async <R>(text: string, ...values: unknown[]): Promise<R[]> =>
  (await daemon.database.db.query<R>(text, values)).rows;

it('an agent with large notes is explained, however many triggers it has', async () => {
  const triggers = Array.from({ length: 400 }, () => hook('noted', { kind: 'deliver', onUnmatched: 'drop' }));
  const bindings = { 'codehost.pull_request': { context: { notes: filled('n', 900_000) } } };
  await applyAgents(daemon.api, { noted: { concurrency: 1, bindings, triggers } });
  await isBounded('notes × triggers, explained', async () => {
    const asked = { event: 'webhook.received', endpoint: 'noted', payload: {} };
    const { status, body } = await daemon.api('POST', 'P/triggers/explain', asked);
    assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
    assert.equal((body['triggers'] as unknown as object[]).length, 400);
  });
});

describe('a session with hundreds of bindings, each with large notes', () => {
  const many = howMany(600, 3_000);
  let session = '';
  before(async () => {
    await applyAgents(daemon.api, { holder: {} });
    session = await started('holder');
    await sql(
      `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity,
           context, event_context, created_at, updated_at)
       select gen_random_uuid(), s.project_id, s.agent_id, s.agent, s.id, 'codehost.pull_request', 'o/r#' || n, 'active', 'manual',
           'session', notes, jsonb_build_object('unbound', notes), now(), now()
         from svc.sessions s, generate_series(1, $2::int) n, jsonb_build_object('notes', repeat('n', 65000)) notes
        where s.id = $1::uuid`,
      session,
      many,
    );
  });

  it('is shown with some of them', () =>
    isBounded('bindings, shown', async () => {
      const { status, body } = await daemon.api('GET', `P/sessions/${session}`);
      assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
      const { length } = body['bindings'] as unknown as object[];
      assert.ok(length > 10 && length < 100 && (body['moreBindings'] as unknown) === true, `${length}`);
    }));

  it('is ended with all', async () => {
    await isWithin('bindings, released', async () => {
      const { status, body } = await daemon.api('POST', `P/sessions/${session}/archive`, {});
      assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
    });
    await isWithin('bindings, told', () => settled(daemon.database.db));
    const told = `select state as what, count(*)::int from svc.bindings where session_id = $1::uuid group by state
      union all select key, count(*)::int from svc.events where target_key = $2::text group by key`;
    assert.deepEqual(await sql(told, session, session), [
      { what: 'released', count: many },
      { what: 'svc.session.binding.unbound', count: many },
    ]);
  });
});

describe('hundreds of claims with large notes that wait for whoever takes a slot', () => {
  const many = howMany(600, 3_000);

  it('pass to the session that an event starts', async () => {
    const triggers = [hook('fill', { kind: 'deliver', onUnmatched: 'spawn' })];
    const path = (await applyAgents(daemon.api, { filler: { concurrency: 1, replace: 'auto', triggers } }))['fill'];
    const failed = await started('filler');
    // As its end leaves it; the platform fills its slot again, but not now.
    await sql(
      `with ended as (
         update svc.sessions set state = 'failed', ended_at = now() + interval '1 hour' where id = $1::uuid returning *
       ), claims as (delete from svc.session_claims where session_id in (select id from ended))
       insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, state, lifecycle, continuity,
           context, event_context, created_at, updated_at)
       select gen_random_uuid(), s.project_id, s.agent_id, s.agent, null, 'codehost.pull_request', 'o/f#' || n, 'active', 'manual',
           'agent', notes, jsonb_build_object('updated', notes), now(), now()
         from ended s, generate_series(1, $2::int) n, jsonb_build_object('notes', repeat('n', 65000)) notes`,
      failed,
      many,
    );
    await isWithin('claims, to an heir', async () => {
      await post(daemon.url, path ?? '', { a: 1 });
      await settled(daemon.database.db);
    });
    const [heir] = await sql<{ id: string }>(`select id from svc.sessions where agent = 'filler' and live`);
    const told = `select session_id::text as what, count(*)::int from svc.bindings where agent = 'filler' and state = 'active' group by 1
      union all select key, count(*)::int from svc.events where target_key = $1::text group by key`;
    assert.deepEqual(await sql(told, heir?.id), [
      { what: heir?.id, count: many },
      { what: 'svc.session.binding.updated', count: many },
    ]);
  });
});

describe('messages by the hundred megabytes', () => {
  const all = Array.from({ length: 300 }, (_, at) => at + 1);
  const spec = (initialPrompt: string): object => ({
    ...{ concurrency: 1, replace: 'auto', initialPrompt },
    triggers: [hook('told', { kind: 'deliver', onUnmatched: 'spawn' }, { message: '{{a}}' })],
  });
  let path = '';
  const newest = async (): Promise<string | undefined> =>
    (await sql<{ id: string }>(`select id from svc.sessions where agent = 'told' order by id desc limit 1`))[0]?.id;
  /** Their numbers, as the session was told them. */
  const heard = async (session: string): Promise<number[]> => {
    const rows = await sql<{ n: number }>(
      `select (m.detail ->> 'n')::int as n from svc.inbox i join svc.messages m using (session_id, seq)
        where i.session_id = $1::uuid and i.state = 'pending' and m.detail ->> 'n' is not null
          and octet_length(m.text) = 1000000 order by seq`,
      session,
    );
    return rows.map((row) => row.n);
  };
  const anotherThan = async (before: string): Promise<string> => {
    for (;;) {
      const id = await newest();
      if (id !== undefined && id !== before) return id;
      await sleep(50);
    }
  };

  before(async () => {
    path = (await applyAgents(daemon.api, { told: spec('first') }))['told'] ?? '';
    await post(daemon.url, path, { a: 'the first' });
    await settled(daemon.database.db);
    await sql(
      `with said as (
         insert into svc.messages (session_id, role, kind, text, detail, at)
           select s.id, 'user', 'prompt', repeat('z', 1000000), jsonb_build_object('sender', 'event', 'n', n), now()
             from svc.sessions s, generate_series(1, $1::int) n where s.agent = 'told' returning session_id, seq)
       insert into svc.inbox (session_id, seq, mode, sender) select session_id, seq, 'interrupt', 'event' from said`,
      all.length,
    );
  });

  it('pass to a successor', async () => {
    const before = (await newest()) ?? '';
    await isWithin('messages, to a successor', async () => {
      await applyAgents(daemon.api, { told: spec('second') });
      assert.deepEqual(await heard(await anotherThan(before)), all);
    });
  });

  it('pass to whoever takes the slot of one that failed', async () => {
    const before = (await newest()) ?? '';
    // As its end leaves it; the platform fills its slot again, but not now.
    await sql(
      `with ended as (
         update svc.sessions set state = 'failed', ended_at = now() + interval '1 hour' where id = $1::uuid returning id
       ), claims as (delete from svc.session_claims where session_id in (select id from ended))
       update svc.inbox set state = 'failed' where state = 'pending' and session_id in (select id from ended)`,
      before,
    );
    await isWithin('messages, to an heir', async () => {
      await post(daemon.url, path, { a: 'the last' });
      await settled(daemon.database.db);
    });
    assert.deepEqual(await heard(await anotherThan(before)), all);
  });
});
