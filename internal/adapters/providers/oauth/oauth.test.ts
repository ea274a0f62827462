import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import type { GithubMethod, OidcMethod } from '../../../base/config/signin-settings.ts';
import { startTrickle } from '../../../base/testkit/trickle.ts';
import { authorizationUrl, personOf, refreshedGroups } from './oauth.ts';
import { groupNames } from './person.ts';

const proof = { redirectUri: 'https://svc.example/back', state: 's', nonce: 'n', verifier: 'v' };
const github = (url: string) =>
  ({ kind: 'github', name: 'g', clientId: 'c', baseUrl: url, apiUrl: url }) as unknown as GithubMethod;
const oidc = (url: string) =>
  ({ kind: 'oidc', name: 'o', clientId: 'c', issuer: url, scopes: ['openid'] }) as unknown as OidcMethod;
const signIn = (url: string) => personOf(github(url), 'x', proof, '?state=s&code=1');
const refresh = (url: string) => refreshedGroups(github(url), 'x', { subject: '1', refreshToken: 'r' });

test('an answer of the code host that trickles is given up, and of a refresh nobody knows what became of it', async (t) => {
  const { url, wholes } = await startTrickle(t);
  await assert.rejects(signIn(url), { name: 'SigninRefused', step: 'exchange' });
  assert.deepEqual(await refresh(url), { outcome: 'unknown' });
  assert.equal(wholes(), 0);
});

/** A server whose answers are 64 MiB of spaces before `{}`; `wholes` were taken to their end. */
async function startEndless(t: TestContext) {
  let wholes = 0;
  function* body() {
    for (let left = 1_024; left > 0; left -= 1) yield Buffer.alloc(65_536, ' ');
    wholes += 1;
    yield Buffer.from('{}');
  }
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    pipeline(Readable.from(body()), response, () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, wholes: () => wholes };
}

test('an answer beyond all size is given up before its end', async (t) => {
  const { url, wholes } = await startEndless(t);
  await assert.rejects(signIn(url), { name: 'SigninRefused', step: 'exchange' });
  assert.deepEqual(await refresh(url), { outcome: 'unknown' });
  await assert.rejects(authorizationUrl(oidc(url), 'x', proof), { name: 'SigninRefused', step: 'discovery' });
  assert.equal(wholes(), 0);
});

test('a group whose name no row can hold is none', () => {
  assert.deepEqual(groupNames(['a', 'b\0', '\ud800', '', 7, 'ä']), ['a', 'ä']);
});

/** A code host whose answers are these, by path. */
async function startHost(t: TestContext, answers: { readonly [path: string]: unknown }) {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answers[(request.url ?? '').split('?')[0] ?? ''] ?? null));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('what a code host lists in the place of groups says nothing, and takes no new refresh token along', async (t) => {
  const login = { access_token: 't', refresh_token: 'new' };
  const orgs = [null, 1, 'x', [], { login: 'acme' }, { login: 'a\0' }, { login: '\ud800' }];
  const teams = [null, { slug: 'dev', organization: null }, { slug: 'dev', organization: { login: 'acme' } }];
  const answers = { '/login/oauth/access_token': login, '/user': { id: 1, name: `${'a'.repeat(199)}😀` } };
  const url = await startHost(t, { ...answers, '/user/orgs': orgs, '/user/teams': teams });
  const { name, groups } = await signIn(url);
  assert.deepEqual([name.length, name.isWellFormed(), groups], [200, true, ['acme', 'acme/dev']]);
  assert.deepEqual(await refresh(url), { outcome: 'done', groups: ['acme', 'acme/dev'], refreshToken: 'new' });
  const large = await startHost(t, { ...answers, '/user/orgs': new Array(400_000).fill(0), '/user/teams': [] });
  assert.deepEqual(await refresh(large), { outcome: 'done', groups: [], refreshToken: 'new' });
});
