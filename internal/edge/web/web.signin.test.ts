// Sign-in by a real OpenID provider and by the code host's OAuth: roles from groups, one exchange, and what is refused.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startBrowser } from '../../base/testkit/browser.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import type { FlowContext } from '../../flows/context.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';
import { type OidcPeer, startOidcPeer } from '../../base/testkit/oidc-peer.ts';
import { at as part, root, signInOn } from './web-testkit.ts';

let daemon: TestDaemon;
let peer: OidcPeer;
let codehost: Server;
let dir: string;
const exchanged: string[] = [];
/** Of the code host's person. */
const user = { id: 4711, login: 'bob', name: 'Bob' };
/**
 * The code host's refresh token that is good, its tokens, and the person's teams. `lost`: the next refresh has no answer;
 * `broken`: it lists no teams.
 */
const host = {
  refreshToken: '',
  tokens: new Set<string>(['token-of-bob']),
  teams: ['dev'],
  refreshed: 0,
  lost: false,
  broken: false,
};

/** A new pair in the place of the one before. */
function rotated() {
  host.refreshToken = `ghr_${host.tokens.size}`;
  host.tokens.add(`ghu_${host.tokens.size}`);
  return { access_token: `ghu_${host.tokens.size - 1}`, refresh_token: host.refreshToken };
}

/** The code host's three answers; a code is good once, and only with its verifier. */
function startCodehost(): Promise<Server> {
  const server = createServer();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (request.url ?? '').split('?', 1)[0];
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const answer = (body: unknown, status = 200): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (path === '/login/oauth/access_token') {
      const form = new URLSearchParams(text);
      if (form.get('grant_type') === 'refresh_token') {
        host.refreshed += 1;
        if (host.lost) return void response.destroy();
        if (form.get('client_secret') !== 'secret' || form.get('refresh_token') !== host.refreshToken) {
          return answer({ error: 'bad_refresh_token' });
        }
        return answer(rotated());
      }
      exchanged.push(form.get('code') ?? '');
      const isGood = form.get('client_secret') === 'secret' && (form.get('code_verifier') ?? '').length >= 43;
      if (!isGood) return answer({ error: 'bad_verification_code' });
      // Of an app whose users' tokens expire.
      return answer(form.get('code') === 'c-expiring' ? rotated() : { access_token: 'token-of-bob' });
    }
    if (!host.tokens.has((request.headers.authorization ?? '').replace('Bearer ', ''))) return answer({}, 401);
    if (path === '/user') return answer(user);
    if (path === '/user/orgs') return answer([{ login: 'acme' }]);
    if (path === '/user/teams' && host.broken) return void response.writeHead(502).end();
    if (path === '/user/teams') return answer(host.teams.map((slug) => ({ slug, organization: { login: 'acme' } })));
    return answer({}, 404);
  };
  server.on('request', (request, response) => void serve(request, response));
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-signin-'));
  writeFileSync(join(dir, 'secret'), 'secret\n');
  peer = await startOidcPeer(() => [`${daemon.url}/signin/callback/peer`]);
  writeFileSync(join(dir, 'peer'), `${peer.clientSecret}\n`);
  codehost = await startCodehost();
  const hostUrl = `http://127.0.0.1:${(codehost.address() as AddressInfo).port}`;
  const signIn = {
    oidc: [
      {
        name: 'peer',
        label: 'Peer',
        issuer: peer.issuer,
        clientId: peer.clientId,
        clientSecretFile: join(dir, 'peer'),
      },
    ],
    github: { baseUrl: hostUrl, apiUrl: hostUrl, clientId: 'app', clientSecretFile: join(dir, 'secret') },
    roles: [
      { group: 'admins', org: 'default', role: 'admin' },
      { group: 'lookers', org: 'default', project: 'default', role: 'viewer' },
      { group: 'acme/dev', org: 'default', project: 'default', role: 'operator' },
    ],
    tokens: false,
  };
  daemon = await startTestDaemon({ config: { roles: ['api'], file: { signIn } } });
});
after(async () => {
  await daemon.stop();
  await peer.stop();
  codehost.closeAllConnections();
  await new Promise((resolve) => codehost.close(resolve));
  rmSync(dir, { recursive: true, force: true });
});

const get = (path: string, cookie = '') =>
  fetch(path.startsWith('http') ? path : `${daemon.url}${path}`, { redirect: 'manual', headers: { cookie } });
const cookieIn = (response: Response, name: string): string =>
  response.headers
    .getSetCookie()
    .flatMap((line) => (line.startsWith(`${name}=`) ? [line.split(';')[0] ?? ''] : []))[0] ?? '';

async function begin(method: string, next = '/default/default/connections') {
  const response = await get(`/signin/${method}?next=${encodeURIComponent(next)}`);
  assert.equal(response.status, 303);
  const line = response.headers.getSetCookie().join();
  assert.match(line, /^__Host-svc-signin=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/);
  return { location: response.headers.get('location') ?? '', cookie: cookieIn(response, '__Host-svc-signin') };
}
async function through(next?: string) {
  const { location, cookie } = await begin('peer', next);
  const asked = new URL(location).searchParams;
  assert.deepEqual([asked.get('code_challenge_method'), asked.get('response_type')], ['S256', 'code']);
  const back = await peer.consent(location);
  return { back, cookie, response: await get(back, cookie) };
}
const takeKey = (cookie: string, origin = daemon.url) =>
  daemon.api('POST', '/api/v1/auth/key', undefined, { token: null, headers: { cookie, origin } });
const meOf = (cookie: string, key: string) =>
  daemon.api('GET', '/api/v1/me', undefined, { token: null, headers: { cookie, 'x-svc-key': key } });

test('a person comes in by a provider, with the roles of the groups of that moment', async () => {
  peer.person = { sub: 'ann', name: 'Ann', groups: ['lookers'] };
  const { response, back, cookie } = await through();
  assert.equal(response.status, 303);
  assert.equal(response.headers.get('location'), '/default/default/connections');
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
  const session = cookieIn(response, '__Host-svc-session');
  assert.equal((await takeKey(session, 'https://evil.example')).status, 403);
  const given = await takeKey(session);
  assert.equal(given.status, 201);
  assert.equal((await takeKey(session)).status, 409);
  const key = String(given.body['key']);
  const me = await meOf(session, key);
  assert.deepEqual(
    [me.body['name'], me.body['session']?.['method'], me.body['session']?.['breakGlass']],
    ['Ann', 'peer', false],
  );
  assert.equal(me.body['orgs']?.[0]?.['projects']?.[0]?.['role'], 'viewer');

  // The same callback again exchanges nothing.
  const exchanges = (): number => peer.requests.filter((path) => path === '/token').length;
  const sofar = exchanges();
  assert.equal((await get(back, cookie)).headers.get('location'), '/signin/error');
  assert.equal(exchanges(), sofar);

  // A role by hand stays beside what groups give; a group that is left takes its role with it.
  const id = String(me.body['id']);
  await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'second' });
  await daemon.api('POST', '/api/v1/orgs/default/projects/second/members', { principalId: id, role: 'operator' });
  peer.person = { sub: 'ann', name: 'Ann', groups: ['admins'] };
  const second = cookieIn((await through()).response, '__Host-svc-session');
  const again = await meOf(second, String((await takeKey(second)).body['key']));
  assert.equal(again.body['id'], id);
  assert.equal(again.body['orgs']?.[0]?.['role'], 'admin');
  peer.person = { sub: 'ann', name: 'Ann', groups: [] };
  const third = cookieIn((await through()).response, '__Host-svc-session');
  const last = await meOf(third, String((await takeKey(third)).body['key']));
  const left = last.body['orgs']?.[0]?.['projects'];
  assert.deepEqual([left?.['length'], left?.[0]?.['slug'], left?.[0]?.['role']], [1, 'second', 'operator']);
  // Without the last role, no session of the person is one any more.
  await daemon.api('DELETE', `/api/v1/orgs/default/projects/second/members/${id}`);
  assert.equal((await meOf(session, key)).status, 401);
});

/** So many minutes later. */
const at = (minutes: number): FlowContext => {
  const now = (): Date => new Date(Date.now() + minutes * 60_000);
  return Object.create(daemon.ctx, { runtime: { value: { ...daemon.ctx.runtime, now } } }) as FlowContext;
};

test('the groups of a person are asked about by the hour, and what they gave goes with them', async () => {
  peer.person = { sub: 'hour', name: 'Hour', groups: ['acme/dev'] };
  const session = cookieIn((await through()).response, '__Host-svc-session');
  const key = String((await takeKey(session)).body['key']);
  const role = async () => (await meOf(session, key)).body['orgs']?.[0]?.['projects']?.[0]?.['role'];
  assert.equal(await role(), 'operator');
  const sent = (): number => peer.requests.filter((path) => path === '/token').length;
  const before = sent();
  await refreshGroups(at(59));
  assert.deepEqual([await role(), sent()], ['operator', before]);
  peer.person = { sub: 'hour', name: 'Hour', groups: ['lookers'] };
  // Two daemons at once: each token is sent once.
  await Promise.all([refreshGroups(at(61)), refreshGroups(at(61))]);
  assert.equal(await role(), 'viewer');
  const { rows } = await daemon.database.db.query<{ n: number }>(
    'select count(*)::int as n from svc.external_identities where token_id is not null',
  );
  assert.equal(sent() - before, rows[0]?.n);
  const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.roles_changed');
  assert.ok(JSON.stringify(audit.body).includes('"person":"Hour"'));
  peer.person = { sub: 'hour', name: 'Hour', groups: [] };
  await refreshGroups(at(125));
  // The last role took the session with it; with another role it is one again, and the provider's refusal ends it.
  assert.equal((await meOf(session, key)).status, 401);
  peer.person = { sub: 'hour', name: 'Hour', groups: ['lookers'] };
  await refreshGroups(at(190));
  assert.equal(await role(), 'viewer');
  peer.gone.add('hour');
  await refreshGroups(at(255));
  assert.equal((await meOf(session, key)).status, 401);
  const refused = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.refresh_refused');
  assert.equal(refused.body['items']?.[0]?.['detail']?.['sessions'], 1);
  const left = await daemon.database.db.query(
    `select from svc.oauth_tokens t where not exists (select from svc.external_identities i where i.token_id = t.id)`,
  );
  assert.equal(left.rowCount, 0);
});

test('whoever has no role is told the groups once, and has no session', async () => {
  peer.person = { sub: 'eve', name: 'Eve', groups: ['<script>'] };
  const { response, cookie } = await through();
  assert.equal(response.headers.get('location'), '/signin/no-role');
  assert.equal(cookieIn(response, '__Host-svc-session'), '');
  assert.doesNotMatch(await (await get('/signin/no-role')).text(), /Groups seen/);
  const page = await (await get('/signin/no-role', cookie)).text();
  assert.match(page, /Groups seen: &#60;script&#62;/);
  assert.doesNotMatch(page, /<script/);
  assert.doesNotMatch(await (await get('/signin/no-role', cookie)).text(), /Groups seen/);
  const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.refused');
  assert.equal(audit.body['items']?.[0]?.['detail']?.['subject'], 'eve');
  const { rows } = await daemon.database.db.query(`select from svc.principals where name = 'Eve'`);
  assert.equal(rows.length, 0);
});

test('a callback that is foreign, forged or refused by the provider ends on the fixed page', async () => {
  peer.person = { sub: 'ann2', name: 'Ann', groups: ['lookers'] };
  const { location, cookie } = await begin('peer');
  const back = await peer.consent(location);
  const other = await begin('peer');
  const error = '/signin/error';
  const query = new URL(back).search;
  const cases: [string, string, string][] = [
    ['another browser', back, ''],
    ['another attempt', back, other.cookie],
    ['another method', `/signin/callback/github${query}`, cookie],
    ['no such method', `/signin/callback/none${query}`, cookie],
    ['a forged code', back.replace(/code=[^&]*/, 'code=forged'), cookie],
    [
      'an error of the provider',
      `${new URL(other.location).searchParams.get('redirect_uri')}?error=access_denied&state=${new URL(other.location).searchParams.get('state')}`,
      other.cookie,
    ],
  ];
  for (const [name, address, sent] of cases) {
    const response = await get(address, sent);
    assert.deepEqual([response.status, response.headers.get('location')], [303, error], name);
    assert.equal(cookieIn(response, '__Host-svc-session'), '', name);
  }
  const page = await get(error);
  assert.equal(page.status, 200);
  assert.match(await page.text(), /data-testid="error-page"/);
  // What was forged used the attempt up.
  assert.equal((await get(back, cookie)).headers.get('location'), error);
  assert.equal((await get('/signin/none')).status, 404);
});

test('what comes next is a page of this service', async () => {
  for (const next of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '/api/v1/me',
    '/signin',
    '/a b',
    '/connections/errtrack/callback?code=x',
  ]) {
    peer.person = { sub: 'ann3', name: 'Ann', groups: ['lookers'] };
    const { response } = await through(next);
    assert.equal(response.headers.get('location'), '/', next);
  }
});

test('a person comes in by the code host, by its number, with teams as groups', async () => {
  const { location, cookie } = await begin('github', '/device');
  const asked = new URL(location).searchParams;
  assert.equal(asked.get('code_challenge_method'), 'S256');
  const callback = `/signin/callback/github?code=c1&state=${asked.get('state')}`;
  const response = await get(callback, cookie);
  assert.equal(response.headers.get('location'), '/device');
  const session = cookieIn(response, '__Host-svc-session');
  const me = await meOf(session, String((await takeKey(session)).body['key']));
  assert.deepEqual([me.body['name'], me.body['orgs']?.[0]?.['projects']?.[0]?.['role']], ['Bob', 'operator']);
  assert.equal((await get(callback, cookie)).headers.get('location'), '/signin/error');
  assert.deepEqual(exchanged, ['c1']);
  const { rows } = await daemon.database.db.query<{ subject: string }>(
    `select subject from svc.external_identities where issuer like 'http://127.0.0.1%' and subject = '4711'`,
  );
  assert.equal(rows.length, 1);
});

test('teams of the code host are asked about by the hour too, each refresh token once', async () => {
  await daemon.database.db.query('update svc.external_identities set token_id = null');
  const signIn = async () => {
    const { location, cookie } = await begin('github');
    const state = new URL(location).searchParams.get('state');
    const session = cookieIn(
      await get(`/signin/callback/github?code=c-expiring&state=${state}`, cookie),
      '__Host-svc-session',
    );
    const key = String((await takeKey(session)).body['key']);
    return () => meOf(session, key);
  };
  const roleIn = async (me: Awaited<ReturnType<typeof signIn>>) =>
    (await me()).body['orgs']?.[0]?.['projects']?.[0]?.['role'];
  const me = await signIn();
  const first = host.refreshToken;
  assert.equal(await roleIn(me), 'operator');
  await refreshGroups(at(59));
  assert.equal(host.refreshed, 0);
  host.teams = ['dev', 'other'];
  await Promise.all([refreshGroups(at(61)), refreshGroups(at(61))]);
  assert.deepEqual([host.refreshed, await roleIn(me)], [1, 'operator']);
  assert.notEqual(host.refreshToken, first);
  // The team is left, and with it the last role: no session is one any more.
  host.teams = [];
  await refreshGroups(at(122));
  assert.deepEqual([host.refreshed, (await me()).status], [2, 401]);
  host.teams = ['dev'];
  await refreshGroups(at(183));
  assert.deepEqual([host.refreshed, await roleIn(me)], [3, 'operator']);
  // The token is replaced though the teams are not told: the next look, minutes later, goes on with the new one.
  host.broken = true;
  await refreshGroups(at(244));
  host.broken = false;
  await refreshGroups(at(260));
  assert.deepEqual([host.refreshed, await roleIn(me)], [5, 'operator']);
  // Nobody knows whether it was spent: it is not sent again, and what was known holds until the next sign-in.
  host.lost = true;
  await refreshGroups(at(322));
  await refreshGroups(at(383));
  assert.deepEqual([host.refreshed, await roleIn(me)], [6, 'operator']);
  host.lost = false;
  // What the code host refuses ends the browsers that it vouched for.
  const again = await signIn();
  host.refreshToken = 'revoked';
  await refreshGroups(at(444));
  assert.deepEqual([host.refreshed, (await again()).status], [7, 401]);
});

test('who loses a project while a page of it is open is told that, and not to sign in', async () => {
  const email = 'vera@example.org';
  await daemon.api('POST', '/api/v1/orgs/default/members', { email, role: 'member' });
  const { body: member } = await daemon.api('POST', 'P/members', { email, role: 'viewer' });
  const { body } = await daemon.api('POST', '/api/v1/orgs/default/tokens', { email, name: 'own' });
  const browser = await startBrowser();
  const { page } = await signInOn(await browser.open(), daemon, `${root}/events`, { token: String(body['token']) });
  await page.locator('[data-testid="live-state"][data-state="live"]').waitFor();
  await daemon.api('DELETE', `P/members/${String(member['principalId'])}`);
  await part(page, 'live-state').getByText('not visible to you').waitFor();
  assert.equal(await part(page, 'live-state').getByRole('link').count(), 0);
  await browser.close();
});

test('tokens do not sign in where they are switched off, but the one of the data directory does, and it is told', async () => {
  const { body } = await daemon.api('POST', '/api/v1/tokens', { name: 'own' });
  const refused = await daemon.api('POST', '/api/v1/auth/sessions', { token: body['token'] }, { token: null });
  assert.deepEqual([refused.status, refused.body['code']], [403, 'tokens-off']);
  const opened = await daemon.api('POST', '/api/v1/auth/sessions', { token: daemon.token }, { token: null });
  assert.equal(opened.status, 201);
  const cookie = (opened.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
  const me = await meOf(cookie, String(opened.body['key']));
  assert.equal(me.body['session']?.['breakGlass'], true);
  const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.break_glass');
  assert.equal((audit.body['items'] as unknown as unknown[]).length, 1);
  const checks = (await daemon.api('GET', 'P/doctor')).body['checks'] as unknown as { name: string; status: string }[];
  assert.ok(checks.some(({ name, status }) => name === 'sign-in' && status === 'warning'));
  const methods = await daemon.api('GET', '/api/v1/auth/methods', undefined, { token: null });
  assert.deepEqual(methods.body, {
    methods: [
      { kind: 'oidc', name: 'peer', label: 'Peer', url: '/signin/peer' },
      { kind: 'github', name: 'github', label: 'GitHub', url: '/signin/github' },
    ],
    tokens: false,
  });
});
