import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { recordCall } from '../../../adapters/store/sessions/ledger.ts';
import { lockRouting } from '../../../adapters/store/routing/routing-lock.ts';
import { timeOrderedId } from '../../../base/runtime.ts';
import { bindSession } from '../../../flows/sessions/sessions.ts';
import { agentsTree } from '../../../flows/sync/apply-testkit.ts';
import { startServer, type Server } from './testkit.ts';

let server: Server;
const auth = { kind: 'none' } as const;
before(async () => {
  server = await startServer();
  const mount = (ref: string) => ({ kind: 'git' as const, repository: 'o/r', mountPath: '/w', ref, auth });
  await server.bench.apply(
    agentsTree({
      free: { initialPrompt: 'Look at {{ issue.number }}', displayTitle: 'Issue {{issue.number}}' },
      plain: {},
      capped: { concurrency: 1 },
      mounted: { mounts: [mount('refs/pull/{{ payload.n }}/head')] },
      triggered: { mounts: [mount('{{ triggerEventId }}')] },
    }),
  );
});
after(() => server.stop());

type Body = Record<string, unknown> & { items: Body[]; usage: Body; inbox: Body };
async function call(
  method: string,
  path: string,
  body?: unknown,
  as?: 'viewer',
): Promise<{ status: number; body: Body }> {
  const answer = await server.call(method, path, body, as);
  return { status: answer.status, body: answer.body as Body };
}
async function start(agent: string, body: object = {}): Promise<string> {
  const made = await call('POST', `agents/${agent}/sessions`, body);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return String(made.body['id']);
}
const audited = async (action: string, name: string): Promise<number> =>
  (
    await server.bench.db.query('select from svc.audit where action = $1::text and subject_name = $2::text', [
      action,
      name,
    ])
  ).rowCount;
const texts = async (id: string): Promise<unknown[]> =>
  (await call('GET', `sessions/${id}/messages`)).body.items.map((one) => one['text']);

test('a session started by hand is queued with its first message, and is in the audit', async () => {
  const id = await start('free', { input: { issue: { number: 7, big: 1 } } });
  const { body } = await call('GET', `sessions/${id}`, undefined, 'viewer');
  const { createdAt, lastActiveAt, ...rest } = body;
  assert.equal(createdAt, lastActiveAt);
  assert.deepEqual(rest, {
    id,
    agent: 'free',
    revision: 1,
    state: 'queued',
    live: true,
    loaded: false,
    reason: 'capacity',
    position: 1,
    displayTitle: 'Issue 7',
    origin: 'manual',
    usage: {
      calls: 0,
      inputTokens: 0,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      costUsd: '0',
      unpricedCalls: 0,
    },
    inbox: { pending: 1, inFlight: 0, done: 0, failed: 0 },
    turns: 0,
    claims: [],
    bindings: [],
    checks: [],
    permissions: [],
    mountRefs: {},
  });
  assert.deepEqual(await texts(id), ['Look at 7']);
  assert.equal(await audited('session.started', id), 1);
});

test('a message of the operator comes first, then the initial prompt, then what it was started with', async () => {
  const said = await start('free', { message: 'Do {{ not }} render', input: { issue: { number: 8 } } });
  assert.deepEqual(await texts(said), ['Do {{ not }} render']);
  const [withInput] = await texts(await start('plain', { input: { n: 9007199254740992 } }));
  assert.match(String(withInput), /started by hand with this input[^]*"n": 9007199254740992/);
  const bare = await start('plain');
  assert.match(String((await texts(bare))[0]), /^You were started by hand, without a message/);
  assert.equal((await call('GET', `sessions/${bare}`)).body['displayTitle'], 'plain, started by hand');
});

test('a capped agent is started once, and the refusal names the live session', async () => {
  const id = await start('capped');
  assert.deepEqual((await call('GET', `sessions/${id}`)).body['claims'], [{ kind: 'slot' }]);
  const second = await call('POST', 'agents/capped/sessions', {});
  assert.deepEqual([second.status, second.body['code']], [409, 'slot-taken']);
  assert.match(String(second.body['detail']), new RegExp(id));
  assert.equal((await call('POST', `sessions/${id}/archive`)).status, 200);
  await start('capped');
});

test('a mount whose ref the input cannot resolve refuses the start', async () => {
  const refused = await call('POST', 'agents/mounted/sessions', { input: { m: 1 } });
  assert.deepEqual([refused.status, refused.body['code']], [422, 'unresolved-ref']);
  assert.match(String(refused.body['detail']), /payload\.n/);
  assert.equal((await call('POST', 'agents/triggered/sessions', {})).status, 422);
  const id = await start('mounted', { input: { n: 12 } });
  assert.deepEqual((await call('GET', `sessions/${id}`)).body['mountRefs'], { '/w': 'refs/pull/12/head' });
});

test('bodies that are not as described are refused, and an absent agent is not found', async () => {
  for (const body of [{ input: [] }, { input: 'x' }, { input: null }, { message: ' ' }, { message: 1 }, { other: 1 }]) {
    assert.equal((await call('POST', 'agents/plain/sessions', body)).status, 400, JSON.stringify(body));
  }
  assert.equal((await call('POST', 'agents/absent/sessions', {})).status, 404);
  assert.equal((await call('POST', 'agents/plain/sessions', {}, 'viewer')).status, 403);
});

test('a message is accepted by a live session, waits in its inbox, and is refused by an ended one', async () => {
  const id = await start('plain', { message: 'one' });
  const sent = await call('POST', `sessions/${id}/messages`, { text: 'two\nlines' });
  assert.equal(sent.status, 202);
  assert.deepEqual(sent.body['delivery'], { state: 'pending', mode: 'interrupt', sender: 'operator', attempts: 0 });
  const { items } = (await call('GET', `sessions/${id}/messages`, undefined, 'viewer')).body;
  assert.deepEqual(items.at(-1), sent.body);
  assert.deepEqual(
    items.map(({ role, kind, text }) => [role, kind, text]),
    [
      ['user', 'prompt', 'one'],
      ['user', 'prompt', 'two\nlines'],
    ],
  );
  assert.equal(await audited('session.messaged', id), 1);
  for (const text of ['', '  ', 'x'.repeat(100_001)]) {
    assert.equal((await call('POST', `sessions/${id}/messages`, { text })).status, 400);
  }
  assert.equal((await call('POST', `sessions/${id}/messages`, { text: 'x' }, 'viewer')).status, 403);
  const archived = await call('POST', `sessions/${id}/archive`);
  assert.deepEqual(
    [archived.body['state'], archived.body['live'], archived.body['reason']],
    ['archived', false, 'archived by admin'],
  );
  assert.equal(archived.body.inbox['failed'], 2);
  const refused = await call('POST', `sessions/${id}/messages`, { text: 'three' });
  assert.deepEqual([refused.status, refused.body['code']], [409, 'session-ended']);
  assert.equal((await call('POST', `sessions/${id}/archive`)).status, 200, 'archived stays archived');
  assert.equal(await audited('session.archived', id), 1);
});

test('a transcript is read from its start or from its end, page by page', async () => {
  const id = await start('plain', { message: 'm0' });
  for (let at = 1; at < 7; at += 1) await call('POST', `sessions/${id}/messages`, { text: `m${at}` });
  const walk = async (order: string): Promise<unknown[]> => {
    const found: unknown[] = [];
    let cursor = '';
    do {
      const { body } = await call('GET', `sessions/${id}/messages?limit=3&order=${order}${cursor}`);
      found.push(...body.items.map((one) => one['text']));
      cursor = body['nextCursor'] === null ? '' : `&cursor=${String(body['nextCursor'])}`;
    } while (cursor !== '');
    return found;
  };
  const all = Array.from({ length: 7 }, (_, at) => `m${at}`);
  assert.deepEqual(await walk('asc'), all);
  assert.deepEqual(await walk('desc'), all.toReversed());
  const total = async (query: string) =>
    (await call('GET', `sessions/${id}/messages?limit=2&counts=true${query}`)).body['total'];
  const seqs = (await call('GET', `sessions/${id}/messages`)).body.items.map((one) => Number(one['seq']));
  assert.deepEqual([await total(''), await total(`&after=${seqs[4]}`), await total(`&after=${seqs[6]}`)], [7, 2, 0]);
});

test('a page of a transcript ends at 4 MiB, with at least one message, and goes on behind it', async () => {
  const id = await start('plain', { message: 'first' });
  await server.bench.db.query(
    `insert into svc.messages (session_id, role, kind, text, at)
     select $1::uuid, 'assistant', 'text', repeat('x', 3000000), now() from generate_series(1, 3)`,
    [id],
  );
  const first = (await call('GET', `sessions/${id}/messages`)).body;
  assert.equal(first.items.length, 3);
  const rest = (await call('GET', `sessions/${id}/messages?cursor=${String(first['nextCursor'])}`)).body;
  assert.deepEqual([rest.items.length, rest['nextCursor']], [1, null]);
});

test('sessions are listed newest first, by agent, state and life, in pages', async () => {
  const made = [await start('plain'), await start('plain'), await start('plain')];
  await call('POST', `sessions/${made[0]}/archive`);
  const ids = async (query: string): Promise<unknown[]> =>
    (await call('GET', `sessions?${query}`, undefined, 'viewer')).body.items.map((one) => one['id']);
  const live = await ids('agent=plain&live=true&limit=200');
  assert.ok(!live.includes(made[0]) && live.includes(made[1]));
  assert.ok((await ids('agent=plain&state=archived')).includes(made[0]));
  assert.ok((await ids('live=false')).includes(made[0]));
  const first = (await call('GET', 'sessions?agent=plain&limit=2')).body;
  const next = (await call('GET', `sessions?agent=plain&limit=2&cursor=${String(first['nextCursor'])}`)).body;
  const walked = [...first.items, ...next.items].map((one) => String(one['id']));
  assert.deepEqual(
    walked,
    walked.toSorted((a, b) => (a < b ? 1 : -1)),
  );
  assert.equal(new Set(walked).size, 4);
  for (const query of ['state=alive', 'live=1', 'cursor=x', 'x=1']) {
    assert.equal((await call('GET', `sessions?${query}`)).status, 400, query);
  }
});

test('an operator releases a held binding, and the release is told and audited', async () => {
  const id = await start('plain');
  const { bench } = server;
  const target = { type: 'codehost.pull_request', key: 'o/r#1' } as const;
  const held = { lifecycle: 'held', continuity: 'session', context: { a: 1 }, eventContext: null } as const;
  const made = await bench.db.tx(async (tx) =>
    bindSession(bench.ctx, await lockRouting(tx, bench.projectId), { sessionId: id, target, ...held }),
  );
  const [listed] = (await call('GET', 'bindings', undefined, 'viewer')).body.items;
  const { createdAt, updatedAt, ...rest } = listed ?? ({} as Body);
  assert.equal(createdAt, updatedAt);
  const { eventContext: _, ...shape } = held;
  assert.deepEqual(rest, { id: made.id, agent: 'plain', sessionId: id, target, state: 'active', ...shape });
  assert.equal(((await call('GET', `sessions/${id}`)).body['bindings'] as unknown[]).length, 1);
  assert.equal((await call('DELETE', `bindings/${made.id}`, undefined, 'viewer')).status, 403);
  assert.equal((await call('DELETE', `bindings/${made.id}`)).status, 204);
  assert.equal((await call('DELETE', `bindings/${made.id}`)).status, 204);
  assert.deepEqual((await call('GET', 'bindings')).body.items, []);
  const [released] = (await call('GET', `bindings?all=true&session=${id}`)).body.items;
  assert.equal(released?.['state'], 'released');
  assert.equal(await audited('binding.released', made.id), 1);
  const { rows } = await bench.db.query(
    `select from svc.events where key = 'svc.session.binding.unbound' and target_key = $1::text`,
    [id],
  );
  assert.equal(rows.length, 1);
});

test('a person answers what a harness asks, once', async () => {
  const id = await start('plain');
  const other = await start('plain');
  const permission = randomUUID();
  await server.bench.db.query(
    `insert into svc.permissions (id, session_id, epoch, title, request, created_at)
     values ($1::uuid, $2::uuid, 1, 'Run rm -rf build', '{"category":"execute"}', '2030-01-02T03:04:05Z')`,
    [permission, id],
  );
  const [asked] = (await call('GET', `sessions/${id}`)).body['permissions'] as Body[];
  assert.deepEqual(
    [asked?.['id'], asked?.['title'], asked?.['request'], asked?.['createdAt']],
    [permission, 'Run rm -rf build', { category: 'execute' }, '2030-01-02T03:04:05.000Z'],
  );
  const path = `sessions/${id}/permissions/${permission}`;
  assert.equal((await call('POST', path, { decision: 'perhaps' })).status, 400);
  assert.equal((await call('POST', path, { decision: 'allow' }, 'viewer')).status, 403);
  for (const stranger of [
    `sessions/${other}/permissions/${permission}`,
    `sessions/${id}/permissions/${randomUUID()}`,
    `sessions/${id}/permissions/first`,
  ]) {
    const misnamed = await call('POST', stranger, { decision: 'allow' });
    assert.deepEqual([misnamed.status, misnamed.body['detail']], [404, 'This session has no such request.'], stranger);
  }
  assert.equal((await call('POST', path, { decision: 'reject' })).status, 204);
  assert.equal((await call('POST', path, { decision: 'allow' })).status, 409);
  assert.deepEqual((await call('GET', `sessions/${id}`)).body['permissions'], []);
  assert.equal(await audited('session.permission_decided', id), 1);
});

test('what model calls came to stands on the session, its agent and the project', async () => {
  const id = await start('plain');
  const { bench } = server;
  const modelCall = (at: string, costUsd: string | null) => ({
    requestId: randomUUID(),
    projectId: bench.projectId,
    agentName: 'plain',
    sessionId: id,
    at: new Date(at),
    provider: 'provider-a' as const,
    model: 'm',
    inputTokens: 10,
    outputTokens: 1,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    costUsd,
    estimated: false,
    priceDate: null,
  });
  const agent = (await call('GET', 'agents/plain')).body;
  const agentId = String(agent['resourceId']);
  for (const [at, cost] of [
    ['2026-11-21T01:00:00Z', '0.25'],
    ['2026-11-02T01:00:00Z', '0.5'],
    ['2026-10-31T01:00:00Z', null],
  ] as const) {
    await recordCall(bench.db, { ...modelCall(at, cost), agentId });
  }
  const used = (await call('GET', `sessions/${id}`)).body.usage;
  assert.deepEqual([used['calls'], used['costUsd'], used['unpricedCalls'], used['inputTokens']], [3, '0.75', 1, 30]);
  const spans = (body: Body): unknown[] =>
    ['day', 'month', 'total'].map((span) => ((body[span] ?? {}) as Body)['calls']);
  assert.deepEqual(spans((await call('GET', 'agents/plain/usage', undefined, 'viewer')).body), [1, 2, 3]);
  assert.deepEqual(spans((await call('GET', 'usage', undefined, 'viewer')).body), [1, 2, 3]);
  const series = async (query: string) =>
    (await call('GET', `usage/series?${query}`, undefined, 'viewer')).body as unknown as {
      items: { day: string; agent: string | null; usage: { costUsd: string; calls: number } }[];
      agents: { agent: string; usage: { costUsd: string; unpricedCalls: number }; dearest: unknown }[];
    };
  const row = (one: Awaited<ReturnType<typeof series>>['items'][number]) => [one.day, one.agent, one.usage.costUsd];
  const all = await series('days=366');
  assert.deepEqual(all.items.map(row), [
    ['2026-10-31', 'plain', '0'],
    ['2026-11-02', 'plain', '0.5'],
    ['2026-11-21', 'plain', '0.25'],
  ]);
  const [dearest] = all.agents;
  assert.deepEqual([dearest?.usage.costUsd, dearest?.usage.unpricedCalls], ['0.75', 1]);
  assert.deepEqual(dearest?.dearest, { id, costUsd: '0.75' });
  assert.deepEqual((await series('days=2&by=day')).items.map(row), [['2026-11-21', null, '0.25']]);

  // Sessions by what they cost, a page at a time.
  const cheap = { ...modelCall('2026-11-21T01:00:00Z', '0.5'), agentId, sessionId: await start('plain') };
  await recordCall(bench.db, { ...cheap, requestId: randomUUID() });
  const byCost = async (query: string) => (await call('GET', `usage/sessions${query}`, undefined, 'viewer')).body;
  const ids = (body: Body) => (body['items'] as unknown as { id: string }[]).map((one) => one.id);
  const mine = await byCost('?agent=plain');
  assert.deepEqual(ids(mine), [id, cheap.sessionId]);
  assert.deepEqual(ids(await byCost('')), ids(mine));
  const page = await byCost('?limit=1');
  assert.deepEqual(ids(page), [id]);
  assert.deepEqual(ids(await byCost(`?limit=1&cursor=${String(page['nextCursor'])}`)), [cheap.sessionId]);
  assert.deepEqual(ids(await byCost('?agent=nobody')), []);
  const total = async (query: string) => (await byCost(`?limit=1&counts=true${query}`))['total'];
  assert.deepEqual([await total(''), await total('&agent=plain'), await total('&agent=nobody')], [2, 2, 0]);
});

test('what is not there is not found, whatever stands in the path', async () => {
  for (const id of [randomUUID(), timeOrderedId(server.bench.ctx.runtime), 'x', '..%2f']) {
    for (const [method, path] of [
      ['GET', `sessions/${id}`],
      ['GET', `sessions/${id}/messages`],
      ['GET', `sessions/${id}/stream`],
      ['POST', `sessions/${id}/archive`],
      ['DELETE', `bindings/${id}`],
    ] as const) {
      const { status, body } = await call(method, path);
      assert.deepEqual([status, body['code']], [404, 'not-found'], `${method} ${path}`);
    }
    assert.equal((await call('POST', `sessions/${id}/messages`, { text: 'x' })).status, 404);
  }
});
