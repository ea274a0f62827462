import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { recordEvents } from '../../../adapters/store/events/events.ts';
import { agentsTree, hook, onEvent } from '../../../flows/sync/apply-testkit.ts';
import type { IngestPorts } from '../../../flows/ports.ts';
import { startServer, type Server } from './testkit.ts';

let server: Server;
let endpointId: string;
const auth = { kind: 'none' };
before(async () => {
  // Of the ports of intake a replay reads only whether anybody routes.
  server = await startServer({ ingest: { routing: true } as unknown as IngestPorts });
  const { bench } = server;
  await bench.apply(
    agentsTree({
      triage: {
        triggers: [
          hook('in', { auth, where: { severity: 'high' } }),
          hook('in', { fallback: true }),
          hook('other', { auth }),
          onEvent('svc.session.binding.bound', { where: { '$.svc.attributions': { exists: true } } }),
        ],
      },
    }),
  );
  const { rows } = await bench.db.query<{ id: string }>(`select id from svc.endpoints where name = 'in'`);
  endpointId = rows[0]?.id ?? '';
});
after(() => server.stop());

interface Made {
  readonly key?: string;
  readonly body?: string;
  readonly payload?: string;
  readonly endpoint?: boolean;
  readonly target?: { readonly type: string; readonly key: string };
}
let clock = 0;
async function record({ key = 'webhook.received', body = '{}', payload, endpoint = true, target }: Made = {}) {
  const id = randomUUID();
  await recordEvents(
    server.bench.db,
    [
      {
        id,
        projectId: server.bench.projectId,
        key,
        dedupHash: null,
        raw: Buffer.from(body),
        payload: payload ?? null,
        receivedAt: new Date(Date.UTC(2026, 10, 21, 12, 0, clock++)),
        ...(endpoint && { endpointId }),
        ...(target && { target }),
      },
    ],
    { routing: false },
  );
  return id;
}

async function decide(eventId: string, ordinal: number, decision: string, sessionIds: readonly string[] = []) {
  await server.bench.db.query(
    `insert into svc.event_routes (event_id, agent_id, ordinal, agent, decision, session_ids)
     select $1::uuid, id, $2::int, name, $3::text, $4::uuid[] from svc.agents where name = 'triage'`,
    [eventId, ordinal, decision, sessionIds],
  );
}

type Body = Record<string, unknown> & { items: Body[]; triggers: Body[]; routes: Body[] };
async function call(method: string, path: string, as?: 'viewer'): Promise<{ status: number; body: Body }> {
  const { status, body } = await server.call(method, path, undefined, as);
  return { status, body: body as Body };
}

test('a page carries small payloads and the decisions, and leaves a large payload to the event itself', async () => {
  const big = JSON.stringify({ text: 'x'.repeat(20_000) });
  const large = await record({ body: big });
  const small = await record({ body: '{"n":9007199254740993}' });
  const session = randomUUID();
  const other = randomUUID();
  await decide(small, 0, 'spawn', [session]);
  await decide(small, 1, 'deliver', [session, other]);
  const { body } = await call('GET', 'events?limit=2', 'viewer');
  const [first, second] = body.items;
  assert.equal(first?.['id'], small);
  assert.deepEqual(first?.routes, [
    { agent: 'triage', ordinal: 0, decision: 'spawn', sessionId: session },
    { agent: 'triage', ordinal: 1, decision: 'deliver', sessionId: session, sessionIds: [session, other] },
  ]);
  assert.ok('payload' in (first ?? {}) && !('payloadTruncated' in (first ?? {})));
  assert.equal(second?.['id'], large);
  assert.equal(second?.['payloadTruncated'], true);
  assert.ok(!('payload' in (second ?? {})));
  const whole = await call('GET', `events/${large}`, 'viewer');
  assert.deepEqual(whole.body['payload'], JSON.parse(big));
});

test('events of a key are listed under either of its spellings', async () => {
  const id = await record({ key: 'codehost.review.submitted', payload: '{}', endpoint: false });
  await record({ key: 'codehost.review.dismissed', payload: '{}', endpoint: false });
  for (const key of ['codehost.review.submitted', 'codehost.pull_request_review.submitted']) {
    const { body } = await call('GET', `events?key=${key}`);
    assert.deepEqual(
      body.items.map((one) => one['id']),
      [id],
      key,
    );
  }
});

test('who an event was attributed to stands in its payload, where a trigger reads it', async () => {
  const target = { type: 'svc.session', key: 's' };
  const payload = '{"binding":{"id":"b"},"svc":{"authored":true}}';
  const id = await record({ key: 'svc.session.binding.bound', payload, endpoint: false, target });
  const attributions = [{ sessionId: randomUUID(), agent: 'triage', relation: 'created' }];
  await server.bench.db.query(
    `update svc.events set attributions = $2::jsonb, router_status = 'routed' where id = $1::uuid`,
    [id, JSON.stringify(attributions)],
  );
  const { body } = await call('GET', `events/${id}`);
  assert.deepEqual(body['payload'], { binding: { id: 'b' }, svc: { authored: true, attributions }, raw: {} });
  const told = await call('GET', `events/${id}/explain`);
  assert.deepEqual(
    told.body.triggers.map(({ ordinal, matched }) => [ordinal, matched]),
    [[3, true]],
  );
});

test('an explanation keeps to the endpoint and tells the recorded decision, or what would follow now', async () => {
  const id = await record({ body: '{"severity":"low"}' });
  const fresh = await call('GET', `events/${id}/explain`, 'viewer');
  assert.equal(fresh.status, 200);
  const clause = { path: 'severity', clause: 'high', value: 'low', matched: false };
  const at = { agent: 'triage', recorded: false };
  assert.deepEqual(fresh.body.triggers, [
    { ...at, ordinal: 0, matched: false, clauses: [clause], fallback: false, decision: null },
    { ...at, ordinal: 1, matched: true, clauses: [], fallback: true, decision: 'spawn' },
  ]);
  const session = randomUUID();
  await decide(id, 1, 'converted', [session]);
  const later = await call('GET', `events/${id}/explain`);
  assert.deepEqual(later.body.triggers[1], {
    ...fresh.body.triggers[1],
    decision: 'converted',
    recorded: true,
    sessionId: session,
  });
});

test('what was not routed yet is told as it would go now, with the sessions that are there', async () => {
  const { bench } = server;
  const target = { type: 'codehost.pull_request', key: 'o/r#5' };
  const payload = '{"binding":{"target":{"type":"codehost.pull_request","key":"o/r#5"}}}';
  const session = randomUUID();
  await bench.apply(
    agentsTree({
      holder: {
        concurrency: 1,
        triggers: [
          onEvent('svc.session.binding.updated', { routing: { kind: 'deliver', onUnmatched: 'warn' } }),
          onEvent('svc.session.binding.updated', { where: { '$.svc.attributions': { exists: true } } }),
        ],
      },
    }),
    { prune: false },
  );
  const id = await record({ key: 'svc.session.binding.updated', payload, endpoint: false, target });
  const told = async () => {
    const { triggers } = (await call('GET', `events/${id}/explain`)).body;
    return triggers.map((one) => [one['matched'], one['decision']]);
  };
  assert.deepEqual(await told(), [
    [true, 'unmatched-warn'],
    [false, null],
  ]);
  await bench.db.query(
    `with made as (insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, display_title, created_at,
         active_at) select $1::uuid, project_id, id, name, 1, 'manual', 't', now(), now() from svc.agents
         where name = 'holder' returning id, agent_id, project_id),
       slot as (insert into svc.session_claims select agent_id, 'slot', '', id from made)
     insert into svc.session_ties select project_id, $2::text, $3::text, id, 'holder', 'created', now() from made`,
    [session, target.type, target.key],
  );
  assert.deepEqual(await told(), [
    [true, 'deliver'],
    [true, 'converted'],
  ]);
});

test('a replay is a new event of the same bytes, asked to be routed, and the audit names who did it', async () => {
  const body = '{"dedupKey":"d","big":9007199254740993}';
  const target = { type: 'codehost.issue', key: 'o/r#1' };
  const id = await record({ body, target });
  const first = await call('POST', `events/${id}/replay`);
  assert.equal(first.status, 202);
  const made = String(first.body['eventRecordId']);
  assert.notEqual(made, id);
  assert.deepEqual(first.body, { eventRecordId: made, created: true, routerStatus: 'pending', replayOf: id });
  const second = await call('POST', `events/${id}/replay`);
  assert.notEqual(second.body['eventRecordId'], made, 'no deduplication');
  const { db } = server.bench;
  const { rows } = await db.query<Record<string, unknown>>(
    `select convert_from(b.raw, 'UTF8') as raw, e.endpoint_id as endpoint, e.target_key as target,
            exists (select from graphile_worker._private_jobs j
                     where j.payload::jsonb -> 'projects' = jsonb_build_array(e.project_id)) as asked,
            exists (select from svc.audit a where a.action = 'event.replayed' and a.subject_name = $2::text
                       and a.principal_name = 'admin' and a.detail ->> 'eventRecordId' = e.id::text) as audited
       from svc.events e join svc.event_bodies b on b.event_id = e.id where e.id = $1::uuid`,
    [made, id],
  );
  assert.deepEqual(rows, [{ raw: body, endpoint: endpointId, target: 'o/r#1', asked: true, audited: true }]);
  assert.equal((await call('GET', `events/${made}`)).body['replayOf'], id);
});

test('who may only look cannot replay, and what is not there is answered alike', async () => {
  const id = await record();
  assert.equal((await call('POST', `events/${id}/replay`, 'viewer')).status, 403);
  for (const absent of [randomUUID(), 'x', `${id}0`]) {
    for (const path of [`events/${absent}`, `events/${absent}/explain`]) {
      const { status, body } = await call('GET', path);
      assert.deepEqual([status, body['code']], [404, 'event-not-found']);
    }
    assert.equal((await call('POST', `events/${absent}/replay`)).status, 404);
  }
});

test('an event whose body retention has taken is still told of, and is not replayed', async () => {
  const id = await record();
  await server.bench.db.query('delete from svc.event_bodies where event_id = $1::uuid', [id]);
  const { status, body } = await call('GET', `events/${id}`);
  assert.equal(status, 200);
  assert.equal(body['id'], id);
  assert.equal(body['payload'], null);
  const again = await call('POST', `events/${id}/replay`);
  assert.deepEqual([again.status, again.body['code']], [409, 'event-body-gone']);
});

test('a filter that few events pass looks at a part of history, and says where the next page goes on', async () => {
  const { db, projectId } = server.bench;
  const rare = await record();
  await db.query(`update svc.events set router_status = 'unmatched' where id = $1::uuid`, [rare]);
  await db.tx(async (tx) => {
    await tx.query('set local session_replication_role = replica');
    await tx.query(
      `insert into svc.events (id, project_id, key, router_status)
       select gen_random_uuid(), $1::uuid, 'bulk.received', 'routed' from generate_series(1, 10500)`,
      [projectId],
    );
  });
  for (const filter of ['status=unmatched', 'key=!bulk.*']) {
    const first = await call('GET', `events?${filter}&limit=1`, 'viewer');
    assert.deepEqual(first.body.items, [], filter);
    assert.equal(typeof first.body['nextCursor'], 'string', filter);
    const cursor = String(first.body['nextCursor']);
    const next = await call('GET', `events?${filter}&limit=1&cursor=${cursor}`, 'viewer');
    assert.deepEqual(
      next.body.items.map(({ id }) => id),
      [rare],
      filter,
    );
  }
});
