// The overview and the stream of changes: what they say, how they go on, and who hears them.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ListedAgent } from '../../../../schemas/api/agents.ts';
import type { Overview } from '../../../../schemas/api/overview.ts';
import type { WholeRun } from '../../../../schemas/api/reconciles.ts';
import type { Trigger, OneTrigger } from '../../../../schemas/api/triggers.ts';
import { startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';
import { watchChanges } from '../../../flows/console/console.ts';
import { foretold } from './overview-testkit.ts';

let daemon: TestDaemon;
let ingestUrl = '';
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  const agent = {
    name: 'triage',
    harness: 'harness-a',
    environment: { name: 'e', image: { kind: 'preset', name: 'base' } },
    triggers: [
      {
        event: 'webhook.received',
        endpoint: 'reports',
        auth: { kind: 'none' },
        where: { '$.kind': 'bug' },
        routing: { kind: 'spawn' },
      },
      { kind: 'heartbeat', cron: '0 14 * * *', message: 'Digest.', routing: { kind: 'spawn' } },
    ],
  };
  const files = [{ path: '.svc/agents/triage.json', content: JSON.stringify(agent) }];
  const applied = await daemon.api('POST', 'P/apply', { files });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  ingestUrl = String(applied.body['webhooks']?.[0]?.['ingestUrl']);
});
after(() => daemon.stop());

interface Told {
  readonly id: string;
  readonly event: string;
  readonly data: { readonly topic?: string; readonly id?: string; readonly seq: number };
}

/** Reads the stream until `until`; `meanwhile` runs once it stands. */
async function listen(options: {
  readonly query?: string;
  readonly lastEventId?: string;
  readonly token?: string;
  readonly meanwhile?: () => Promise<unknown>;
  readonly until: (told: readonly Told[]) => boolean;
}): Promise<Told[]> {
  const response = await fetch(`${daemon.url}/api/v1/orgs/default/projects/default/stream${options.query ?? ''}`, {
    headers: {
      authorization: `Bearer ${options.token ?? daemon.token}`,
      ...(options.lastEventId !== undefined && { 'last-event-id': options.lastEventId }),
    },
    // What is never told would be waited for without an end.
    signal: AbortSignal.timeout(60_000),
  });
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const told: Told[] = [];
  const decoder = new TextDecoder();
  let rest = '';
  let done: Promise<unknown> | undefined;
  for await (const chunk of response.body ?? []) {
    done ??= options.meanwhile?.();
    const parts = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts.filter((one) => !one.startsWith(':'))) {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1] ?? '';
      told.push({ id: field('id'), event: field('event'), data: JSON.parse(field('data')) });
    }
    if (options.until(told)) break;
  }
  await done;
  return told;
}

const send = async (body: object): Promise<string> => {
  const response = await fetch(ingestUrl, { method: 'POST', body: JSON.stringify(body) });
  assert.equal(response.status, 202);
  return ((await response.json()) as { eventRecordId: string }).eventRecordId;
};
const has = (told: readonly Told[], topic: string, id?: string): boolean =>
  told.some(({ data }) => data.topic === topic && (id === undefined || data.id === id));
const overview = async (): Promise<{ readonly body: Overview; readonly bytes: number }> => {
  const { status, body } = await daemon.api('GET', 'P/overview');
  assert.equal(status, 200, JSON.stringify(body));
  return { body: body as unknown as Overview, bytes: Buffer.byteLength(JSON.stringify(body)) };
};

test('the stream tells the topic and the id of what changes, and goes on after the last id without loss', async () => {
  let event = '';
  const told = await listen({
    meanwhile: async () => (event = await send({ kind: 'bug' })),
    until: (all) => event !== '' && has(all, 'events', event) && has(all, 'sessions'),
  });
  assert.deepEqual(Object.keys(told[0]?.data ?? {}).sort(), ['id', 'seq', 'topic']);
  for (const { id } of told) assert.match(id, /^[0-9a-f]{12}-\d+$/);
  const last = told.at(-1);
  const missed = [await send({ kind: 'x' }), await send({ kind: 'y' })];
  const more = await listen({
    ...(last !== undefined && { lastEventId: last.id }),
    until: (all) => missed.every((id) => has(all, 'events', id)),
  });
  assert.ok(more.every(({ event: name }) => name === ''));
  const numbers = [...told, ...more].map(({ data }) => data.seq);
  assert.deepEqual(
    numbers,
    [...numbers].sort((a, b) => a - b),
  );
});

test('what cannot be gone on with is said, topics are kept apart, and an unknown one is refused', async () => {
  const [first] = await listen({ lastEventId: '0123456789ab-5', until: (all) => all.length > 0 });
  assert.equal(first?.event, 'reset');
  assert.notEqual(first?.id, '');
  const files = [
    {
      path: '.svc/agents/other.json',
      content: JSON.stringify({
        name: 'other',
        harness: 'harness-a',
        environment: { name: 'e2', image: { kind: 'preset', name: 'base' } },
      }),
    },
  ];
  const told = await listen({
    query: '?topics=agents,reconciles',
    meanwhile: async () => {
      await send({ kind: 'z' });
      assert.equal((await daemon.api('POST', 'P/apply', { files, prune: false })).status, 200);
    },
    until: (all) => has(all, 'agents', 'other'),
  });
  assert.ok(told.every(({ data }) => data.topic === 'agents' || data.topic === 'reconciles'));
  const since = await listen({
    query: `?topics=agents&since=${new Date(Date.now() - 60_000).toISOString()}`,
    until: (all) => has(all, 'agents', 'other'),
  });
  assert.ok(since.length > 0);
  for (const topics of ['', 'nothing', 'events,nothing'])
    assert.equal((await daemon.api('GET', `P/stream?topics=${topics}`)).status, 400, topics);
});

test('whoever loses the right hears so, and the stream ends', async () => {
  await daemon.api('POST', '/api/v1/orgs/default/members', { email: 'ann@example.org', role: 'admin' });
  const made = await daemon.api('POST', '/api/v1/orgs/default/tokens', { email: 'ann@example.org', name: 'short' });
  const token = String(made.body['token']);
  const told = await listen({
    token,
    query: '?topics=connections',
    meanwhile: () => daemon.api('DELETE', `/api/v1/orgs/default/tokens/${String(made.body['id'])}`),
    until: (all) => all.some(({ event }) => event === 'signed-out'),
  });
  assert.equal(told.at(-1)?.event, 'signed-out');
});

test('where values come from, where a trigger is declared, what it matched, and how many there are', async () => {
  const { body: byHand } = await daemon.api('GET', 'P/agents/triage?origins=true');
  const own = { file: '.svc/agents/triage.json', line: 1, layer: 'document' };
  assert.deepEqual(byHand['origins']?.['harness'], own);
  assert.deepEqual(byHand['origins']?.['session'], { file: null, line: null, layer: 'default' });
  const dir = mkdtempSync(join(tmpdir(), 'svc-origins-'));
  mkdirSync(join(dir, '.svc/agents'), { recursive: true });
  mkdirSync(join(dir, '.svc/fragments'));
  writeFileSync(
    join(dir, '.svc/agents/review.yaml'),
    `name: review
imports: ../fragments/base.yaml
systemPrompt: { append: ' Be brief.' }
triggers:
  - event: webhook.never
    endpoint: reports
    routing: { kind: spawn }
`,
  );
  writeFileSync(
    join(dir, '.svc/fragments/base.yaml'),
    'harness: harness-a\nsystemPrompt: "Of {{ $team }}."\ninitialPrompt: "{{ $team }}"\nenvironment: { name: r, image: { kind: preset, name: base } }\n',
  );
  await daemon.api('POST', 'P/repositories', { name: 'fleet', path: dir, context: { team: 'ops' } });
  const review = async () => {
    const { body } = await daemon.api('GET', 'P/agents?origins=true&view=row');
    return (body as unknown as { items: ListedAgent[] }).items.find(({ name }) => name === 'review');
  };
  for (let round = 0; round < 600 && (await review()) === undefined; round += 1)
    await new Promise((resolve) => setTimeout(resolve, 100));
  const origins = (await review())?.origins ?? {};
  assert.deepEqual(
    ['harness', 'systemPrompt', 'initialPrompt', 'triggers[0]', 'env'].map((path) =>
      Object.values(origins[path] ?? {}),
    ),
    [
      ['.svc/fragments/base.yaml', 1, 'import'],
      ['.svc/agents/review.yaml', 3, 'append'],
      ['.svc/fragments/base.yaml', 3, 'context'],
      ['.svc/agents/review.yaml', 5, 'document'],
      [null, null, 'default'],
    ],
  );
  const never = (await daemon.api('GET', 'P/triggers/review/0')).body;
  assert.deepEqual([never['source']?.['line'], never['lastMatch'], never['since']], [5, null, null]);
  const sent = await fetch(ingestUrl, { method: 'POST', body: JSON.stringify({ kind: 'bug' }) });
  const { eventRecordId } = (await sent.json()) as { eventRecordId: string };
  const last = async () => ((await daemon.api('GET', 'P/triggers/triage/0')).body as unknown as OneTrigger).lastMatch;
  for (let round = 0; round < 600 && (await last())?.eventId !== eventRecordId; round += 1)
    await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual([(await last())?.eventId, (await last())?.decision], [eventRecordId, 'spawn']);
  const { body: listed } = await daemon.api('GET', 'P/triggers?origins=true&matches=true');
  assert.deepEqual(
    (listed as unknown as { items: Trigger[] }).items.map((one) => [
      `${one.agent}#${one.ordinal} ${one.source?.file}:${one.source?.line}`,
      one.lastMatch?.eventId ?? null,
      one.since,
    ]),
    [
      ['review#0 .svc/agents/review.yaml:5', null, null],
      ['triage#0 .svc/agents/triage.json:1', eventRecordId, null],
      ['triage#1 .svc/agents/triage.json:1', null, null],
    ],
  );
  for (const wrong of ['triage/9', 'triage/x', 'none/0'])
    assert.equal((await daemon.api('GET', `P/triggers/${wrong}`)).status, 404, wrong);
  for (const list of [
    ...['agents', 'audit', 'bindings', 'connections', 'endpoints', 'events', 'members', 'reconciles', 'repositories'],
    ...['schedules', 'secrets', 'sessions', 'triggers'],
  ]) {
    const { status, body } = await daemon.api('GET', `P/${list}?counts=true&view=row&limit=200`);
    assert.equal(status, 200, `${list} ${JSON.stringify(body)}`);
    assert.equal(body['total'], (body['items'] as unknown as readonly unknown[]).length, list);
    assert.equal((await daemon.api('GET', `P/${list}`)).body['total'], undefined, list);
  }
  const { body: some } = await daemon.api('GET', 'P/sessions?counts=true&live=true&agent=none');
  assert.equal(some['total'], 0);
  await foretold(daemon);
  await placed(dir);
  rmSync(dir, { recursive: true, force: true });
});

/** Where what a run changed stands, by hand and through an import, and what becomes of the sessions of an agent that changes. */
async function placed(dir: string): Promise<void> {
  const newest = async (query: string): Promise<WholeRun> => {
    const { body } = await daemon.api('GET', `P/reconciles?limit=1&${query}`);
    const id = String(body['items']?.[0]?.['id']);
    return (await daemon.api('GET', `P/reconciles/${id}?origins=true`)).body as unknown as WholeRun;
  };
  const environment = '{ name: e3, image: { kind: preset, name: base } }';
  const apply = (prompt: string) => {
    const content = `name: kept\nharness: harness-a\nenvironment: ${environment}\nsystemPrompt: ${prompt}\n`;
    const files = [{ path: '.svc/agents/kept.yaml', content }];
    return daemon.api('POST', 'P/apply', { files, prune: false });
  };
  await apply('One.');
  const { body: session } = await daemon.api('POST', 'P/agents/kept/sessions', { message: 'Hello' });
  await apply('Two.');
  const byHand = await newest('status=applied');
  assert.deepEqual(byHand.origins, {
    kept: { systemPrompt: { file: '.svc/agents/kept.yaml', line: 4, layer: 'document' } },
  });
  assert.deepEqual(byHand.consequences.sessions, { kept: [{ agent: 'kept', revision: 1, count: 1 }], archived: [] });
  assert.equal((await daemon.api('POST', `P/sessions/${String(session['id'])}/archive`, {})).status, 200);
  await apply('Three.');
  assert.equal((await newest('status=applied')).consequences.sessions, undefined);
  const base = join(dir, '.svc/fragments/base.yaml');
  writeFileSync(
    base,
    readFileSync(base, 'utf8').replace('initialPrompt: "{{ $team }}"', 'initialPrompt: "To {{ $team }}"'),
  );
  await daemon.api('POST', 'P/repositories/fleet/sync');
  let run = await newest('repository=fleet');
  for (let round = 0; round < 600 && Object.keys(run.origins ?? {}).length === 0; round += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    run = await newest('repository=fleet&status=applied');
  }
  assert.deepEqual(run.origins, {
    review: { initialPrompt: { file: '.svc/fragments/base.yaml', line: 3, layer: 'context' } },
  });
  assert.equal((await daemon.api('GET', `P/reconciles/${run.id}`)).body['origins'], undefined);
}

test('the overview says what is wrong, what changed, what runs and what comes, in one small answer', async () => {
  const broken = [{ path: '.svc/agents/triage.json', content: '{"name": "triage", "rooting": 1}' }];
  await daemon.api('POST', 'P/apply', { files: broken });
  const { ctx } = daemon;
  const { rows } = await ctx.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  await ctx.db.query(
    `insert into svc.connections (project_id, provider, product, name, status, reason) values ($1, 'mcp', 'mcp', 'docs', 'authorization_required', 'expired'),
       ($1, 'codehost', 'codehost', 'code', 'suspended', 'suspended')`,
    [rows[0]?.id],
  );
  const { body, bytes } = await overview();
  const [connection] = body.attention.filter(({ kind }) => kind === 'authorization');
  assert.deepEqual(
    [connection?.severity, connection?.subject, connection?.href],
    ['error', 'docs', '/default/default/connections'],
  );
  assert.match(connection?.text ?? '', /docs: authorization required/);
  const suspended = body.attention.find(({ subject }) => subject === 'code');
  assert.deepEqual(
    [suspended?.kind, suspended?.severity, suspended?.href],
    ['doctor', 'error', '/default/default/doctor'],
  );
  assert.deepEqual([body.attentionTotal, body.attention.length], [body.attention.length, body.attention.length]);
  assert.ok(body.lastRuns.some(({ status, created }) => status === 'applied' && created > 0));
  assert.equal(body.live[0]?.agent, 'triage');
  assert.equal(body.liveTotal, body.live.length);
  assert.deepEqual([body.next[0]?.agent, body.nextTotal], ['triage', 1]);
  const { events } = body;
  assert.equal(events.total, events.routed + events.unmatched + events.failed + events.pending);
  assert.ok(events.routed >= 1 && events.unmatched >= 3, JSON.stringify(events));
  assert.equal(
    events.minutes.reduce((sum, minute) => sum + minute.routed, 0),
    events.routed,
  );
  assert.equal(body.viewer.orgs[0]?.projects.length, 1);
  assert.ok(bytes < 20_000, `${bytes} bytes`);
});

test('the count of the last hour finds its beginning among events of any age, and the answer stays small', async () => {
  const { rows } = await daemon.ctx.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  const project = rows[0]?.id;
  const before = (await overview()).body.events.total;
  // Older than everything before: a number is not a time, but both grow. So the younger ones go first.
  await daemon.ctx.db.query('delete from svc.events where project_id = $1', [project]);
  assert.ok(before > 0);
  await daemon.ctx.db.query(
    `insert into svc.events (id, project_id, key, router_status, received_at)
     select gen_random_uuid(), $1, 'webhook.received', 'routed', now() - make_interval(secs => (3000 - n) * 4)
       from generate_series(1, 3000) n order by n`,
    [project],
  );
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const lastHour = async (): Promise<number> =>
    (
      await daemon.ctx.db.query(
        `select from svc.events where project_id = $1::uuid and received_at >= now() - interval '1 hour'`,
        [project],
      )
    ).rowCount;
  // One leaves the hour every four seconds, while it is asked too.
  const most = await lastHour();
  const { body, bytes } = await overview();
  const least = await lastHour();
  const { total } = body.events;
  assert.ok(most > 0 && total >= least - 2 && total <= most + 2, `${total} of ${least} to ${most}`);
  assert.ok(body.events.minutes.length >= 60);
  assert.ok(bytes < 20_000, `${bytes} bytes`);
});

test('what the overview cuts ends between characters', async () => {
  for (const before of ['', 'x'])
    await daemon.ctx.db.query(
      `with asking as (
         insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
         select gen_random_uuid(), project_id, id, name, 1, 'manual', 'waiting_permission', 'Look', now(), now() from svc.agents
          where name = 'triage' returning id)
       insert into svc.permissions (id, session_id, epoch, title, request, created_at)
       select gen_random_uuid(), id, 1, $1::text || repeat('😀', 300), '{}', now() from asking`,
      [before],
    );
  const { body } = await overview();
  const asks = body.attention.filter(({ text }) => text.includes('😀'));
  assert.equal(asks.length, 2);
  for (const { text } of asks) {
    assert.ok(text.isWellFormed(), text.slice(-5));
    assert.match(text, /😀…$/u);
  }
});

test('tells of changes also where nothing can be heard of them', async () => {
  const { ctx } = daemon;
  const { rows } = await ctx.db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
  const listen = () => Promise.reject(new Error('the connection that listens cannot be made'));
  const deaf = { root: {}, looks: ctx.db.looks, listen } as unknown as typeof ctx.db;
  const asked = { topics: ['events'] as const, after: undefined, since: undefined };
  // What is never told would be waited for without an end.
  const signal = AbortSignal.timeout(60_000);
  const of = { ...ctx, db: Object.assign(deaf, { calls: deaf }) };
  const changes = await watchChanges(of, { projectId: rows[0]?.id ?? '', ...asked, signal });
  const next = changes.next();
  assert.equal((await fetch(ingestUrl, { method: 'POST', body: '{}' })).status, 202);
  const told = await next;
  assert.equal(told.done, false, 'nothing is told');
  assert.equal((told.value as { data: { topic?: string } }).data.topic, 'events');
  await changes.return(undefined);
});
