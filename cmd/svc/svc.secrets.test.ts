// The commands of secrets, connections and keys against a daemon: what people type does what the server means.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, emptyHome, type Ran } from './testkit.ts';

let daemon: TestDaemon;
let home: Awaited<ReturnType<typeof emptyHome>>;
before(async () => {
  daemon = await startTestDaemon();
  home = await emptyHome();
});
after(async () => {
  await daemon.stop();
  await home.remove();
});

const svc = (args: readonly string[], stdin?: string): Promise<Ran> =>
  callSvc(home.path, args, {
    env: { SVC_URL: daemon.url, SVC_TOKEN: daemon.token, SVC_ORG: 'default', SVC_PROJECT: 'default' },
    ...(stdin !== undefined && { stdin }),
  });
const done = async (args: readonly string[], stdin?: string): Promise<string> => {
  const ran = await svc(args, stdin);
  assert.equal(ran.code, 0, `svc ${args.join(' ')}: ${ran.stderr}`);
  return ran.stdout;
};

test('a secret is set, listed, edited, rotated, revealed and deleted', async () => {
  const options = ['--unprotected', '--idle-expiry', '30d', '--expires-at', '2030-01-01', '--description', 'D'];
  await done(['secret', 'set', 'db', '--from-file', '-', ...options], 'first\n');
  assert.equal(await done(['secret', 'reveal', 'db']), 'first\n');
  const edited = JSON.parse(
    await done(['secret', 'edit', 'db', '--expires-at', 'none', '--idle-expiry', '60', '--json']),
  );
  assert.deepEqual([edited.expiresAt, edited.idleExpirySeconds, edited.description], [null, 60, 'D']);
  await done(['secret', 'rotate', 'db', '--from-file', '-'], 'second');
  assert.equal(JSON.parse(await done(['secret', 'reveal', 'db', '--json'])).value, 'second');
  assert.match(await done(['secret', 'list']), /^db +no /m);
  await done(['secret', 'edit', 'db', '--protect']);
  const refused = await svc(['secret', 'reveal', 'db']);
  assert.deepEqual([refused.code, /never revealed/.test(refused.stderr)], [1, true]);
  const org = ['--org', '--inject-host', 'api.test', '--inject-header', 'X-Key', '--inject-format', 'k {value}'];
  await done(['secret', 'set', 'wide', '--from-file', '-', ...org], 'v');
  assert.match(await done(['secret', 'list', '--org']), /^wide +yes +yes /m);
  assert.equal((await svc(['secret', 'edit', 'wide', '--org', '--no-inject', '--inject-host', 'b.test'])).code, 2);
  assert.equal(JSON.parse(await done(['secret', 'edit', 'wide', '--org', '--no-inject', '--json'])).injection, null);
  await done(['secret', 'delete', 'db']);
  assert.equal((await svc(['secret', 'rotate', 'db', '--from-file', '-'], 'x')).code, 1);
});

test('a secret that an environment names, or a project reads from its organization, is not deleted by the way', async () => {
  const tree = join(home.path, 'users');
  await mkdir(join(tree, '.svc/agents'), { recursive: true });
  await writeFile(
    join(tree, '.svc/agents/a.yaml'),
    `name: user
harness: harness-a
environment: { name: keyed, image: { kind: preset, name: base }, env: { KEY: { $secret: inside }, ORG: { $secret: above } } }
triggers:
  - { event: webhook.received, endpoint: on, auth: { kind: bearer_token, secretRef: both }, routing: { kind: spawn } }
`,
  );
  await done(['secret', 'set', 'inside', '--from-file', '-'], 'v');
  await done(['secret', 'set', 'both', '--from-file', '-'], 'v');
  for (const name of ['above', 'both']) await done(['secret', 'set', name, '--org', '--from-file', '-'], 'v');
  await done(['apply', tree]);
  for (const [args, user] of [
    [['inside'], 'agent user'],
    [['above', '--org'], 'agent default/user'],
    [['both'], 'endpoint on'],
  ] as const) {
    const { code, stderr } = await svc(['secret', 'delete', ...args, '--yes']);
    assert.equal(stderr, `svc: ${args[0]} is used by ${user}\n--force deletes it nevertheless\n`);
    assert.equal(code, 1);
  }
  await done(['secret', 'delete', 'both', '--org']);
  for (const args of [['inside'], ['above', '--org'], ['both']]) await done(['secret', 'delete', ...args, '--force']);
});

test('what an apply says to do about a secret that goes idle behind an endpoint can be done', async () => {
  await done(['secret', 'set', 'hook', '--from-file', '-', '--idle-expiry', '60'], 'v');
  const tree = join(home.path, 'idle');
  await mkdir(join(tree, '.svc/agents'), { recursive: true });
  await writeFile(
    join(tree, '.svc/agents/a.yaml'),
    `name: idle
harness: harness-a
environment: { name: n, image: { kind: preset, name: base } }
triggers:
  - { event: webhook.received, endpoint: in, auth: { kind: bearer_token, secretRef: hook }, routing: { kind: spawn } }
`,
  );
  const { stdout, stderr } = await svc(['apply', tree]);
  const [, verb = ''] = /svc secret (\w+) hook/.exec(stdout + stderr) ?? [];
  const value = verb === 'set' ? ['--from-file', '-'] : [];
  const without = JSON.parse(await done(['secret', verb, 'hook', ...value, '--idle-expiry', 'none', '--json'], 'v'));
  assert.equal(without.idleExpirySeconds, null);
});

test('a value that was typed as an argument is refused and not said again', async () => {
  for (const args of [
    ['secret', 'set', 'oops', 'hush-hush'],
    ['secret', 'rotate', 'oops', 'hush-hush'],
    ['connection', 'add', 'codehost', 'oops', 'hush-hush'],
    ['secret', 'set', 'oops', '--value=hush-hush'],
    ['secret', 'set', 'oops', '--value', 'hush-hush'],
  ]) {
    const ran = await svc(args);
    assert.equal(ran.code, 2);
    assert.doesNotMatch(ran.stdout + ran.stderr, /hush/);
  }
});

test('a value that is not text in UTF-8 is refused, not kept as something else', async () => {
  await writeFile(join(home.path, 'key.der'), Buffer.from([0x30, 0x82, 0xff, 0xfe, 0x41]));
  for (const command of ['set', 'rotate']) {
    const { code, stderr } = await svc(['secret', command, 'binary', '--from-file', 'key.der']);
    assert.equal(code, 2);
    assert.match(stderr, /^svc: --from-file: key\.der is not text in UTF-8\n/);
  }
  assert.equal((await svc(['secret', 'show', 'binary'])).code, 1);
  await writeFile(join(home.path, 'key.pem'), '\ufeffä\r\n');
  await done(['secret', 'set', 'text', '--unprotected', '--from-file', 'key.pem']);
  assert.equal(JSON.parse(await done(['secret', 'reveal', 'text', '--json'])).value, '\ufeffä\r\n');
});

test('an end of a secret or a token is an ISO time and nothing that only looks like one', async () => {
  await done(['secret', 'set', 'ends', '--from-file', '-', '--unprotected'], 'v');
  for (const at of [
    '90',
    '3600',
    '2027-02-30',
    '2027-13-01',
    '2027',
    'Jan 5 2027',
    '2027-01-01T25:00Z',
    'tomorrow',
    '',
  ]) {
    const edited = await svc(['secret', 'edit', 'ends', '--expires-at', at]);
    assert.deepEqual(
      [edited.code, edited.stderr.split('\n')[0]],
      [2, 'svc: --expires-at takes an ISO time, or none'],
      at,
    );
    assert.equal((await svc(['token', 'create', 'ends', '--expires-at', at])).code, 2, at);
  }
  for (const [at, want] of [
    ['2030-01-31', '2030-01-31T00:00:00.000Z'],
    ['2030-01-31T12:00Z', '2030-01-31T12:00:00.000Z'],
    ['2030-01-31 12:00:30,5+0200', '2030-01-31T10:00:30.500Z'],
    ['2030-01-31T12:00:00', new Date(2030, 0, 31, 12).toISOString()],
  ] as const) {
    const edited = JSON.parse(await done(['secret', 'edit', 'ends', '--expires-at', at, '--json']));
    assert.equal(edited.expiresAt, want);
    assert.equal(JSON.parse(await done(['token', 'create', 'ends', '--expires-at', at, '--json'])).expiresAt, want);
  }
});

test('a connection is added with files, listed and removed', async () => {
  await writeFile(join(home.path, 'key.pem'), 'PEM\n');
  const options = ['--app-id', '5', '--installation-id', '6', '--private-key-file', 'key.pem', '--from-file', '-'];
  assert.match(
    await done(['connection', 'add', 'codehost', 'gh', ...options], 'hush\n'),
    /api\/v1\/intake\/codehost\//,
  );
  assert.match(await done(['connection', 'list']), /^gh +codehost +active +(?:now|\S+ ago) +0 +0 +http/m);
  await done(['connection', 'remove', 'gh']);
  assert.equal((await svc(['connection', 'remove', 'gh'])).code, 1);
});

test('what could not be named in an address any more is not made: a name of dots alone', async () => {
  for (const name of ['.', '..']) {
    for (const args of [
      ['connection', 'add', 'chat', name, '--from-file', '-'],
      ['connect', 'mcp', name, '--url', 'https://tools.example/mcp'],
      ['notify', 'add', 'webhook', name, '--url', 'https://hooks.example/', '--from-file', '-'],
    ]) {
      const { code, stderr } = await svc(args, 'h'.repeat(32));
      assert.deepEqual(
        [code, /not only dots|no address can hold/.test(stderr)],
        [1, true],
        `${args.join(' ')} ${stderr}`,
      );
    }
  }
  assert.equal(await done(['connection', 'list']), 'no connections\n');
});

test('a connection of each provider is added at an address of its own, and moved to another', async () => {
  const shown = async (name: string): Promise<unknown> =>
    JSON.parse(await done(['connection', 'show', name, '--json'])).config.apiUrl;
  for (const provider of ['codehost', 'tracker', 'chat']) {
    const at = (path: string): string[] => ['--api-url', `https://${provider}.example/${path}`];
    await done(['connection', 'add', provider, provider, '--from-file', '-', ...at('v1')], 'hush');
    assert.equal(await shown(provider), `https://${provider}.example/v1`);
    await done(['connection', 'edit', provider, ...at('v2')]);
    assert.equal(await shown(provider), `https://${provider}.example/v2`);
    await done(['connection', 'remove', provider]);
  }
});

test('keys are rotated with a key that was appended to the file, and the old version is retired', async () => {
  await done(['secret', 'set', 'kept', '--from-file', '-', '--unprotected'], 'kept value');
  await appendFile(daemon.ctx.config.masterKeyFile, `2:${randomBytes(32).toString('base64')}\n`);
  assert.match(await done(['keys', 'rotate']), /^\d+ values sealed again with version 2\nretired: 1;/);
  const report = JSON.parse(await done(['keys', 'list', '--json']));
  assert.deepEqual(
    report.versions.map((row: { version: number; status: string }) => [row.version, row.status]),
    [
      [1, 'retired'],
      [2, 'current'],
    ],
  );
  assert.match(await done(['keys', 'rotate']), /^0 values .*\nno version was retired/);
  assert.equal(await done(['secret', 'reveal', 'kept']), 'kept value\n');
});
