// What a command line does before and between its requests: misuse is told first, Ctrl-C ends what waits, a server that is
// away is waited for where that was asked, and a bad end is told where failures are.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, beforeEach, test } from 'node:test';
import { runCli } from '../../internal/edge/cli/cli.ts';
import { callSvc, emptyHome, runSvc } from './testkit.ts';

let home: Awaited<ReturnType<typeof emptyHome>>;
let server: Server;
let asked: string[] = [];
let answer: (request: { readonly method: string; readonly url: string }) => { status: number; body: unknown };

before(async () => {
  home = await emptyHome();
  server = createServer(({ method = '', url = '' }, response) => {
    asked.push(url);
    const { status, body } = answer({ method, url });
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await home.remove();
});
beforeEach(() => {
  asked = [];
  answer = () => ({ status: 200, body: {} });
});

const env = () => ({
  SVC_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  SVC_TOKEN: 'svc_t0ken-of-the-test',
});

test('the daemon of this machine is found where the configuration file says that its data lies', async () => {
  const { SVC_URL, SVC_TOKEN } = env();
  const place = join(home.path, 'of-the-file');
  await mkdir(place);
  const client = { url: SVC_URL, token: SVC_TOKEN, org: 'default', project: 'default' };
  await writeFile(join(place, 'client.json'), JSON.stringify(client));
  await writeFile(join(place, 'contexts.json'), JSON.stringify({ contexts: { prod: client } }));
  await writeFile(join(home.path, 'svc.yaml'), 'dataDir: of-the-file\n');
  await writeFile(join(home.path, 'broken.yaml'), 'dataDir: [\n');
  answer = () => ({ status: 200, body: { name: 'ann', orgs: [], items: [], nextCursor: null } });
  const svc = (line: string, more: object) => callSvc(home.path, line.split(' '), { env: { ...more } });
  const ofFile = { SVC_CONFIG: 'svc.yaml' };
  assert.match((await svc('whoami', ofFile)).stdout, new RegExp(`^ann at ${SVC_URL}, by client\\.json\n`));
  const listed = JSON.parse((await svc('context list --json', ofFile)).stdout) as { items: { name: string }[] };
  assert.deepEqual(
    listed.items.map(({ name }) => name),
    ['local', 'prod'],
  );
  // What is told beside it goes before it, and who says everything needs none.
  assert.match(
    (await svc('whoami', { ...ofFile, SVC_DATA_DIR: 'elsewhere' })).stderr,
    /there is no .*\/elsewhere\/client/,
  );
  const broken = await svc('whoami', { SVC_CONFIG: 'broken.yaml' });
  assert.deepEqual([broken.code, /^svc: SVC_CONFIG/.test(broken.stderr)], [2, true], broken.stderr);
  assert.equal((await svc('whoami', { SVC_CONFIG: 'broken.yaml', ...env() })).code, 0);
});

for (const line of [
  'repo add r --path /srv/r --wait --timeout soon',
  'repo rollback r --wait --timeout soon',
  'repo pin r abc --wait --timeout soon',
  'repo approve r 1 --wait --timeout soon',
  'repo sync r --wait --timeout soon',
]) {
  test(`misused, nothing is asked of the server: svc ${line}`, async () => {
    const { code, stderr } = await callSvc(home.path, line.split(' '), { env: env() });
    assert.equal(code, 2);
    assert.match(stderr, /^svc: --timeout takes a duration such as 60s or 5m, not "soon"\n/);
    assert.deepEqual(asked, []);
  });
}

test('Ctrl-C ends the wait for a consent, and says that the setup goes on', async () => {
  const attempt = {
    attemptId: 'a',
    status: 'awaiting_authorization',
    reason: null,
    authorizationUrl: 'https://e.example',
  };
  answer = ({ method, url }) => {
    if (url.startsWith('/api/v1/connections/errtrack/projects'))
      return { status: 200, body: { items: [], errtrackConnection: { connected: false } } };
    return { status: method === 'POST' ? 201 : 200, body: attempt };
  };
  const stop = new AbortController();
  const { code, stderr } = await runSvc(home.path, ['connect', 'errtrack'], {
    env: env(),
    signal: stop.signal,
    // Behind the first look, in the pause before the next.
    onStderr: (text) => void (text.includes('consent at') && setTimeout(() => stop.abort(), 500)),
  });
  assert.equal(code, 130);
  assert.match(stderr, /\nsvc: stopped waiting; the setup goes on\n.*svc connect errtrack\n$/);
});

test('Ctrl-C ends an export whose reader takes nothing more', async () => {
  answer = () => ({ status: 200, body: { text: 'x'.repeat(1_000_000) } });
  const stop = new AbortController();
  const stdout = new PassThrough();
  const stderr = new PassThrough().setEncoding('utf8');
  stdout.once('readable', () => setTimeout(() => stop.abort(), 200));
  const code = await runCli(['audit', 'export'], {
    stdin: new PassThrough() as unknown as NodeJS.ReadStream,
    stdout: stdout as unknown as NodeJS.WriteStream,
    stderr: stderr as unknown as NodeJS.WriteStream,
    env: env(),
    cwd: home.path,
    home: home.path,
    now: () => new Date(),
    signal: stop.signal,
  });
  assert.deepEqual([code, stderr.read()], [1, 'svc: interrupted\n']);
});

test('a watched list goes on where its server was away, and ends where the right to it did', async () => {
  const secret = (name: string) => ({ name, protected: true, injection: null, expiresAt: null });
  const pages: readonly (readonly string[] | 'cut' | number)[] = [['db'], 'cut', 503, ['db', 'key'], 401];
  let at = 0;
  const flaky = createServer((_, response) => {
    const page = pages[at++] ?? 401;
    if (page === 'cut') return void response.destroy();
    const isError = typeof page === 'number';
    response.writeHead(isError ? page : 200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(isError ? { detail: `answer ${page}` } : { items: page.map(secret), nextCursor: null }),
    );
  });
  await new Promise<void>((resolve) => flaky.listen(0, '127.0.0.1', resolve));
  const { port } = flaky.address() as AddressInfo;
  const env = { SVC_URL: `http://127.0.0.1:${port}`, SVC_TOKEN: 'svc_t0ken-of-the-test' };
  const { code, stdout, stderr } = await callSvc(home.path, ['get', 'secrets', '--watch'], { env });
  flaky.close();
  assert.equal(code, 1);
  assert.match(stdout, /^NAME .*\ndb .*\nkey .*\n$/);
  assert.match(stderr, /^waiting: cannot reach http:.*\nsvc: answer 401\n/);
});

const ended = { id: '1', status: 'applied', startedAt: '2030-01-02T03:04:05Z', stages: [] };
const rotation = { id: '1', status: 'done', done: 0, total: 0, toVersion: 2, retired: [] };
const consent = {
  attemptId: 'a',
  status: 'completed',
  reason: null,
  authorizationUrl: 'https://e.example',
  expiresAt: '',
};
const device = { device_code: 'd', user_code: 'B-C', verification_uri: 'https://e.example', interval: 0.01 };
const made = { access_token: 'svc_t0ken-of-the-test', token_id: 't' };
const setup = (connected: boolean) => ({ items: [], errtrackConnection: { connected } });
for (const { line, look, before = [], found, others } of [
  { line: 'repo sync r --wait', look: /reconciles\/1$/, found: ended, others: { reconcileId: '1' } },
  { line: 'keys rotate', look: /keys$/, found: { current: 2, versions: [], rotation }, others: rotation },
  {
    line: 'connect mcp docs',
    look: /attempts\/a$/,
    found: consent,
    others: { ...consent, name: 'docs', provider: 'mcp' },
  },
  { line: 'connect errtrack', look: /projects\?/, before: [setup(false)], found: setup(true), others: consent },
  { line: 'login', look: /oauth\/token$/, found: made, others: { ...device, name: 'ann', orgs: [] } },
] as const) {
  test(`a wait goes on where the server was away: svc ${line}`, async () => {
    const looks = [...before.map((body) => ({ status: 200, body })), 'cut', 503, { status: 200, body: found }] as const;
    let at = 0;
    const flaky = createServer(({ url = '' }, response) => {
      const said = look.test(url) ? (looks[at++] ?? { status: 200, body: found }) : { status: 200, body: others };
      if (said === 'cut') return void response.destroy();
      const { status, body } = said === 503 ? { status: said, body: { detail: 'away' } } : said;
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => flaky.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(flaky.address() as AddressInfo).port}`;
    const { code, stderr } = await callSvc(home.path, line.split(' '), { env: { ...env(), SVC_URL: url } });
    flaky.close();
    assert.equal(code, 0, stderr);
    assert.ok(at >= looks.length, String(at));
  });
}

test('a token that cannot be kept is not left behind, and the reason is told in a line', async () => {
  const place = join(home.path, 'file');
  await writeFile(place, '');
  answer = ({ url }) => ({
    status: 200,
    body: /oauth\/token$/.test(url) ? made : { ...device, name: 'ann', orgs: [] },
  });
  for (const line of ['login', `context add prod --url ${env().SVC_URL} --token svc_t0ken`]) {
    const ran = await callSvc(home.path, [...line.split(' '), '--data-dir', join(place, 'data')], { env: env() });
    assert.equal(ran.code, 1);
    assert.match(ran.stderr, /^svc: .*\.json cannot be written \((?:EEXIST|ENOTDIR)\)\n$/m);
  }
  assert.ok(asked.includes('/api/v1/tokens/t'), asked.join(' '));
});

test('a watched list of the newest tells whatever came, and neither what newer things push out of it nor what is let in again', async () => {
  const event = (id: string) => ({ id, key: `webhook.${id}`, routerStatus: 'routed', routes: [] });
  const looks = ['ba', 'cba', 'ca', 'dca', 'fedca', 'jihgfedca', 'onml'];
  let at = -1;
  answer = ({ url }) => {
    const limit = Number(new URL(url, 'http://local').searchParams.get('limit'));
    // Whoever looks again asks for two; more of the same are asked for where these are not enough.
    if (limit === 2) at += 1;
    const all = looks[at];
    if (all === undefined) return { status: 401, body: { detail: 'over' } };
    const items = [...all.slice(0, limit)].map(event);
    return { status: 200, body: { items, nextCursor: items.length < all.length ? 'x' : null } };
  };
  const line = ['event', 'list', '--watch', '--limit', '2', '--json'];
  const { stdout } = await callSvc(home.path, line, { env: env() });
  const told = stdout
    .split('\n')
    .slice(0, -1)
    .map((text) => JSON.parse(text) as { id: string; deleted?: true });
  assert.deepEqual(
    told.map(({ id, deleted = false }) => `${id}${deleted ? ' gone' : ''}`),
    // Of the last look nobody can say what of it is new: as many as there is room for.
    ['b', 'a', 'c', 'b gone', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'n', 'o'],
  );
});

test('a watched list that was empty tells all that came, however little was asked for', async () => {
  const looks = ['', 'edcba'];
  let at = -1;
  answer = ({ url }) => {
    const limit = Number(new URL(url, 'http://local').searchParams.get('limit'));
    if (limit === 2) at += 1;
    const all = looks[at];
    if (all === undefined) return { status: 401, body: { detail: 'over' } };
    const items = [...all.slice(0, limit)].map((id) => ({ id, key: 'webhook.a', routerStatus: 'routed', routes: [] }));
    return { status: 200, body: { items, nextCursor: items.length < all.length ? 'x' : null } };
  };
  const line = ['event', 'list', '--watch', '--limit', '2', '-o', 'json'];
  const { stdout } = await callSvc(home.path, line, { env: env() });
  assert.equal([...stdout.matchAll(/"id":\s*"(.)"/g)].map(([, id]) => id).join(''), 'abcde');
});

test('what leaves a watched list that is filtered is not told as gone: it may only match no more', async () => {
  const looks = [[{ id: 'a', state: 'idle', live: true }], []];
  for (const [line, told] of [
    ['session list --watch --live --json', { id: 'a', state: 'idle', live: true, matches: false }],
    ['session list --watch --json', { id: 'a', state: 'idle', live: true, deleted: true }],
  ] as const) {
    let at = 0;
    answer = () => {
      const items = looks[at++];
      return items === undefined
        ? { status: 401, body: { detail: 'over' } }
        : { status: 200, body: { items, nextCursor: null } };
    };
    const { stdout } = await callSvc(home.path, line.split(' '), { env: env() });
    assert.deepEqual(JSON.parse(stdout.split('\n').at(-2) ?? ''), told);
  }
});

test('a list of what belongs to a thing that is not there says so, with the nearest that is', async () => {
  answer = ({ url }) => {
    const names = url.includes('/repositories') ? ['away'] : url.includes('/endpoints') ? ['reports'] : [];
    return { status: 200, body: { items: names.map((name) => ({ name })), nextCursor: null } };
  };
  for (const [line, code, said] of [
    ['reconcile list --repo awey', 1, 'svc: there is no repository awey\ndid you mean away?\n'],
    ['get reconciles --repo awey', 1, 'svc: there is no repository awey\ndid you mean away?\n'],
    ['reconcile logs --repo awey', 1, 'svc: there is no repository awey\ndid you mean away?\n'],
    ['event list --endpoint report', 1, 'svc: there is no endpoint report\ndid you mean reports?\n'],
    ['reconcile list --repo away --status applied', 0, 'no such runs\n'],
    ['event list --endpoint reports --status failed', 0, 'no events\n'],
  ] as const) {
    const ran = await callSvc(home.path, line.split(' '), { env: env() });
    assert.deepEqual([ran.code, ran.stdout + ran.stderr], [code, said], line);
  }
});

test('runs that are told as JSON are one document, oldest first, unless they are followed', async () => {
  const run = (id: string) => ({ id, status: 'applied', startedAt: '2030-01-02T03:04:05Z' });
  const logs = async (...args: string[]) =>
    JSON.parse((await callSvc(home.path, ['reconcile', 'logs', '--json', ...args], { env: env() })).stdout) as unknown;
  answer = () => ({ status: 200, body: { items: [run('b'), run('a')], nextCursor: null } });
  assert.deepEqual(await logs(), { items: [run('a'), run('b')], nextCursor: null });
  assert.deepEqual(await logs('--limit', '0'), { items: [], nextCursor: null });
});

test('a receiver that has not taken a test is told of with the reason where failures are', async () => {
  answer = () => ({ status: 200, body: { name: 'pager', status: 'refused', code: 'receiver-answered-410' } });
  const told = await callSvc(home.path, ['notify', 'test', 'pager'], { env: env() });
  const stderr = 'svc: pager has not taken the test: receiver-answered-410\n';
  assert.deepEqual(told, { code: 1, stdout: '', stderr });
});
