// Browsers that sign in with a token or a hand-off, what their cookie opens and what it does not, and the device grant.

import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { type ApiAnswer, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
let nowMs = Date.UTC(2026, 0, 5, 12);
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] }, runtime: { now: () => new Date(nowMs) } });
});
after(() => daemon.stop());

interface Browser {
  readonly cookie: string;
  readonly key: string;
}
const cookieIn = (answer: ApiAnswer): string => (answer.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
const signIn = async (body: object): Promise<Browser> => {
  const answer = await daemon.api('POST', '/api/v1/auth/sessions', body, { token: null });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return { cookie: cookieIn(answer), key: String(answer.body['key']) };
};
const asBrowser = (browser: Browser, method: string, path: string, more: { headers?: object; body?: unknown } = {}) =>
  daemon.api(method, path, more.body, {
    token: null,
    headers: { cookie: browser.cookie, 'x-svc-key': browser.key, origin: daemon.url, ...more.headers },
  });
/** Under a name that fetch would not say. */
const statusUnder = (host: string, headers: { [name: string]: string }) =>
  new Promise<number | undefined>((resolve, reject) => {
    const asked = request(`${daemon.url}/api/v1/me`, { headers: { ...headers, host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.once('error', reject);
    asked.end();
  });
const codeOf = ({ status, body }: ApiAnswer): unknown[] => [status, body['code']];
const makeToken = async (): Promise<{ token: string; id: string }> => {
  const { body } = await daemon.api('POST', '/api/v1/tokens', { name: 'browser' });
  return { token: String(body['token']), id: String(body['id']) };
};
const person = async (email: string): Promise<{ token: string; id: string }> => {
  const made = await daemon.api('POST', '/api/v1/orgs/default/members', { email, role: 'member' });
  const id = String(made.body['principalId'] ?? made.body['id']);
  const { body, status } = await daemon.api('POST', '/api/v1/orgs/default/tokens', { email, name: 'own' });
  assert.equal(status, 201, JSON.stringify(body));
  return { token: String(body['token']), id };
};

describe('a session', () => {
  test('is a cookie that scripts cannot read, and a key beside it', async () => {
    const answer = await daemon.api('POST', '/api/v1/auth/sessions', { token: daemon.token }, { token: null });
    assert.equal(answer.status, 201);
    assert.match(
      answer.headers.getSetCookie().join(),
      /^__Host-svc-session=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax$/,
    );
    assert.equal(Date.parse(String(answer.body['expiresAt'])) - nowMs, 12 * 3_600_000);
    const browser = { cookie: cookieIn(answer), key: String(answer.body['key']) };
    const me = await asBrowser(browser, 'GET', '/api/v1/me');
    assert.equal(me.status, 200);
    assert.deepEqual(me.body['session'], { method: 'token', expiresAt: answer.body['expiresAt'] });
    assert.equal((await daemon.api('GET', '/api/v1/me')).body['session'], null);
    const { rows } = await daemon.database.db.query<{ text: string }>(
      `select row_to_json(s)::text as text from svc.web_sessions s`,
    );
    for (const secret of [browser.cookie.split('=')[1] ?? '', browser.key])
      assert.ok(!JSON.stringify(rows).includes(secret), 'kept as a hash alone');
    const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.signed_in');
    assert.equal(audit.body['items']?.[0]?.['detail']?.['method'], 'token');
  });

  test('opens nothing without its key, from elsewhere, or under another name', async () => {
    const browser = await signIn({ token: daemon.token });
    const other = await signIn({ token: daemon.token });
    const cases: [string, ApiAnswer, unknown[]][] = [
      ['cookie alone', await asBrowser({ ...browser, key: '' }, 'GET', '/api/v1/me'), [401, 'key-required']],
      ['another key', await asBrowser({ ...browser, key: other.key }, 'GET', '/api/v1/me'), [401, 'key-required']],
      [
        'foreign origin',
        await asBrowser(browser, 'POST', '/api/v1/tokens', {
          body: { name: 'x' },
          headers: { origin: 'http://127.0.0.1:1' },
        }),
        [403, 'cross-origin'],
      ],
      [
        'no cookie',
        await asBrowser({ ...browser, cookie: '__Host-svc-session=x' }, 'GET', '/api/v1/me'),
        [401, 'session-ended'],
      ],
    ];
    const bare = { cookie: browser.cookie, 'x-svc-key': browser.key };
    const noOrigin = await daemon.api('POST', '/api/v1/tokens', { name: 'x' }, { token: null, headers: bare });
    cases.push(['no origin', noOrigin, [403, 'cross-origin']]);
    const foreign = { token: null, headers: { origin: 'https://evil.example' } };
    const login = await daemon.api('POST', '/api/v1/auth/sessions', { token: daemon.token }, foreign);
    cases.push(['foreign sign-in', login, [403, 'cross-origin']]);
    for (const [name, answer, want] of cases) assert.deepEqual(codeOf(answer), want, name);
    const under = (host: string) => statusUnder(host, { cookie: browser.cookie, 'x-svc-key': browser.key });
    assert.deepEqual([await under('evil.example'), await under('localhost:1'), await under('[::1]')], [421, 200, 200]);
    const bearer = { authorization: `Bearer ${daemon.token}`, cookie: '__Host-svc-session=x' };
    assert.equal((await daemon.api('GET', '/api/v1/me', undefined, { headers: bearer })).status, 200);
    assert.equal((await asBrowser(browser, 'POST', '/api/v1/tokens', { body: { name: 'x' } })).status, 201);
  });

  test('ends by itself: idle, old, with its token, with its person’s last role', async () => {
    const { token, id } = await makeToken();
    const first = await signIn({ token });
    assert.equal((await asBrowser(first, 'GET', '/api/v1/me')).status, 200);
    assert.equal((await daemon.api('DELETE', `/api/v1/tokens/${id}`)).status, 204);
    assert.deepEqual(codeOf(await asBrowser(first, 'GET', '/api/v1/me')), [401, 'session-ended']);
    assert.deepEqual(codeOf(await daemon.api('POST', '/api/v1/auth/sessions', { token }, { token: null })), [
      401,
      'signin-refused',
    ]);
    const idle = await signIn({ token: daemon.token });
    const begun = nowMs;
    nowMs += 7_199_000;
    assert.equal((await asBrowser(idle, 'GET', '/api/v1/me')).status, 200);
    nowMs += 7_201_000;
    assert.equal((await asBrowser(idle, 'GET', '/api/v1/me')).status, 401);
    const busy = await signIn({ token: daemon.token });
    for (let hours = 1; hours < 12; hours += 1) {
      nowMs += 3_600_000;
      assert.equal((await asBrowser(busy, 'GET', '/api/v1/me')).status, 200, `${hours}`);
    }
    nowMs += 3_600_000;
    assert.equal((await asBrowser(busy, 'GET', '/api/v1/me')).status, 401);
    assert.ok(nowMs > begun);
    const ann = await person('ann@example.org');
    const last = await signIn({ token: ann.token });
    assert.equal((await asBrowser(last, 'GET', '/api/v1/me')).status, 200);
    await daemon.database.db.query(
      `delete from svc.org_members m using svc.principals p where p.id = m.principal_id and p.email = 'ann@example.org'`,
    );
    assert.equal((await asBrowser(last, 'GET', '/api/v1/me')).status, 401);
  });

  test('is listed, ended by id and by signing out, and is its person’s own', async () => {
    const one = await signIn({ token: daemon.token });
    const two = await signIn({ token: daemon.token });
    const list = (await asBrowser(one, 'GET', '/api/v1/auth/sessions')).body['items'] as unknown as {
      id: string;
      current: boolean;
    }[];
    assert.equal(list.filter((row) => row.current).length, 1);
    const bob = await person('bob@example.org');
    const id = String(list.find((row) => row.current)?.id);
    const foreign = await daemon.api('DELETE', `/api/v1/auth/sessions/${id}`, undefined, { token: bob.token });
    assert.equal(foreign.status, 404);
    assert.equal((await asBrowser(two, 'DELETE', `/api/v1/auth/sessions/${id}`)).status, 204);
    assert.equal((await asBrowser(one, 'GET', '/api/v1/me')).status, 401);
    const out = await asBrowser(two, 'POST', '/api/v1/auth/signout');
    assert.equal(out.status, 204);
    assert.equal(out.headers.get('clear-site-data'), '"storage"');
    assert.equal((await asBrowser(two, 'GET', '/api/v1/me')).status, 401);
    const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=auth.signed_out');
    assert.equal(audit.body['items']?.['length'] as unknown, 1);
  });

  test('comes of a hand-off once, within a minute; a service account has none', async () => {
    const made = await daemon.api('POST', '/api/v1/auth/handoffs');
    assert.equal(made.status, 201);
    const handoff = String(made.body['handoff']);
    assert.equal(made.body['url'], `${daemon.url}/signin#h=${handoff}`);
    const open = (value: string) => daemon.api('POST', '/api/v1/auth/sessions', { handoff: value }, { token: null });
    const answers = await Promise.all(Array.from({ length: 20 }, () => open(handoff)));
    assert.deepEqual(
      answers.map(({ status }) => status).filter((status) => status !== 401),
      [201],
    );
    const late = String((await daemon.api('POST', '/api/v1/auth/handoffs')).body['handoff']);
    nowMs += 60_001;
    assert.equal((await open(late)).status, 401);
    assert.equal((await open('nothing')).status, 401);
    await daemon.api('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot' });
    const robot = await daemon.api('POST', '/api/v1/orgs/default/tokens', { serviceAccount: 'robot', name: 't' });
    assert.equal(robot.status, 201, JSON.stringify(robot.body));
    const token = String(robot.body['token']);
    const refused = await daemon.api('POST', '/api/v1/auth/sessions', { token }, { token: null });
    assert.deepEqual(codeOf(refused), [403, 'person-required']);
    const none = await daemon.api('POST', '/api/v1/auth/handoffs', undefined, { token });
    assert.deepEqual(codeOf(none), [403, 'person-required']);
  });
});

describe('the device grant', () => {
  const form = async (path: string, fields: { [name: string]: string }) => {
    const response = await fetch(`${daemon.url}/api/v1/oauth/${path}`, {
      method: 'POST',
      body: new URLSearchParams(fields),
    });
    return { status: response.status, body: (await response.json()) as { [name: string]: unknown } };
  };
  const grant_type = 'urn:ietf:params:oauth:grant-type:device_code';
  const start = () => form('device_authorization', { client_id: 'svc-cli', host: 'laptop' });
  const poll = (device_code: unknown) =>
    form('token', { client_id: 'svc-cli', grant_type, device_code: String(device_code) });

  test('gives one token to a command line that a person let in', async () => {
    const { status, body } = await start();
    assert.equal(status, 200);
    assert.match(String(body['user_code']), /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    assert.deepEqual(
      [body['verification_uri'], body['expires_in'], body['interval']],
      [`${daemon.url}/device`, 600, 5],
    );
    const pending = await poll(body['device_code']);
    assert.deepEqual([pending.status, pending.body['error']], [400, 'authorization_pending']);
    assert.equal((await poll(body['device_code'])).body['error'], 'slow_down');
    nowMs += 11_000;
    const browser = await signIn({ token: daemon.token });
    const userCode = String(body['user_code']).toLowerCase();
    const seen = await asBrowser(browser, 'POST', '/device', { body: { userCode } });
    assert.deepEqual(
      [seen.body['status'], seen.body['host'], seen.body['address']],
      ['pending', 'laptop', '127.0.0.1'],
    );
    const allowed = await asBrowser(browser, 'POST', '/device', { body: { userCode, decision: 'allow' } });
    assert.deepEqual([allowed.status, allowed.body['status']], [200, 'allowed']);
    const answers = await Promise.all(Array.from({ length: 10 }, () => poll(body['device_code'])));
    const [made, ...more] = answers.filter((answer) => answer.status === 200);
    assert.deepEqual(more, []);
    assert.deepEqual([made?.body['token_type'], made?.body['expires_in']], ['Bearer', 30 * 86_400]);
    const token = String(made?.body['access_token']);
    assert.match(token, /^svc_[\w-]{43}$/);
    assert.equal((await daemon.api('GET', '/api/v1/me', undefined, { token })).status, 200);
    assert.equal((await poll(body['device_code'])).body['error'], 'invalid_grant');
  });

  test('answers in the words of its standards', async () => {
    const cases: [string, { [name: string]: string }, number, string][] = [
      ['device_authorization', {}, 400, 'invalid_request'],
      ['device_authorization', { client_id: 'other' }, 401, 'invalid_client'],
      ['device_authorization', { client_id: '' }, 400, 'invalid_request'],
      ['token', { client_id: 'svc-cli', grant_type: '' }, 400, 'invalid_request'],
      ['token', { client_id: 'svc-cli', grant_type, device_code: '' }, 400, 'invalid_request'],
      ['token', { client_id: 'svc-cli' }, 400, 'invalid_request'],
      ['token', { client_id: 'svc-cli', grant_type: 'password' }, 400, 'unsupported_grant_type'],
      ['token', { client_id: 'svc-cli', grant_type }, 400, 'invalid_request'],
      ['token', { client_id: 'svc-cli', grant_type, device_code: 'x' }, 400, 'invalid_grant'],
    ];
    for (const [path, fields, status, error] of cases) {
      const answer = await form(path, fields);
      assert.deepEqual([answer.status, answer.body['error']], [status, error]);
    }
    const late = await start();
    nowMs += 600_001;
    assert.equal((await poll(late.body['device_code'])).body['error'], 'expired_token');
    const denied = await start();
    const decided = { userCode: String(denied.body['user_code']), decision: 'deny' };
    assert.equal((await daemon.api('POST', '/device', decided)).body['status'], 'denied');
    assert.equal((await poll(denied.body['device_code'])).body['error'], 'access_denied');
  });

  test('is begun only so often by whoever asks: five hundred wait from one address, two thousand in all', async () => {
    const waiting = (count: number, address: string) =>
      daemon.database.db.query(
        `insert into svc.device_grants (device_code_sha256, user_code_sha256, host, address, interval_seconds, created_at,
             expires_at)
           select sha256(id::text::bytea), sha256(id::text::bytea), 'h', $2::text, 5, $3::timestamptz,
                  $3::timestamptz + interval '10 minutes'
             from (select gen_random_uuid() as id from generate_series(1, $1::int)) n`,
        [count, address, new Date(nowMs)],
      );
    await waiting(500, '192.0.2.1');
    assert.equal((await start()).status, 200, 'others may');
    await waiting(499, '127.0.0.1');
    const refused = await start();
    assert.deepEqual([refused.status, refused.body['error']], [429, 'temporarily_unavailable']);
    nowMs += 600_001;
    assert.equal((await start()).status, 200, 'those are over');
    for (const n of [2, 3, 4, 5]) await waiting(500, `192.0.2.${n}`);
    assert.equal((await start()).status, 429);
    nowMs += 600_001;
    assert.equal((await start()).status, 200);
  });

  test('lets nobody guess: ten wrong codes a minute', async (t) => {
    const cat = await person('cat@example.org');
    const guess = () =>
      daemon.api('POST', '/device', { userCode: 'BBBB-BBBB', decision: 'allow' }, { token: cat.token });
    for (let tries = 0; tries < 10; tries += 1) assert.equal((await guess()).status, 404);
    assert.equal((await guess()).status, 429);
    // By the steady clock: the other one may be set.
    nowMs += 60_000;
    assert.equal((await guess()).status, 429);
    const now = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => now() + 60_000);
    assert.equal((await guess()).status, 404);
  });
});
