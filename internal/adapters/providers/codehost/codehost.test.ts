import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, verify } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { addressKey, callApi, mintInstallationToken, normalize, RefusedCall, verifySignature } from './codehost.ts';

const body = Buffer.from('{"a":1}');
const good = createHmac('sha256', 'topsecret').update(body).digest('hex');

const signatures: readonly (readonly [string, string | undefined, string, boolean])[] = [
  ['the plain digest', good, 'topsecret', false],
  ['the digest with its prefix', `sha256=${good}`, 'topsecret', true],
  ['upper case digits', `sha256=${good.toUpperCase()}`, 'topsecret', false],
  ['an upper case algorithm', `SHA256=${good}`, 'topsecret', false],
  ['another secret', `sha256=${good}`, 'other', false],
  ['no header', undefined, 'topsecret', false],
  ['an empty header', '', 'topsecret', false],
  ['a short digest', `sha256=${good.slice(0, 62)}`, 'topsecret', false],
  ['a long digest', `sha256=${good}00`, 'topsecret', false],
  ['another algorithm', `sha1=${good}`, 'topsecret', false],
  ['a digest with a bad digit', `sha256=${good.slice(0, 63)}g`, 'topsecret', false],
  ['an empty secret and its own digest', createHmac('sha256', '').update(body).digest('hex'), '', false],
];
for (const [what, header, secret, expected] of signatures) {
  test(`${what} is ${expected ? 'accepted' : 'refused'}`, () => {
    assert.equal(verifySignature(body, header, secret), expected);
  });
}

test('one changed byte of the body is refused', () => {
  assert.equal(verifySignature(Buffer.from('{"a":2}'), `sha256=${good}`, 'topsecret'), false);
});

const addresses: readonly (readonly [string, string | undefined])[] = [
  ['https://Example.com/Acme/App.git', 'example.com/acme/app'],
  ['https://example.com/acme/app/', 'example.com/acme/app'],
  ['git@example.com:acme/app.git', 'example.com/acme/app'],
  ['ssh://git@example.com/acme/app.git', 'example.com/acme/app'],
  ['http://127.0.0.1:8080/acme/app.git', '127.0.0.1:8080/acme/app'],
  ['https://example.com:443/acme/app', 'example.com/acme/app'],
  ['https://example.com/', undefined],
  ['not an address', undefined],
];
for (const [address, expected] of addresses) {
  test(`the key of ${address} is ${expected}`, () => {
    assert.equal(addressKey(address), expected);
  });
}

const nobody = { usernames: [] };
const pushBody = {
  ref: 'refs/heads/main',
  before: '0'.repeat(40),
  after: 'a'.repeat(40),
  created: true,
  deleted: false,
  forced: false,
  repository: {
    id: 7,
    full_name: 'Acme/App',
    name: 'App',
    owner: { login: 'Acme' },
    private: true,
    default_branch: 'main',
    html_url: 'https://example.com/Acme/App',
    clone_url: 'https://example.com/Acme/App.git',
  },
  sender: { id: 1, login: 'ann', type: 'User' },
  installation: { id: 42 },
  commits: [{ id: 'a'.repeat(40), message: 'm', author: { username: 'ann' }, added: ['x'], removed: [], modified: [] }],
};

test('a push is told in the neutral words, with the body kept under raw', () => {
  const delivery = normalize('push', 'd-1', pushBody, nobody);
  assert.equal(delivery.kind, 'event');
  if (delivery.kind !== 'event') return;
  assert.equal(delivery.event.key, 'codehost.push');
  assert.equal(delivery.event.target, undefined);
  assert.deepEqual(delivery.event.payload, {
    codehost: {
      event: 'push',
      deliveryId: 'd-1',
      installationId: 42,
      repository: {
        id: 7,
        fullName: 'Acme/App',
        owner: 'Acme',
        name: 'App',
        private: true,
        defaultBranch: 'main',
        htmlUrl: 'https://example.com/Acme/App',
      },
      sender: { id: 1, login: 'ann', type: 'User' },
      push: {
        ref: 'refs/heads/main',
        branch: 'main',
        before: '0'.repeat(40),
        after: 'a'.repeat(40),
        created: true,
        deleted: false,
        forced: false,
        commits: [{ id: 'a'.repeat(40), message: 'm', author: 'ann', added: ['x'], removed: [], modified: [] }],
      },
      svc: { authored: false, externalBot: false, mentioned: false },
    },
    svc: { authored: false },
    raw: pushBody,
  });
  assert.deepEqual(delivery.push, {
    addresses: ['example.com/acme/app'],
    fullName: 'acme/app',
    branch: 'main',
    defaultBranch: 'main',
    commit: 'a'.repeat(40),
  });
});

test('a deleted branch gives no commit to look for', () => {
  const delivery = normalize('push', 'd-1', { ...pushBody, deleted: true, after: '0'.repeat(40) }, nobody);
  assert.equal(delivery.kind === 'event' && delivery.push?.commit, undefined);
});

test('a tag is recorded and concerns no branch', () => {
  const delivery = normalize('push', 'd-1', { ...pushBody, ref: 'refs/tags/v1' }, nobody);
  assert.equal(delivery.kind === 'event' && delivery.push === undefined, true);
});

test('what is not in the catalog is ignored and what cannot be read is malformed', () => {
  assert.equal(normalize('star', 'd', {}, nobody).kind, 'ignored');
  assert.equal(normalize('constructor', 'd', {}, nobody).kind, 'ignored');
  assert.equal(normalize('push', 'd', { ref: 'refs/heads/x' }, nobody).kind, 'malformed');
  assert.equal(normalize('issues', 'd', { action: 'opened' }, nobody).kind, 'malformed');
});

test('an installation token is minted with a signed claim of the application', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const seen: { url: string | undefined; authorization: string | undefined }[] = [];
  let given: object | null = { token: 'ghs_x', expires_at: '2030-01-01T01:00:00Z' };
  const server = createServer((req, res) => {
    seen.push({ url: req.url, authorization: req.headers.authorization });
    res.writeHead(req.url?.includes('/99/') ? 404 : 201, { 'content-type': 'application/json' });
    res.end(JSON.stringify(given));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const base = { apiUrl, allowPrivate: true, appId: '5', privateKey: pem, now: new Date('2030-01-01T00:00:00Z') };

  const minted = await mintInstallationToken({ ...base, installationId: '42' });
  assert.deepEqual(minted, { token: 'ghs_x', expiresAt: new Date('2030-01-01T01:00:00Z') });
  assert.equal(seen[0]?.url, '/app/installations/42/access_tokens');
  const [head, claims, signature] = (seen[0]?.authorization ?? '').replace('Bearer ', '').split('.');
  assert.ok(verify('sha256', Buffer.from(`${head}.${claims}`), publicKey, Buffer.from(signature ?? '', 'base64url')));
  assert.equal(JSON.parse(Buffer.from(claims ?? '', 'base64url').toString()).iss, '5');

  await assert.rejects(mintInstallationToken({ ...base, installationId: '99' }), { status: 404 });
  for (const other of [
    { token: 'ghs_x', expires_at: 'in an hour' },
    { token: 'ghs_x', expires_at: '-100000-01-01T00:00:00Z' },
    { token: 'ghs_x', expires_at: '+100000-01-01T00:00:00Z' },
    { token: 'ghs_x\r\nx: y', expires_at: '2030-01-01T01:00:00Z' },
    null,
  ]) {
    given = other;
    await assert.rejects(mintInstallationToken({ ...base, installationId: '42' }), /answered without a token/);
  }
  await assert.rejects(mintInstallationToken({ ...base, installationId: '42', allowPrivate: false }), /public https/);
  for (const host of [
    '127.0.0.1',
    '[::ffff:127.0.0.1]',
    'localhost',
    'sub.localhost.',
    '2130706433',
    '[64:ff9b::a00:1]',
  ]) {
    const call = { ...base, apiUrl: `https://${host}:1`, installationId: '42', allowPrivate: false };
    await assert.rejects(mintInstallationToken(call), /public https/, host);
  }
  await assert.rejects(mintInstallationToken({ ...base, installationId: '1', privateKey: 'nonsense' }), {
    status: 401,
  });
});

test('what a limit counts against is told in the words of the provider where those are a name', async (t) => {
  let named = '';
  const server = createServer((_, response) => {
    response.writeHead(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-resource': named }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const asked = { apiUrl, token: 't', method: 'GET', path: '/x', isWrite: false, resource: 'core' } as const;
  for (const [given, resource] of [
    ['code_search', 'code_search'],
    ['x'.repeat(4_000), 'core'],
  ] as const) {
    named = given;
    await assert.rejects(callApi({ ...asked, allowPrivate: true }), (error) => {
      assert.ok(error instanceof RefusedCall && error.why.kind === 'limited');
      assert.equal(error.why.resource, resource);
      return true;
    });
  }
});
