// What /metrics tells of an installation, and that the dashboard, the alert rules and the reference page name what is there.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';

const root = join(import.meta.dirname, '../..');
let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

const metrics = async (): Promise<string> =>
  String((await daemon.api('GET', '/metrics', undefined, { token: null })).body);
/** The value of a sample; undefined where there is none. */
function sample(text: string, name: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length + 1));
}

test('the gauges tell how the installation stands, and name nothing that a person has named', async () => {
  const { api } = daemon;
  const { db } = daemon.database;
  assert.equal(sample(await metrics(), 'svc_secret_next_expiry_seconds'), undefined, 'none expires, so none does now');
  await api('PUT', 'P/secrets/CANARY-secret', {
    value: 'x'.repeat(20),
    expiresAt: new Date(Date.now() + 86_400_000).toISOString(),
  });
  const agent = {
    name: 'canary-agent',
    harness: 'harness-a',
    environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    triggers: [
      {
        event: 'webhook.received',
        endpoint: 'canary-endpoint',
        auth: { kind: 'hmac_sha256', secretRef: 'CANARY-secret' },
        routing: { kind: 'spawn' },
      },
    ],
  };
  const files = [{ path: '.svc/agents/a.yaml', content: JSON.stringify(agent) }];
  const applied = await api('POST', 'P/apply', { files });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  const ingest = new URL(String(applied.body['webhooks']?.[0]?.['ingestUrl'])).pathname;
  for (let count = 0; count < 3; count += 1) assert.equal((await api('POST', ingest, {}, { token: null })).status, 401);
  const { rows } = await db.query<{ id: string; project: string }>(
    `with p as (select id, org_id from svc.projects limit 1), old as (
       insert into svc.projects (org_id, slug, name, archived_at) select org_id, 'canary-old', 'x', now() from p returning id),
     r as (insert into svc.repositories (project_id, name, url, suspended)
       select p.id, 'canary-repo', 'https://git.invalid/x', false from p
       union all select p.id, 'canary-still', 'https://git.invalid/y', true from p
       union all select old.id, 'canary-old', 'https://git.invalid/z', false from old returning id, project_id, name),
     polls as (insert into svc.repository_polls (repository_id, next_at) select id, now() + interval '1 hour' from r),
     s as (insert into svc.repository_states (repository_id, condition, condition_since, applied_at)
       select id, 'unreachable', now() - interval '1 hour', now() - interval '2 hours' from r)
     select r.id, p.id as project from r, p order by r.name = 'canary-repo' desc`,
  );
  const [{ id, project } = { id: '', project: '' }, ...unread] = rows;
  // Today is another day where midnight comes before it is told.
  await db.query(
    `insert into svc.usage_days select gen_random_uuid(), (now() at time zone 'utc')::date + day, $1::uuid, 5, 1, 100, 20, 3, 4, 1.25
       from generate_series(0, 1) day`,
    [project],
  );
  // What was read a moment ago is still told.
  let text = await metrics();
  for (let tries = 0; tries < 240 && sample(text, 'svc_spend_usd_today') !== 1.25; tries += 1) {
    await sleep(250);
    text = await metrics();
  }
  assert.equal(sample(text, 'svc_spend_usd_today'), 1.25);
  assert.equal(sample(text, 'svc_spend_tokens_today{kind="input"}'), 107);
  assert.equal(sample(text, 'svc_spend_calls_today{priced="no"}'), 1);
  assert.equal(sample(text, 'svc_gauges_read'), 1);
  assert.equal(sample(text, 'svc_repositories{state="suspended"}'), 1);
  assert.equal(sample(text, `svc_repository_condition{repository="${id}",condition="unreachable"}`), 1);
  assert.ok((sample(text, `svc_repository_condition_seconds{repository="${id}"}`) ?? 0) >= 3_600);
  assert.ok((sample(text, `svc_repository_applied_seconds{repository="${id}"}`) ?? 0) >= 7_200);
  // Nobody looks at what is suspended, or in a project that is archived: an alert on it would never end.
  assert.equal(unread.length, 2);
  for (const { id: still } of unread) assert.ok(!text.includes(still));
  assert.equal(sample(text, 'svc_repositories{state="new"}'), 1);
  assert.equal(sample(text, 'svc_secrets_expiring{when="week"}'), 1);
  assert.ok((sample(text, 'svc_secret_next_expiry_seconds') ?? 0) > 80_000);
  for (const role of ['api', 'sync', 'route', 'schedule', 'session'])
    assert.equal(sample(text, `svc_daemons{role="${role}"}`), 1, role);
  assert.equal(sample(text, 'svc_events_pending'), 0);
  assert.match(text, /svc_build_info\{version="\d+\.\d+\.\d+",node="\d+\.\d+\.\d+"\} 1/);
  const rejected = /svc_deliveries_rejected_total\{kind="endpoint",id="([0-9a-f-]{36})"\} 3/.exec(text);
  assert.ok(rejected !== null);
  assert.doesNotMatch(text, /canary/i);
});

/** Names of metrics that the sources make, at the latest when they are counted. */
function known(names = /'(svc_[a-z_]+)'/g): ReadonlySet<string> {
  const found = new Set<string>();
  for (const file of readdirSync(join(root, 'internal'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue;
    for (const [, name] of readFileSync(join(root, 'internal', file), 'utf8').matchAll(names)) found.add(name ?? '');
  }
  return found;
}
const base = (name: string): string => name.replace(/_(?:bucket|count|sum)$/, '');

test('the dashboard and the alert rules ask for metrics that are made, and the page tells of each', async (t) => {
  const made = known();
  const rules = readFileSync(join(root, 'deploy/prometheus/alerts.yaml'), 'utf8');
  const dashboard = readFileSync(join(root, 'deploy/grafana/svc.json'), 'utf8');
  const { groups } = parse(rules) as { groups: { rules: { alert: string; expr: string; annotations: object }[] }[] };
  const { panels } = JSON.parse(dashboard) as { panels: { title: string; targets: { expr: string }[] }[] };
  const asked = [
    ...groups.flatMap((group) => group.rules.map((rule) => [rule.alert, rule.expr] as const)),
    ...panels.flatMap((panel) => panel.targets.map(({ expr }) => [panel.title, expr] as const)),
  ];
  assert.ok(asked.length > 30);
  // A label is an id, and commands take names.
  for (const { alert, annotations } of groups.flatMap((group) => group.rules))
    assert.doesNotMatch(JSON.stringify(annotations), /`svc [^`]*\{\{/, alert);
  for (const [where, expr] of asked) {
    const names = expr.match(/\bsvc_[a-z_]+/g) ?? [];
    assert.ok(names.length > 0 || expr.startsWith('up{'), where);
    for (const name of names) assert.ok(made.has(name) || made.has(base(name)), `${where}: ${name}`);
    const depth = [...expr].reduce((open, one) => open + (one === '(' ? 1 : one === ')' ? -1 : 0), 0);
    assert.equal(depth, 0, expr);
  }
  const page = readFileSync(join(root, 'docs/reference/metrics.md'), 'utf8');
  const told = new Set(page.match(/\bsvc_[a-z_]+/g));
  const text = await metrics();
  for (const [, name] of text.matchAll(/^# TYPE (svc_[a-z_]+) /gm))
    assert.ok(told.has(name ?? ''), `the page has no ${name}`);
  // Most are made with the first thing that they count.
  for (const name of known(/\.(?:counter|gauge|histogram)\(\s*'(svc_[a-z_]+)'/g))
    assert.ok(told.has(name), `the page has no ${name}`);
  for (const name of told) assert.ok(made.has(name), `nothing makes ${name}`);
  // The expressions of the dashboard are parsed as rules that record them.
  const recorded = panels
    .flatMap(({ targets }) => targets)
    .map(({ expr }, index) => ({
      record: `dashboard:${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$__range', '1h'),
    }));
  await promtool(t, ['check', 'rules', join(root, 'deploy/prometheus/alerts.yaml')]);
  const file = join(daemon.dataDir, 'dashboard.json');
  await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
  await promtool(t, ['check', 'rules', file]);
  await promtool(t, ['check', 'metrics'], text);
});

async function promtool(t: { diagnostic(message: string): void }, args: readonly string[], input = ''): Promise<void> {
  const failed = await new Promise<{ readonly code?: unknown; readonly stderr?: string } | null>((resolve) => {
    const child = execFile('promtool', [...args], (error, _stdout, stderr) => resolve(error && { ...error, stderr }));
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
  if (failed?.code === 'ENOENT')
    t.diagnostic('no promtool on this machine: the rules were read, their expressions not parsed');
  else assert.equal(failed, null, failed?.stderr);
}
