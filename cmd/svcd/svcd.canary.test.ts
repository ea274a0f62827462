// One value, written in every way the API takes one and in a thousand ways it does not (ten thousand with SVC_LONG=1),
// is afterwards found in the one answer that reveals it and nowhere else.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { createLog } from '../../internal/base/log/log.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import type { Database } from '../../internal/adapters/store/store.ts';
import { createSecret, resolveSecrets } from '../../internal/flows/secrets/secrets.ts';
import { emptyHome, runSvc } from '../svc/testkit.ts';

const canary = 'c4naryVa1ueThatMustNotBeSeen';
const malformedCount = process.env['SVC_LONG'] === '1' ? 10_000 : 1_000;
/** The value as it could hide: plain, in base64 at each of three offsets, as the bytes of a dump. */
const shapes = [
  canary.toLowerCase(),
  Buffer.from(canary).toString('hex'),
  ...[0, 1, 2].map((offset) =>
    Buffer.from('x'.repeat(offset) + canary)
      .toString('base64')
      .slice(4, -4)
      .toLowerCase(),
  ),
];
const holds = (text: string): boolean => shapes.some((shape) => text.toLowerCase().includes(shape));

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  readonly headers?: { readonly [name: string]: string };
}

const p = '/api/v1/orgs/default/projects/default';
const o = '/api/v1/orgs/default';

function pick<T>(list: readonly T[], random: () => number): T {
  return list[random() % list.length] as T;
}

/** Requests that are wrong somewhere, with the value somewhere in them. */
function* malformed(count: number): Generator<Sent> {
  let state = 42;
  const random = (): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 1) >>> 8;
  const junk: readonly (() => unknown)[] = [
    () => canary,
    () => [canary],
    () => ({ value: canary }),
    () => ({ [canary]: canary }),
    () => [[[{ v: canary }]]],
    () => `${canary}\0`,
    () => `${canary}\ud800`,
    () => canary.repeat(3_000),
    () => null,
    () => 7,
    () => true,
    () => '',
  ]; // prettier-ignore
  const keys = [
    'value',
    'description',
    'protected',
    'expiresAt',
    'idleExpirySeconds',
    'injection',
    'credentials',
    'config',
    'provider',
    'name',
    'role',
    'email',
    'url',
    'auth',
    'files',
    'context',
    canary,
  ]; // prettier-ignore
  const targets: readonly (readonly [string, string])[] = [
    ['PUT', `${p}/secrets/M`],
    ['PATCH', `${p}/secrets/M`],
    ['POST', `${p}/secrets/M/rotate`],
    ['POST', `${p}/secrets/M/reveal`],
    ['PUT', `${o}/secrets/M`],
    ['PATCH', `${o}/secrets/M`],
    ['POST', `${o}/secrets/M/rotate`],
    ['POST', `${p}/connections`],
    ['PUT', `${p}/secrets/bad%20name`],
    ['DELETE', `${p}/secrets/M`],
    ['POST', `${p}/secrets`],
    ['GET', `${p}/secrets`],
    ['PUT', `/api/v1/orgs/none/secrets/M`],
    ['POST', '/api/v1/keys/rotate'],
    ['PUT', `${p}/nothing`],
    ['OPTIONS', `${p}/secrets/M`],
  ]; // prettier-ignore
  // Calls that take no value: there a refusal may name a key that is unknown, and nothing that stood at it.
  const others: typeof targets = [
    ['POST', '/api/v1/tokens'],
    ['POST', '/api/v1/orgs'],
    ['POST', `${o}/tokens`],
    ['POST', `${o}/members`],
    ['POST', `${o}/service-accounts`],
    ['POST', `${p}/repositories`],
    ['POST', `${p}/repositories/probe`],
    ['POST', `${p}/apply`],
    ['POST', `${p}/triggers/explain`],
    ['PATCH', p],
    ['GET', `${p}/audit`],
    ['GET', `${p}/events`],
  ]; // prettier-ignore
  for (let n = 0; n < count; n += 1) {
    const takesNone = random() % 3 === 0;
    const [method, path] = pick(takesNone ? others : targets, random);
    const body: { [key: string]: unknown } = {};
    for (let k = random() % 4; k >= 0; k -= 1)
      body[pick(takesNone ? keys.slice(0, -1) : keys, random)] = pick(junk, random)();
    // Always wrong, whatever else it holds.
    body[takesNone ? 'extra' : pick(['extra', canary], random)] = canary;
    let text = JSON.stringify(body);
    const damage = random() % 6;
    if (damage === 0) text = text.slice(0, random() % text.length);
    if (damage === 1) text = `${text}${canary}`;
    if (damage === 2) text = `${'['.repeat(150)}"${canary}"`;
    if (damage === 3) text = canary;
    const headers: { [name: string]: string } = {};
    const oddity = random() % 8;
    if (oddity === 0) headers['content-type'] = 'text/plain';
    if (oddity === 1) headers['content-encoding'] = 'gzip';
    if (oddity === 2) headers['authorization'] = `Bearer ${canary}`;
    if (oddity === 3) headers['authorization'] = `Basic ${Buffer.from(canary).toString('base64')}`;
    const query =
      random() % 5 === 0
        ? pick(
            [`?value=${canary}`, takesNone ? '?extra=1' : `?${canary}=1`, `?limit=${canary}`, `?cursor=${canary}`],
            random,
          )
        : '';
    const hasBody = method !== 'GET' && method !== 'OPTIONS';
    yield { method, path: `${path}${query}`, headers, ...(hasBody && { body: text }) };
  }
}

async function send(daemon: TestDaemon, sent: Sent): Promise<{ status: number; text: string }> {
  const response = await fetch(`${daemon.url}${sent.path}`, {
    method: sent.method,
    headers: { authorization: `Bearer ${daemon.token}`, 'content-type': 'application/json', ...sent.headers },
    ...(sent.body !== undefined && { body: sent.body }),
  });
  const headers = JSON.stringify([...response.headers]);
  return { status: response.status, text: `${headers}\n${await response.text()}` };
}

/** Everything that a dump of the database holds, bytes as hexadecimal digits. */
async function dump(db: Database): Promise<string> {
  const { rows: tables } = await db.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
      where schemaname in ('svc', 'graphile_worker') order by 1`,
  );
  const parts: string[] = [];
  for (const { name } of tables) {
    const { rows } = await db.query<{ text: string }>(`select t::text as text from ${name} t`);
    parts.push(name, ...rows.map((row) => row.text));
  }
  return parts.join('\n');
}

/** Arguments and environment of every process of the machine, again and again until stopped; each text once. */
async function watchProcesses(signal: AbortSignal): Promise<ReadonlySet<string>> {
  const seen = new Set<string>();
  while (!signal.aborted) {
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      for (const file of ['cmdline', 'environ'])
        seen.add(await readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => ''));
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return seen;
}

/** Every way in which the API takes a value, and each answer. */
async function writeEverywhere(daemon: TestDaemon): Promise<string[]> {
  const good: readonly (readonly [string, string, unknown])[] = [
    ['PUT', `${p}/secrets/A`, { value: canary, protected: false }],
    ['PUT', `${p}/secrets/A`, { value: canary, protected: false, injection: { hosts: ['a.test'], header: 'X' } }],
    ['POST', `${p}/secrets/A/rotate`, { value: canary }],
    ['PATCH', `${p}/secrets/A`, { description: 'd' }],
    ['PUT', `${o}/secrets/B`, { value: canary }],
    ['POST', `${o}/secrets/B/rotate`, { value: canary }],
    ['POST', `${o}/secrets/B/reveal`, undefined],
    [
      'POST',
      `${p}/connections`,
      { provider: 'codehost', name: 'c1', credentials: { webhookSecret: canary, privateKey: canary } },
    ],
    [
      'POST',
      `${p}/connections`,
      { provider: 'tracker', name: 'c2', credentials: { webhookSecret: canary, apiKey: canary } },
    ],
    [
      'POST',
      `${p}/connections`,
      { provider: 'chat', name: 'c3', credentials: { signingSecret: canary, botToken: canary } },
    ],
    ['POST', `${p}/connections`, { provider: 'chat', name: 'c3', credentials: { signingSecret: canary } }],
    ...['secrets', 'secrets/A', 'connections', 'connections/c1', 'audit', 'events', 'doctor'].map(
      (path) => ['GET', `${p}/${path}`, undefined] as const,
    ),
    ['GET', `${o}/secrets`, undefined],
    ['GET', `${o}/audit`, undefined],
    ['GET', '/api/v1/keys', undefined],
    ['GET', '/metrics', undefined],
  ]; // prettier-ignore
  const answers: string[] = [];
  for (const [method, path, body] of good) {
    const answer = await send(daemon, { method, path, ...(body !== undefined && { body: JSON.stringify(body) }) });
    assert.ok(answer.status < 500, answer.text);
    answers.push(answer.text);
  }
  return answers;
}

test('a value is found in no answer but the one reveal, in no log, no table, no argument', async () => {
  let log = '';
  const stream = { write: (line: string) => void (log += line) };
  const daemon = await startTestDaemon({ log: createLog('trace', stream) });
  const home = await emptyHome();
  const ended = new AbortController();
  try {
    const answers = await writeEverywhere(daemon);
    const watching = watchProcesses(ended.signal);
    const env = { SVC_URL: daemon.url, SVC_TOKEN: daemon.token };
    const ran = await runSvc(home.path, ['secret', 'set', 'cli', '--from-file', '-'], { env, stdin: canary });
    assert.equal(ran.code, 0, ran.stderr);
    answers.push(ran.stdout, ran.stderr);

    const { rows } = await daemon.database.db.query<{ id: string; slug: string; orgId: string; orgSlug: string }>(
      `select p.id, p.slug, o.id as "orgId", o.slug as "orgSlug" from svc.projects p join svc.orgs o on o.id = p.org_id`,
    );
    const [project] = rows;
    assert.ok(project);
    const scope = { orgId: project.orgId, projectId: project.id };
    const session = { kind: 'session', id: null, name: 'agent' } as const;
    answers.push(JSON.stringify(await createSecret(daemon.ctx, scope, session, { name: 'S', value: canary })));
    const uses = [{ variable: 'V', name: 'S' }];
    const resolved = await resolveSecrets(daemon.ctx, project, uses, { session: 's', mode: 'env' });
    assert.equal(String(resolved.env.get('V')), canary);

    const statuses = new Map<number, number>();
    for (const sent of malformed(malformedCount)) {
      const { status, text } = await send(daemon, sent);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      answers.push(text);
      assert.ok(!holds(text), `${sent.method} ${sent.path} answers with it: ${text.slice(0, 500)}`);
      assert.ok(status < 500, `${sent.method} ${sent.path} ${sent.body}: ${text}`);
    }
    assert.ok((statuses.get(400) ?? 0) > malformedCount / 4, JSON.stringify([...statuses]));
    ended.abort();

    for (const text of answers) assert.ok(!holds(text), text.slice(0, 500));
    assert.ok(!holds(log), 'the log holds it');
    assert.ok(log.includes('http.answered'), 'the log was at its most talkative');
    const shown = await watching;
    assert.ok(shown.size > 2, 'processes were seen');
    for (const text of shown) assert.ok(!holds(text), 'an argument holds it');
    const stored = await dump(daemon.database.db);
    assert.ok(!holds(stored), 'a table holds it');
    assert.match(stored, /secret.rotated/);

    const revealed = await send(daemon, { method: 'POST', path: `${p}/secrets/A/reveal` });
    assert.ok(holds(revealed.text), 'the one reveal');
    assert.ok(!holds(log));
  } finally {
    ended.abort();
    await daemon.stop();
    await home.remove();
  }
});
