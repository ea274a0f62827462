import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GitServer } from '../../base/testkit/git-server.ts';
import { selfSigned } from './test-certificate.ts';
import { type Cleanup, condition, contents, remote, served } from './test-support.ts';
import { RepoCondition } from './types.ts';

const agents = { '.svc/agents/a.yaml': 'name: a\n' };

test('a token is sent with the first request, refreshed once when refused, and then given up', async (t) => {
  const { repo, server, url } = await served(t, { auth: { tokens: ['good'] } });
  await repo.commit(agents);
  const asked: boolean[] = [];
  const by = (...tokens: string[]) =>
    remote(t, url, {
      credentials: async ({ refresh }) => (asked.push(refresh), { token: tokens[refresh ? 1 : 0] as string }),
    });
  assert.ok((await by('good').resolve()).commit);
  assert.deepEqual([asked.splice(0), server.log.splice(0).map(({ status }) => status)], [[false], [200]]);
  assert.ok((await by('stale', 'good').resolve()).commit);
  assert.deepEqual(
    [asked.splice(0), server.log.splice(0).map(({ status }) => status)],
    [
      [false, true],
      [401, 200],
    ],
  );
  await assert.rejects(
    by('stale', 'wrong').resolve(),
    (error: Error) => condition('auth-failed')(error) && !/stale|wrong/.test(JSON.stringify(error) + error.message),
  );
  assert.deepEqual([asked.splice(0), server.log.splice(0).length], [[false, true], 2]);
  await assert.rejects(remote(t, url).resolve(), condition('auth-failed'));
  server.options = { ...server.options, auth: { username: 'x-access-token', tokens: ['good'] } };
  assert.ok((await by('good').resolve()).commit);
  await assert.rejects(
    remote(t, url, { credentials: async () => ({ username: 'me', token: 'good' }) }).resolve(),
    condition('auth-failed'),
  );
});

test('statuses become conditions', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const cases: readonly (readonly [number, Record<string, string>, string, number | undefined])[] = [
    [429, { 'retry-after': '17' }, 'rate-limited', 17],
    [429, {}, 'rate-limited', undefined],
    [
      503,
      { 'retry-after': 'Thu, 01 Jan 2026 00:01:00 GMT', date: 'Thu, 01 Jan 2026 00:00:00 GMT' },
      'rate-limited',
      60,
    ],
    [503, {}, 'unreachable', undefined],
    [403, { 'x-ratelimit-remaining': '0' }, 'rate-limited', undefined],
    [403, {}, 'auth-failed', undefined],
    [404, {}, 'not-found', undefined],
    [410, {}, 'not-found', undefined],
    [500, {}, 'unreachable', undefined],
    [200, { 'content-type': 'text/html' }, 'not-found', undefined],
  ];
  for (const [status, headers, word, seconds] of cases) {
    server.fault = () => ({ kind: 'status', status, headers, body: '<html>' });
    await assert.rejects(
      remote(t, url).resolve(),
      (error: RepoCondition) => condition(word)(error) && error.retryAfterSeconds === seconds,
      `status ${status}`,
    );
  }
});

test('an old server that answers with an error what it does not understand is asked as it does', async (t) => {
  const { repo, server, url } = await served(t, { passProtocol: false, keepBodies: true });
  const commit = await repo.commit(agents);
  for (const status of [500, 400, 405, 501]) {
    // As Dulwich does, which also serves nobody who takes no thin packs.
    server.fault = ({ method, gitProtocol, body }) =>
      method === 'POST' && (gitProtocol !== undefined || !body.includes(' thin-pack '))
        ? { kind: 'status', status }
        : null;
    const source = remote(t, url);
    assert.equal((await source.resolve()).commit, commit, `status ${status}`);
    assert.deepEqual(contents(await source.snapshot({ commit })), agents);
  }
  server.fault = () => ({ kind: 'status', status: 500 });
  await assert.rejects(remote(t, url).resolve(), condition('unreachable', /500/));
});

test('a server that has the files of a repository and no git behind them is told so', async (t) => {
  const { repo, server, url } = await served(t);
  const commit = await repo.commit(agents);
  server.fault = ({ method }) =>
    method === 'POST'
      ? { kind: 'status', status: 405 }
      : {
          kind: 'status',
          status: 200,
          headers: { 'content-type': 'text/plain' },
          body: `${commit}\trefs/heads/main\n`,
        };
  await assert.rejects(remote(t, url).resolve(), condition('not-found', /serves the files of a repository/));
});

test('a server that does not answer, goes quiet or takes too long is unreachable, and a cancelled call ends as cancelled', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const network = { allowPrivate: true, headersTimeoutMs: 300, idleTimeoutMs: 300 };
  server.fault = () => ({ kind: 'slow', delayMs: 3000 });
  await assert.rejects(remote(t, url, { network }).resolve(), condition('unreachable', /in time/));
  server.fault = () => ({ kind: 'stall', afterBytes: 10 });
  // However long git takes to begin.
  const patient = { ...network, headersTimeoutMs: 60_000 };
  await assert.rejects(remote(t, url, { network: patient }).resolve(), condition('unreachable', /stopped sending/));
  await assert.rejects(
    remote(t, url, { network: { allowPrivate: true, totalTimeoutMs: 200 } }).resolve(),
    condition('unreachable', /longer than 0.2 s/),
  );
  const cancel = new AbortController();
  setTimeout(() => cancel.abort(new Error('superseded')), 50);
  await assert.rejects(remote(t, url).resolve(cancel.signal), /superseded/);
});

test('a moved repository is read where it is, and says so', async (t) => {
  const { repo, server, url } = await served(t);
  const commit = await repo.commit(agents);
  const to = (path: string) => `${server.url('r.git')}${path}`;
  server.fault = ({ path, method }) =>
    path.startsWith('/old.git')
      ? {
          kind: 'status',
          status: method === 'GET' ? 301 : 308,
          headers: { location: to(path.slice(8) + (method === 'GET' ? '?service=git-upload-pack' : '')) },
        }
      : null;
  const source = remote(t, server.url('old.git'));
  assert.deepEqual(await source.resolve(), { commit, ref: 'refs/heads/main', movedTo: url });
  assert.deepEqual(contents(await source.snapshot({ commit })), agents);
  server.log.length = 0;
  await source.resolve();
  assert.deepEqual(
    server.log.map(({ path }) => path),
    ['/r.git/git-upload-pack'],
    'the new place is remembered',
  );
});

test('only discovery is redirected, a host that knows nothing of the rest is followed too', async (t) => {
  const { repo, server, url } = await served(t);
  const commit = await repo.commit(agents);
  server.fault = ({ path, method }) =>
    !path.startsWith('/old.git')
      ? null
      : method === 'GET'
        ? { kind: 'status', status: 301, headers: { location: `${url}/info/refs?service=git-upload-pack` } }
        : { kind: 'status', status: 404 };
  assert.equal((await remote(t, server.url('old.git')).resolve()).commit, commit);
});

const badPlaces: readonly (readonly [string, string])[] = [
  ['http://127.0.0.1:9/r.git/info/refs?service=git-upload-pack', 'unprotected'],
  ['https://127.0.0.1:9/r.git/info/refs?service=git-upload-pack', 'give that address'],
  ['file:///etc/passwd', 'not a repository'],
  ['/login', 'not a repository'],
  ['http://user:pw@127.0.0.1:9/r.git/info/refs?service=git-upload-pack', 'credentials'],
];
for (const [location, words] of badPlaces) {
  test(`a redirect to ${location} is the condition moved`, async (t) => {
    const { server, url } = await served(t);
    server.fault = () => ({ kind: 'status', status: 302, headers: { location } });
    await assert.rejects(
      remote(t, url).resolve(),
      (error: RepoCondition) =>
        condition('moved', new RegExp(words))(error) &&
        !error.message.includes('pw@') &&
        error.movedTo?.includes('pw@') !== true,
    );
  });
}

test('redirects end after three, also those in a circle', async (t) => {
  const { server, url } = await served(t);
  server.fault = ({ path }) => ({
    kind: 'status',
    status: 302,
    headers: { location: `${path.replace('/git-upload-pack', '/info/refs')}?service=git-upload-pack` },
  });
  await assert.rejects(remote(t, url).resolve(), condition('moved', /more than 3/));
  assert.equal(server.log.length, 5);
});

async function tlsServer(t: Cleanup, root: string) {
  const tls = selfSigned();
  const server = await new GitServer({ root, tls }).start();
  t.after(() => server.stop());
  return { server, ca: tls.cert };
}

test('an own certificate authority is trusted when given, and credentials never follow a redirect to another origin', async (t) => {
  const { root, repo } = await served(t);
  const commit = await repo.commit(agents);
  const home = await tlsServer(t, root);
  const away = await tlsServer(t, root);
  const network = { allowPrivate: true, ca: `${home.ca}\n${away.ca}` };
  await assert.rejects(
    remote(t, home.server.url('r.git')).resolve(),
    condition(
      'unreachable',
      /its certificate is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\): .*NODE_EXTRA_CA_CERTS=FILE/,
    ),
  );
  const credentials = async () => ({ token: 'very-secret' });
  assert.equal((await remote(t, home.server.url('r.git'), { network, credentials }).resolve()).commit, commit);
  home.server.log.length = 0;
  home.server.fault = () => ({
    kind: 'status',
    status: 302,
    headers: { location: `${away.server.url('r.git')}/info/refs?service=git-upload-pack` },
  });
  const source = remote(t, home.server.url('r.git'), { network, credentials });
  const tip = await source.resolve();
  await source.snapshot(tip);
  assert.equal(tip.movedTo, away.server.url('r.git'));
  assert.ok(home.server.log.every(({ authorization }) => authorization !== undefined));
  assert.ok(away.server.log.length >= 3 && away.server.log.every(({ authorization }) => authorization === undefined));
  const { server: plain } = await served(t);
  home.server.fault = () => ({
    kind: 'status',
    status: 302,
    headers: { location: `${plain.url('r.git')}/info/refs?service=git-upload-pack` },
  });
  await assert.rejects(
    remote(t, home.server.url('r.git'), { network, credentials }).resolve(),
    condition('moved', /unprotected/),
  );
  assert.equal(plain.log.length, 0);
});

test('requests go through a proxy where one is set, except to hosts that are excluded', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const proxy = await served(t);
  const network = { allowPrivate: true, httpProxy: proxy.server.origin };
  await assert.rejects(remote(t, url, { network }).resolve(), RepoCondition);
  assert.deepEqual([proxy.server.log.length > 0, server.log.length], [true, 0]);
  assert.ok((await remote(t, url, { network: { ...network, noProxy: '127.0.0.1' } }).resolve()).commit);
});

test('a signature policy is applied to what is read', async (t) => {
  const { repo, url } = await served(t);
  await repo.commit(agents);
  const verify = {
    keys: [
      `ssh-ed25519 ${Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.from([0, 0, 0, 32]), Buffer.alloc(32, 7)]).toString('base64')}`,
    ],
  };
  const source = remote(t, url, { verify });
  await assert.rejects(source.snapshot(await source.resolve()), condition('signature-rejected', /not signed/));
});
