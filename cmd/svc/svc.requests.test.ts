// What the thin clients send, seen from the other end of the wire: path, method and body of each call as the API has it,
// pages followed, and values that appear nowhere but in the request.

import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { callSvc, emptyHome, type Ran, runSvc, type RunOptions } from './testkit.ts';

const p = '/api/v1/orgs/acme/projects/ops';
const value = 'v4lue-that-is-secret';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

let home: Awaited<ReturnType<typeof emptyHome>>;
let server: Server;
let seen: Seen[] = [];
let answer: (request: Seen) => { readonly status: number; readonly body?: unknown };

async function read(request: IncomingMessage): Promise<Seen> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  const { method = '', url = '', headers } = request;
  return { method, url, authorization: headers.authorization, body: text === '' ? undefined : JSON.parse(text) };
}

before(async () => {
  home = await emptyHome();
  server = createServer((request, response) => {
    void read(request).then((one) => {
      seen.push(one);
      const { status, body } = answer(one);
      response.writeHead(status, { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await home.remove();
});
beforeEach(() => {
  seen = [];
  answer = () => ({ status: 200, body: {} });
});

function svc(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { port } = server.address() as AddressInfo;
  const env = {
    SVC_URL: `http://127.0.0.1:${port}`,
    SVC_TOKEN: 'svc_t0ken-of-the-test',
    SVC_ORG: 'acme',
    SVC_PROJECT: 'ops',
  };
  return (options.signal ? runSvc : callSvc)(home.path, args, { ...options, env: { ...env, ...options.env } });
}

interface Case {
  readonly args: readonly string[];
  readonly stdin?: string;
  readonly call: string;
  readonly body?: unknown;
}

const cases: readonly Case[] = [
  {
    args: ['secret', 'set', 'db', '--from-file', '-', '--description', 'D', '--unprotected'],
    stdin: `${value}\n`,
    call: `PUT ${p}/secrets/db`,
    body: { value: value, description: 'D', protected: false },
  },
  {
    args: [
      'secret',
      'set',
      'db',
      '--org',
      '--from-file',
      '-',
      '--idle-expiry',
      '30d',
      '--inject-host',
      'a.example',
      '--inject-host',
      'b.example',
      '--inject-header',
      'X-Key',
    ],
    stdin: value,
    call: 'PUT /api/v1/orgs/acme/secrets/db',
    body: {
      value: value,
      idleExpirySeconds: 2_592_000,
      injection: { hosts: ['a.example', 'b.example'], header: 'X-Key' },
    },
  },
  {
    args: ['secret', 'edit', 'db', '--protect', '--expires-at', '2030-01-01'],
    call: `PATCH ${p}/secrets/db`,
    body: { protected: true, expiresAt: '2030-01-01T00:00:00.000Z' },
  },
  {
    args: ['secret', 'rotate', 'db', '--from-file', '-'],
    stdin: value,
    call: `POST ${p}/secrets/db/rotate`,
    body: { value: value },
  },
  { args: ['secret', 'delete', 'db', '--org=other', '--force'], call: 'DELETE /api/v1/orgs/other/secrets/db' },
  {
    args: ['agent', 'start', 'a/b', '--message', 'go', '--input', '-'],
    stdin: '{"x":1}',
    call: `POST ${p}/agents/a%2Fb/sessions`,
    body: { message: 'go', input: { x: 1 } },
  },
  {
    args: ['trigger', 'explain', '--event', 'webhook.received', '--endpoint', 'e', '--payload', '-'],
    stdin: '[1]',
    call: `POST ${p}/triggers/explain`,
    body: { event: 'webhook.received', endpoint: 'e', payload: [1] },
  },
  { args: ['event', 'replay', 'E1'], call: `POST ${p}/events/E1/replay` },
  {
    args: ['session', 'send', 'S1', 'hello there'],
    call: `POST ${p}/sessions/S1/messages`,
    body: { text: 'hello there' },
  },
  { args: ['session', 'archive', 'S1'], call: `POST ${p}/sessions/S1/archive`, body: {} },
  { args: ['binding', 'release', 'B1'], call: `DELETE ${p}/bindings/B1`, body: {} },
  { args: ['notify', 'edit', 'hook', '--suspend'], call: `PATCH ${p}/receivers/hook`, body: { suspended: true } },
  {
    args: ['notify', 'add', 'webhook', 'hook', '--url', 'https://h.example', '--from-file', '-', '--on', 'sync-failed'],
    stdin: `${value}\n`,
    call: `POST ${p}/receivers`,
    body: { name: 'hook', kind: 'webhook', conditions: ['sync-failed'], url: 'https://h.example', secret: value },
  },
  {
    args: ['project', 'set', '--approver', 'chat:U1', '--approver', 'tracker:', '--notify', 'off'],
    call: `PATCH ${p}`,
    body: { approvers: { chat: ['U1'], tracker: [] }, notify: false },
  },
  { args: ['notify', 'remove', 'hook', '--reason', 'r'], call: `DELETE ${p}/receivers/hook`, body: { reason: 'r' } },
  { args: ['connection', 'remove', 'gh'], call: `DELETE ${p}/connections/gh` },
  { args: ['connection', 'disconnect', 'gh'], call: `DELETE ${p}/connections/gh` },
  { args: ['connection', 'show', 'gh'], call: `GET ${p}/connections/gh` },
  {
    args: ['connection', 'add', 'codehost', 'gh', '--from-file', '-', '--app-id', '7', '--bot-login', 'svc[bot]'],
    stdin: `${value}\n`,
    call: `POST ${p}/connections`,
    body: {
      provider: 'codehost',
      name: 'gh',
      config: { appId: '7', botLogin: 'svc[bot]' },
      credentials: { webhookSecret: value },
    },
  },
  { args: ['repo', 'release', 'r'], call: `POST ${p}/repositories/r/release`, body: undefined },
  { args: ['repo', 'rollback', 'r'], call: `POST ${p}/repositories/r/rollback`, body: {} },
  {
    args: ['repo', 'rollback', 'r', 'abcd1234'],
    call: `POST ${p}/repositories/r/rollback`,
    body: { commit: 'abcd1234' },
  },
  { args: ['repo', 'pin', 'r', 'abcd1234'], call: `POST ${p}/repositories/r/pin`, body: { commit: 'abcd1234' } },
  { args: ['repo', 'unpin', 'r'], call: `POST ${p}/repositories/r/unpin` },
  { args: ['repo', 'approve', 'r', 'R1'], call: `POST ${p}/repositories/r/approve`, body: { reconcileId: 'R1' } },
  { args: ['repo', 'remove', 'r', '--keep-resources'], call: `DELETE ${p}/repositories/r?keepResources=true` },
  {
    args: ['repo', 'probe', 'https://git.example/x.git', '--secret', 'tok', '--username', 'u'],
    call: `POST ${p}/repositories/probe`,
    body: { url: 'https://git.example/x.git', auth: { kind: 'token', secretRef: 'tok', username: 'u' } },
  },
  {
    args: [
      'repo',
      'add',
      'r',
      '--url',
      'https://git.example/x.git',
      '--branch',
      'b',
      '--root',
      'd',
      '--interval',
      '2h',
      '--connection',
      'gh',
      '--adopt',
      '--suspend',
      '--delete-max',
      '9',
    ],
    call: `POST ${p}/repositories`,
    body: {
      name: 'r',
      url: 'https://git.example/x.git',
      branch: 'b',
      root: 'd',
      intervalSeconds: 7200,
      auth: { kind: 'connection', connection: 'gh' },
      adopt: true,
      guard: { deleteMax: 9 },
      suspended: true,
    },
  },
];

for (const { args, stdin, call, body } of cases) {
  test(`svc ${args.join(' ')}`, async () => {
    const { code, stdout, stderr } = await svc(args, stdin === undefined ? {} : { stdin });
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      seen.map((one) => [`${one.method} ${one.url}`, one.body]),
      [[call, body]],
    );
    assert.equal(seen[0]?.authorization, 'Bearer svc_t0ken-of-the-test');
    assert.ok(!`${stdout}${stderr}`.includes(value));
  });
}

test('a repository that cannot be read is an answer with exit 1, and one that is added is looked at first', async () => {
  const away = { reachable: false, condition: 'unreachable', detail: 'no connection in time' };
  const half = { reachable: true, via: null, defaultBranch: null, commit: null, advice: ['Reading it fails: SHA-256'] };
  for (const body of [away, half]) {
    answer = ({ url }) => (url.endsWith('/probe') ? { status: 200, body } : { status: 201, body: { name: 'r' } });
    const probed = await svc(['repo', 'probe', 'https://git.example/x.git']);
    assert.match(`${probed.code} ${probed.stdout}${probed.stderr}`, /^1 [^]*(unreachable|256)[^]*\nsvc: .*\1.*\n$/);
    const { code, stdout } = await svc(['repo', 'add', 'r', '--url', 'https://git.example/x.git']);
    assert.match(`${code} ${stdout}`, /^0 .*(?:read \(unreachable\): no connection in time|SHA-256)\nadded r/);
  }
  await svc(['repo', 'add', 'r', '--url', 'https://git.example/x.git', '--no-probe']);
  assert.equal(seen.length, 7, 'one call more');
});

test('settings of a connection are those of its provider, and only those that are given are sent', async () => {
  const gh = { name: 'gh', provider: 'codehost', status: 'active', intakeUrl: null, id: 'x', config: {} };
  answer = () => ({ status: 200, body: gh });
  assert.equal((await svc(['connection', 'edit', 'gh', '--installation-id', '7'])).code, 0);
  assert.deepEqual(seen.at(-1)?.body, { config: { installationId: '7' } });
  assert.equal((await svc(['connection', 'edit', 'gh'])).code, 2);
  assert.equal((await svc(['connection', 'edit', 'gh', '--workspace-id', 'T1'])).code, 2);
  assert.equal(seen.filter(({ method }) => method === 'PATCH').length, 1);
});

test('going back says from where to where', async () => {
  answer = () => ({ status: 202, body: { reconcileId: 'x', from: 'b'.repeat(40), to: 'a'.repeat(40) } });
  const { code, stdout } = await svc(['repo', 'rollback', 'r']);
  assert.equal(code, 0);
  assert.match(stdout, /from b{40} to a{40}.*svc repo release r/);
});

test('lists follow their cursors, and stop at --limit', async () => {
  answer = ({ url }) => {
    const at = Number(new URL(url, 'http://x').searchParams.get('cursor') ?? '0');
    return { status: 200, body: { items: [{ id: `E${at}`, key: 'k' }], nextCursor: at < 9 ? String(at + 1) : null } };
  };
  const all = JSON.parse((await svc(['agent', 'list', '--json'])).stdout);
  assert.equal(all.items.length, 10);
  assert.equal(all.nextCursor, null);
  const some = JSON.parse((await svc(['event', 'list', '--limit', '3', '--status', 'failed', '--json'])).stdout);
  assert.deepEqual([some.items.length, some.nextCursor], [3, '3']);
  assert.match(seen.at(-1)?.url ?? '', /status=failed&limit=1&cursor=2/);
});

test('only reveal prints a value, whatever an answer holds', async () => {
  answer = () => ({ status: 200, body: { name: 'db', value: value } });
  assert.equal((await svc(['secret', 'reveal', 'db'])).stdout, `${value}\n`);
  const set = await svc(['secret', 'set', 'db', '--from-file', '-', '--json'], { stdin: 'x' });
  assert.ok(!set.stdout.includes(value));
});

test('a value comes from a file byte by byte, is never empty, and is not asked for without a terminal', async () => {
  await writeFile(join(home.path, 'value'), ' two\nlines\n');
  assert.equal((await svc(['secret', 'set', 'db', '--from-file', 'value'])).code, 0);
  assert.deepEqual(seen[0]?.body, { value: ' two\nlines\n' });
  const piped = await svc(['secret', 'set', 'db'], { stdin: 'x' });
  assert.equal(piped.code, 2);
  assert.match(piped.stderr, /--from-file -/);
  assert.equal((await svc(['secret', 'set', 'db', '--from-file', '-'])).code, 2);
  assert.equal((await svc(['secret', 'set', 'db', value])).code, 2);
  assert.equal(
    (await svc(['connection', 'add', 'tracker', 't', '--app-id', '7', '--from-file', '-'], { stdin: 'x' })).code,
    2,
  );
  assert.equal(seen.length, 1);
});

test('a problem is a sentence for people and the server’s document under --json, without the token', async () => {
  const problem = {
    type: 'about:blank',
    title: 'Forbidden',
    status: 403,
    code: 'secret-protected',
    detail: 'db is protected',
    requestId: 'r-1',
  };
  answer = ({ authorization }) => ({ status: 403, body: { ...problem, echo: authorization } });
  const text = await svc(['secret', 'reveal', 'db']);
  assert.equal(text.code, 1);
  assert.equal(text.stdout, '');
  assert.match(text.stderr, /^svc: db is protected \(request r-1\)$/m);
  const json = await svc(['secret', 'reveal', 'db', '--json']);
  assert.equal(json.stdout, '');
  assert.deepEqual([JSON.parse(json.stderr).code, JSON.parse(json.stderr).status], ['secret-protected', 403]);
  assert.ok(!`${text.stderr}${json.stderr}`.includes('t0ken-of-the-test'));
});

test('the help of deleting an endpoint says that it is not for reservations alone', async () => {
  assert.match((await svc(['endpoint', 'delete', '--help'])).stdout, /^delete an endpoint that no trigger uses/);
});

test('a signed endpoint is shown with what stops a replay', async () => {
  const page = async (auth: object): Promise<string> => {
    answer = () => ({ status: 200, body: { name: 'e', status: 'ready', ingestUrl: 'http://h/e', slug: 'e', auth } });
    return (await svc(['endpoint', 'show', 'e'])).stdout;
  };
  assert.match(
    await page({ kind: 'hmac_sha256', secretRef: 's' }),
    /^replays: +only a dedupKey in the body stops one/m,
  );
  assert.doesNotMatch(await page({ kind: 'bearer_token', secretRef: 's' }), /replay/);
});

test('an endpoint is shown with the header that proves a caller, and lines that a shell takes', async () => {
  answer = () => {
    const auth = { kind: 'hmac_sha256', secretRef: 's' };
    return { status: 200, body: { name: 'e', status: 'ready', ingestUrl: 'http://h/e', slug: 'e', auth } };
  };
  const { stdout } = await svc(['endpoint', 'show', 'e']);
  assert.match(stdout, /^proof: +header x-svc-signature-256: hex HMAC-SHA256 of the body/m);
  const sign = /^ {2}(BODY=.*)\n {2}(SIGNATURE=.*)\n {2}curl .* -H "(x-svc-signature-256: .*)" 'http:\/\/h\/e'$/m.exec(
    stdout,
  );
  assert.ok(sign !== null, stdout);
  // What the lines make is what an endpoint takes.
  const made = execFileSync('sh', ['-c', `${sign[1]}; ${sign[2]}; printf '%s\\n%s' "$BODY" "${sign[3]}"`], {
    env: { ...process.env, SECRET: 'hush' },
    encoding: 'utf8',
  }).split('\n');
  const wanted = createHmac('sha256', 'hush')
    .update(made[0] ?? '')
    .digest('hex');
  assert.equal(made[1], `x-svc-signature-256: sha256=${wanted}`);
});

test('a redirect is not followed, since it would carry the token away', async () => {
  answer = () => ({ status: 302, body: {} });
  const { code, stderr } = await svc(['agent', 'list']);
  assert.equal(code, 1);
  assert.match(stderr, /answered 302/);
  assert.equal(seen.length, 1);
});

test('a sync that a newer one supersedes is followed to the end of that one', async () => {
  answer = ({ url, method }) => {
    if (method === 'POST') return { status: 202, body: { reconcileId: 'R1' } };
    if (url.includes('repository='))
      return { status: 200, body: { items: [{ id: 'R2', status: 'running' }], nextCursor: null } };
    const status = url.endsWith('R1') ? 'superseded' : 'applied';
    return { status: 200, body: { id: url.slice(-2), repository: 'r', status, stages: [{ name: 'apply', ms: 3 }] } };
  };
  const { code, stdout, stderr } = await svc(['repo', 'sync', 'r', '--wait']);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^R1 was superseded; following R2\n✓ apply 3ms$/m);
  assert.match(stdout, /^run: +R2$/m);
});

test('a follower reads the list when its stream is open and not before, so that no run falls between the two', async () => {
  const order: string[] = [];
  const leave = new AbortController();
  const own = createServer((request, response) => {
    if (request.url?.includes('/stream') !== true) {
      order.push('list');
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"items":[],"nextCursor":null}', () => leave.abort());
      return;
    }
    // Long enough for a list that does not wait.
    setTimeout(() => {
      order.push('open');
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
    }, 500);
  });
  await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', resolve));
  const env = { SVC_URL: `http://127.0.0.1:${(own.address() as AddressInfo).port}` };
  const { code } = await svc(['reconcile', 'logs', '--follow'], { env, signal: leave.signal });
  own.closeAllConnections();
  await new Promise((resolve) => own.close(resolve));
  assert.deepEqual([code, order], [130, ['open', 'list']]);
});
