// Nothing costs more because much has happened before: every statement that the daemon's loops send by themselves, and that
// the lists of the API send with each of their filters, is explained on a database with some history and with four times as
// much. The loops are those of the table of services and the lists those of the table of routes, so that a new one is in
// this test before anybody thinks of it.

import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type Api, startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { services } from '../../internal/edge/jobs/services.ts';
import type { Route } from '../../internal/edge/http/route.ts';
import { routes } from '../../internal/edge/http/routes.ts';
import {
  addExpired,
  addHistory,
  type Explained,
  explained,
  type HistoryOf,
  oftenEndpoint,
  rareEndpoint,
  type Recorder,
  recordStatements,
  type Sent,
} from './history-testkit.ts';

const little = isLong ? 250_000 : 8_000;
const much = 4 * little;
/** What may be looked at, whatever there is: a slice of retention is the most. */
const buffersMax = 60_000;
const mayGrow = (buffers: number): number => 1.5 * buffers + 120;
/** Each loop has had its turn by then, and those of some seconds two. */
const turnsMs = 6_500;

let database: TestDatabase;
let dataDir: string;
let of: HistoryOf;
let recorder: Recorder;
const called: string[] = [];

before(async () => {
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), 'svc-history-'));
  const first = await startTestDaemon({ database, dataDir });
  // Each start adds a key to the file of its directory.
  const masterKeyFile = join(dataDir, 'first.key');
  await copyFile(join(dataDir, 'master.key'), masterKeyFile);
  try {
    of = await furnish(first);
  } finally {
    await first.stop();
  }
  await addHistory(database.url, of, 1, little);
  await addExpired(database.url, of);
  recorder = recordStatements();
  const daemon = await startTestDaemon({ database, dataDir, config: { masterKeyFile } });
  try {
    await sleep(turnsMs);
    for (const route of routes) await callList(daemon.api, route);
    await daemon.api('GET', '/metrics');
  } finally {
    await daemon.stop();
    recorder.stop();
  }
});
after(async () => {
  await database.close();
  await rm(dataDir, { recursive: true, force: true });
});

/** A project with an agent, live sessions that nobody can run, a repository that is read no more. */
async function furnish({ api, database: { db } }: TestDaemon): Promise<HistoryOf> {
  const agent =
    'harness: harness-a\nreplace: auto\nconcurrency: 1\nsession: {archiveAfterInactive: {seconds: 86400}}\nenvironment: {name: default, image: {kind: preset, name: base}}\n';
  const files = ['agent-0', 'rare'].map((name) => ({
    path: `.svc/agents/${name}.yaml`,
    content: `name: ${name}\n${agent}`,
  }));
  const applied = await api('POST', 'P/apply', { files });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  assert.equal((await api('POST', 'P/agents/agent-0/sessions', { message: 'hi' })).status, 201);
  const { rows } = await db.query<HistoryOf>(
    `with p as (select id, org_id from svc.projects order by created_at limit 1), r as (
       insert into svc.repositories (project_id, name, url, suspended) select id, 'site', 'https://git.invalid/site', true from p
       returning id), s as (insert into svc.repository_states (repository_id) select id from r)
     select p.org_id as "orgId", p.id as "projectId", r.id as "repositoryId" from p, r`,
  );
  await db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
     select gen_random_uuid(), a.project_id, a.id, a.name, 1, 'manual', 'blocked', 't', now(), now() from svc.agents a`,
  );
  await db.query(
    `insert into svc.endpoints (id, project_id, name, slug, auth, status)
     select e.id::uuid, p.id, e.name, e.name || '-slug', '{"kind": "none"}', 'ready' from svc.projects p, (values ($1, 'rare'), ($2, 'often')) as e (id, name)`,
    [rareEndpoint, oftenEndpoint],
  );
  return rows[0] as HistoryOf;
}

/** A value for each name that a query or a path may have; a list with another one needs one here. */
const samples: { readonly [name: string]: readonly string[] } = {
  action: ['rare.action', 'secret.read'],
  counts: ['true'],
  view: ['row'],
  origins: ['true'],
  matches: ['true'],
  agent: ['rare', 'agent-0'],
  endpoint: ['rare', 'often', 'gone'],
  key: ['webhook.rare', 'never.seen'],
  live: ['true', 'false'],
  all: ['true'],
  by: ['agent', 'day'],
  days: ['1', '366'],
  from: [new Date(Date.now() - 86_400_000).toISOString()],
  to: [new Date(Date.now() + 86_400_000).toISOString()],
  principal: ['rare'],
  repository: ['site', 'gone'],
  session: ['00000000-0000-4000-8000-000000000000'],
  since: [new Date(Date.now() - 20 * 86_400_000).toISOString()],
  until: [new Date(Date.now() - 14 * 86_400_000).toISOString()],
  subject: ['rare'],
  severity: ['warning', 'error'],
  state: ['queued', 'idle', 'running', 'suspended', 'blocked', 'archived', 'replaced', 'failed'],
  status: [
    'pending',
    'routed',
    'unmatched',
    'failed',
    'running',
    'applied',
    'unchanged',
    'held',
    'superseded',
    'quarantined',
  ],
};
/** Lists that answer for nothing less than this. */
const queriesNeeded: { readonly [path: string]: string } = {
  '/api/v1/connections/errtrack/projects': '?organizationId=default&projectId=default',
};
const passedOver = new Set(['limit', 'cursor']);

/** Calls a list as it is, and with each of its filters. Lists whose path names a thing are of that thing, not of history. */
async function callList(api: Api, route: Route): Promise<void> {
  if (route.method !== 'GET' || route.stream === true || route.lines === true || route.scope === 'public') return;
  const path = route.path.replace(':org', 'default').replace(':project', 'default');
  if (path.includes(':')) return;
  const names = Object.keys((route.query as { entries?: object } | undefined)?.entries ?? {});
  const needed = queriesNeeded[route.path];
  const queries = [needed ?? ''];
  for (const name of needed === undefined ? names.filter((one) => !passedOver.has(one)) : []) {
    const values = samples[name];
    assert.ok(values !== undefined, `${route.path}: no sample for the filter ${name}`);
    queries.push(...values.map((value) => `?${name}=${encodeURIComponent(value)}`));
  }
  let answered = 0;
  for (const query of queries) {
    const { status } = await api('GET', `${path}${query}`);
    assert.ok(status < 500, `${path}${query}: ${status}`);
    if (status === 200) answered += 1;
  }
  assert.ok(answered > 0, `${path} answers nothing`);
  called.push(path);
}

async function explainAll(): Promise<Map<Sent, Explained>> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const found = new Map<Sent, Explained>();
  try {
    for (const sent of [...recorder.sent.values()].flat()) {
      const one = await explained(client, sent).catch((error: unknown) => {
        throw new Error(`${sent.text}: ${(error as Error).message}`, { cause: error });
      });
      if (one !== undefined) found.set(sent, one);
    }
  } finally {
    await client.end();
  }
  return found;
}

/** Statements that are asked to count what there is, and say so in the reference. */
const counting = [
  // `counts=true`: the true number of a filtered list, which a page asks for behind its first rows.
  /^select count\(\*\)::int as n from svc\.(events e|reconciles|agents|audit where org_id = |sessions where project_id = \$1::uuid and \(\$2)/,
  // The events of the last hour by minute, at most 100,000 of them: as many as the hour had.
  /from counted where received_at >= /,
];

test('no statement that is sent by itself, or by a list, looks at more because there is more history', async () => {
  assert.ok(services.length >= 12 && called.length >= 15, `${services.length} services, ${called.length} lists`);
  await addExpired(database.url, of);
  const before = await explainAll();
  await addHistory(database.url, of, little + 1, much);
  const now = await explainAll();
  assert.ok(now.size > 120, `${now.size} statements`);
  const grown: string[] = [];

  for (const [sent, { buffers, plan }] of now) {
    const was = before.get(sent)?.buffers ?? 0;

    if (buffers <= mayGrow(was) && buffers <= buffersMax) continue;
    if (counting.some((one) => one.test(sent.text))) continue;
    const shown = process.env['SVC_PLANS'] === undefined ? '' : `\n${plan}`;
    grown.push(
      `${was} pages, then ${buffers}: ${sent.text.slice(0, 1_500)}\n  ${JSON.stringify(sent.values).slice(0, 300)}${shown}`,
    );
  }
  assert.equal(grown.length, 0, `${grown.length} of ${now.size} statements:\n\n${grown.join('\n\n')}`);
});
