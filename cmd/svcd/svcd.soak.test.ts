// What a daemon holds while it works for long: rounds of all that people and programs ask of it, each under names of its own,
// and behind each what lives in it. In the long form alone (make test-long): a round takes half a minute.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import {
  type Api,
  apiClient,
  type ApiAnswer,
  readClientFile,
  spawnDaemon,
  type SpawnedDaemon,
} from '../../internal/base/testkit/daemon.ts';
import { GitFixture } from '../../internal/base/testkit/git-fixture.ts';
import { GitServer } from '../../internal/base/testkit/git-server.ts';
import type { Held } from '../../internal/base/testkit/heap-probe.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { eventually } from '../../internal/flows/session-host/host-crash-testkit.ts';

/** Until what is asked again and again is there, and caches are as full as they become. */
const warmRounds = 8;
const rounds = 24;
/** Looks of which the middle one counts: one of them may fall into work that the daemon does by itself. */
const looks = 5;
/** Bytes that a round may leave behind: some 100 for each of its deliveries. */
const leftMost = 20 * 1_024;
const probe = fileURLToPath(new URL('../../internal/base/testkit/heap-probe.ts', import.meta.url));

const head = (name: string, harness: string): string =>
  `name: ${name}\nharness: ${harness}\nenvironment: { name: default, image: { kind: preset, name: base } }\n`;
const hooked = (name: string, harness: string, endpoint: string): string =>
  `${head(name, harness)}triggers:\n  - event: webhook.received\n    endpoint: ${endpoint}\n    auth: { kind: none }\n` +
  "    where: { $.go: true }\n    message: 'from {{n}}'\n    routing: { kind: spawn }\n";

interface Place {
  readonly daemon: SpawnedDaemon;
  readonly url: string;
  readonly token: string;
  readonly api: Api;
  readonly git: GitFixture;
  readonly files: { [path: string]: string };
  readonly ingestUrl: string;
}

const must = (answer: ApiAnswer, ...statuses: readonly number[]): ApiAnswer => {
  assert.ok(statuses.includes(answer.status), `${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer;
};

/** Deliveries, some with a body of forty kilobytes; one in a hundred starts a session. */
async function deliver({ ingestUrl }: Place): Promise<void> {
  for (let n = 0; n < 200; n += 1) {
    const body = JSON.stringify({ n, go: n % 100 === 0, pad: 'x '.repeat(n % 7 === 0 ? 20_000 : 10) });
    const answer = await fetch(ingestUrl, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    assert.equal(answer.status, 202, await answer.text());
  }
}

/** Agents that go and come, with their endpoints. */
async function push({ api, git, files }: Place, round: number): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    for (let one = 0; one < 4; one += 1) {
      const name = `agent-${round}-${turn}-${one}`;
      files[`.svc/agents/changing-${one}.yaml`] = hooked(name, 'harness-b', `in-${round}-${turn}-${one}`);
    }
    const commit = await git.commit(files);
    must(await api('POST', 'P/repositories/fleet/sync'), 202);
    await eventually('the push', async () => {
      const { body } = await api('GET', 'P/repositories/fleet');
      return String(body['appliedCommit']) === commit;
    });
  }
}

/** Requests that break off in the middle of their body. */
async function breakOff({ url, ingestUrl }: Place): Promise<void> {
  const { hostname, port } = new URL(url);
  for (let n = 0; n < 40; n += 1) {
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    socket.write(`POST ${new URL(ingestUrl).pathname} HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n{"a":`);
    await sleep(20);
    socket.destroy();
  }
}

/** Streams that are followed for a moment. */
async function follow({ url, token }: Place): Promise<void> {
  for (let n = 0; n < 20; n += 1) {
    const ended = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const stream = `${url}/api/v1/orgs/default/projects/default/reconciles/stream`;
    const answer = await fetch(stream, { headers, signal: ended.signal });
    assert.equal(answer.status, 200);
    await sleep(50);
    ended.abort();
  }
}

/** Sessions of a scripted agent that are spoken to, read and archived. */
async function speak({ api }: Place): Promise<void> {
  for (let n = 0; n < 5; n += 1) {
    const { body } = must(await api('POST', 'P/agents/worker/sessions', { message: 'hello' }), 201);
    const session = `P/sessions/${String(body['id'])}`;
    for (let turn = 0; turn < 3; turn += 1) must(await api('POST', `${session}/messages`, { text: `${turn}` }), 202);
    await eventually('its turns', async () => {
      const { body: now } = await api('GET', session);
      return String(now['state']) === 'idle' && Number(now['inbox']?.['pending']) === 0;
    });
    must(await api('GET', `${session}/messages`), 200);
    must(await api('POST', `${session}/archive`), 200);
  }
}

const lists = [
  'agents',
  'events',
  'sessions',
  'reconciles',
  'triggers',
  'secrets',
  'bindings',
  'endpoints',
  'schedules',
];

/** What comes and goes: secrets, projects, repositories that nobody answers for, plans that are refused. */
async function manage({ api, url }: Place, round: number): Promise<void> {
  for (let n = 0; n < 10; n += 1) {
    const name = `one-${round}-${n}`;
    must(await api('PUT', `P/secrets/${name}`, { value: 'a value' }), 201);
    must(await api('DELETE', `P/secrets/${name}`), 204);
    must(await api('POST', '/api/v1/orgs/default/projects', { name, slug: name }), 201);
    must(await api('DELETE', `/api/v1/orgs/default/projects/${name}`), 200, 202, 204);
    const gone = { name, url: `http://127.0.0.1:1/${name}.git`, intervalSeconds: 3_600 };
    must(await api('POST', 'P/repositories', gone), 201);
    must(await api('DELETE', `P/repositories/${name}`), 200, 204);
    for (const list of lists) must(await api('GET', `P/${list}?limit=50`), 200);
    const broken = [
      { path: '.svc/agents/broken.yaml', content: `${head(name, 'harness-b')}triggers: [{ event: ${name} }]` },
    ];
    must(await api('POST', 'P/apply', { files: broken, dryRun: true, prune: false }), 422);
    must(await api('GET', `P/agents/${name}`), 404);
    assert.equal((await fetch(`${url}/metrics`)).status, 200);
  }
}

/** Ends what deliveries began: one that rests keeps its harness while nobody waits for its place. */
async function end({ api }: Place): Promise<void> {
  const { body } = must(await api('GET', 'P/sessions?live=true&limit=100'), 200);
  for (const { id } of Array.from(body['items'] as unknown as readonly { readonly id: string }[]))
    must(await api('POST', `P/sessions/${id}/archive`), 200);
}

async function heldBy({ daemon }: Place): Promise<Held> {
  const told = (): string[] => daemon.stderr().match(/^held .*$/gm) ?? [];
  const before = told().length;
  process.kill((await daemon.ready).pid, 'SIGUSR2');
  await eventually('what it holds', () => told().length > before);
  return JSON.parse((told().at(-1) ?? '').slice('held '.length)) as Held;
}

async function begin(dir: string, databaseUrl: string, server: GitServer, git: GitFixture): Promise<Place> {
  const key = join(dir, 'master.key');
  await writeFile(key, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  const env = {
    SVC_DATABASE_URL: databaseUrl,
    SVC_MASTER_KEY_FILE: key,
    SVC_ALLOW_PRIVATE_NETWORK: 'true',
    SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
    SVC_SANDBOX: 'process',
    SVC_LOG_LEVEL: 'error',
    NODE_OPTIONS: `--import=${probe}`,
  };
  const daemon = spawnDaemon({ dataDir: join(dir, 'data'), env });
  const { url } = await daemon.ready;
  const { token } = readClientFile(daemon.dataDir);
  const api = apiClient(url, token);
  const files: Place['files'] = { '.svc/agents/worker.yaml': hooked('worker', 'harness-a', 'in') };
  for (let one = 0; one < 8; one += 1) files[`.svc/agents/staying-${one}.yaml`] = head(`staying-${one}`, 'harness-b');
  await git.commit(files);
  const added = { name: 'fleet', url: server.url('fleet.git'), intervalSeconds: 3_600 };
  must(await api('POST', 'P/repositories', added), 201);
  let ingestUrl = '';
  await eventually('the first sync', async () => {
    const { body } = await api('GET', 'P/endpoints/in');
    ingestUrl = String(body['ingestUrl'] ?? '');
    return ingestUrl !== '';
  });
  return { daemon, url, token, api, git, files, ingestUrl };
}

test('a daemon that works for long holds no more than one that has just warmed up', {
  skip: !isLong && 'in the long form alone',
}, async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-soak-'));
  const database = await createTestDatabase();
  await mkdir(join(dir, 'git'));
  const git = await GitFixture.create(join(dir, 'git', 'fleet.git'));
  const server = await new GitServer({ root: join(dir, 'git') }).start();
  const place = await begin(dir, database.url, server, git);
  try {
    const all: Held[] = [];
    for (let round = 0; round < warmRounds + rounds; round += 1) {
      await Promise.all([
        deliver(place),
        push(place, round),
        breakOff(place),
        follow(place),
        speak(place),
        manage(place, round),
      ]);
      await eventually('everything to be routed', async () => {
        const { body } = await place.api('GET', 'P/events?status=pending&limit=1');
        return Array.from(body['items'] as unknown as readonly unknown[]).length === 0;
      });
      await end(place);
      all.push(await heldBy(place));
    }
    const middle = (of: readonly Held[], what: keyof Held): number =>
      of.map((one) => one[what]).sort((x, y) => x - y)[Math.floor(of.length / 2)] ?? 0;
    const grown = (what: keyof Held): number =>
      middle(all.slice(-looks), what) - middle(all.slice(warmRounds, warmRounds + looks), what);
    t.diagnostic(`held behind each round: ${JSON.stringify(all)}`);
    for (const what of ['heap', 'external'] as const) {
      const each = grown(what) / (rounds - looks);
      assert.ok(each < leftMost, `${what}: ${Math.round(each)} bytes more behind each round`);
    }
    assert.ok(grown('files') < 20, `${grown('files')} open files more`);
    assert.equal(place.daemon.stderr().replace(/^held .*\n/gm, ''), '');
  } finally {
    await place.daemon.kill('SIGTERM');
    await server.stop();
    await database.close();
    await rm(dir, { recursive: true, force: true });
  }
});
