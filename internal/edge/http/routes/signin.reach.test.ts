// A person of two organizations: what is made from a token of one reaches nothing of the other, and ends with what it was
// made from.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ApiAnswer, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
let nowMs = Date.UTC(2026, 0, 5, 12);
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] }, runtime: { now: () => new Date(nowMs) } });
  for (const slug of ['alpha', 'beta']) await made('/api/v1/orgs', { slug });
  await made('/api/v1/orgs/beta/projects', { slug: 'one' });
});
after(() => daemon.stop());

const made = async (path: string, body: object): Promise<ApiAnswer> => {
  const answer = await daemon.api('POST', path, body);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer;
};
/** A person of both, with a token of each; all of one test alone. */
const person = async (name: string) => {
  const email = `${name}@example.org`;
  const { body } = await made('/api/v1/orgs/alpha/members', { email, role: 'member' });
  await made('/api/v1/orgs/beta/members', { email, role: 'member' });
  const token = async (org: string) =>
    String((await made(`/api/v1/orgs/${org}/tokens`, { email, name: 'own' })).body['token']);
  return { id: String(body['principalId']), email, ofAlpha: await token('alpha'), ofBeta: await token('beta') };
};
const asked = (token: string, method: string, path: string, body?: object) => daemon.api(method, path, body, { token });
const signIn = async (body: object) => {
  const answer = await daemon.api('POST', '/api/v1/auth/sessions', body, { token: null });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const cookie = (answer.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
  return { cookie, 'x-svc-key': String(answer.body['key']), origin: daemon.url };
};
type Browser = Awaited<ReturnType<typeof signIn>>;
const asBrowser = (headers: Browser, method: string, path: string) =>
  daemon.api(method, path, undefined, { token: null, headers });
const sessionsOf = async (answer: Promise<ApiAnswer>) =>
  ((await answer).body['items'] as unknown as { id: string }[]).map(({ id }) => id);
const form = async (path: string, fields: { [name: string]: string }) => {
  const body = new URLSearchParams({ client_id: 'svc-cli', ...fields });
  const response = await fetch(`${daemon.url}/api/v1/oauth/${path}`, { method: 'POST', body });
  return (await response.json()) as { readonly [name: string]: string };
};
const grantType = 'urn:ietf:params:oauth:grant-type:device_code';
const poll = (code = '') => form('token', { grant_type: grantType, device_code: code });

describe('a token of one organization', () => {
  test('neither sees nor ends browsers that are signed in to another one', async () => {
    const ann = await person('ann');
    const ofBeta = await signIn({ token: ann.ofBeta });
    const ofAlpha = await signIn({ token: ann.ofAlpha });
    const [own] = await sessionsOf(asBrowser(ofAlpha, 'GET', '/api/v1/auth/sessions'));
    const [other, ...more] = await sessionsOf(asBrowser(ofBeta, 'GET', '/api/v1/auth/sessions'));
    assert.deepEqual(more, []);
    assert.notEqual(own, other);
    assert.deepEqual(await sessionsOf(asked(ann.ofAlpha, 'GET', '/api/v1/auth/sessions')), [own]);
    const path = `/api/v1/auth/sessions/${other}`;
    assert.equal((await asked(ann.ofAlpha, 'DELETE', path)).status, 404);
    assert.equal((await asBrowser(ofAlpha, 'DELETE', path)).status, 404);
    assert.equal((await asBrowser(ofBeta, 'GET', '/api/v1/me')).status, 200);
    assert.equal((await asked(ann.ofBeta, 'DELETE', path)).status, 204);
    assert.equal((await asBrowser(ofBeta, 'GET', '/api/v1/me')).status, 401);
    assert.equal((await asBrowser(ofAlpha, 'POST', '/api/v1/auth/signout')).status, 204);
  });

  test('is told of in the audit of its own organization alone', async () => {
    const bea = await person('bea');
    const handoff = String((await asked(bea.ofAlpha, 'POST', '/api/v1/auth/handoffs')).body['handoff']);
    const browser = await signIn({ handoff });
    const { user_code: userCode = '' } = await form('device_authorization', {});
    assert.equal((await asked(bea.ofAlpha, 'POST', '/device', { userCode, decision: 'allow' })).status, 200);
    await asBrowser(browser, 'POST', '/api/v1/auth/signout');
    const told = async (org: string): Promise<string[]> => {
      const { body } = await daemon.api('GET', `/api/v1/orgs/${org}/audit?principal=${bea.id}&limit=200`);
      return (body['items'] as unknown as { action: string }[]).map(({ action }) => action);
    };
    const want = ['auth.signed_out', 'auth.device_allowed', 'auth.signed_in', 'auth.handoff_created'];
    assert.deepEqual([await told('alpha'), await told('beta')], [want, []]);
  });

  test('has no browser any more, and makes no token, once its person has left that organization', async () => {
    const cat = await person('cat');
    await made('/api/v1/orgs/beta/projects/one/members', { email: cat.email, role: 'viewer' });
    const browser = await signIn({ token: cat.ofAlpha });
    const { user_code: userCode = '', device_code: code } = await form('device_authorization', {});
    assert.equal((await asked(cat.ofAlpha, 'POST', '/device', { userCode, decision: 'allow' })).status, 200);
    assert.equal((await daemon.api('DELETE', `/api/v1/orgs/alpha/members/${cat.id}`)).status, 204);
    assert.equal((await asBrowser(browser, 'GET', '/api/v1/me')).body['code'] as unknown, 'session-ended');
    assert.equal((await poll(code))['error'], 'invalid_grant');
  });
});

describe('a command line that was let in, and has not fetched its token yet', () => {
  const letIn = async (token: string): Promise<string> => {
    const { user_code: userCode = '', device_code: code = '' } = await form('device_authorization', {});
    assert.equal((await asked(token, 'POST', '/device', { userCode, decision: 'allow' })).status, 200);
    return code;
  };
  test('gets none once what it was let in with is revoked or has expired', async () => {
    const own = (body: object) => made('/api/v1/tokens', { name: 'own', ...body });
    const { body } = await own({});
    const revoked = await letIn(String(body['token']));
    const browser = await signIn({ token: String(body['token']) });
    const { user_code: userCode = '', device_code: byBrowser } = await form('device_authorization', {});
    const how = { token: null, headers: browser };
    assert.equal((await daemon.api('POST', '/device', { userCode, decision: 'allow' }, how)).status, 200);
    assert.equal((await daemon.api('DELETE', `/api/v1/tokens/${String(body['id'])}`)).status, 204);
    assert.equal((await poll(revoked))['error'], 'invalid_grant');
    assert.equal((await poll(byBrowser))['error'], 'invalid_grant');
    const short = await own({ expiresAt: new Date(nowMs + 60_000).toISOString() });
    const [inTime, late] = [await letIn(String(short.body['token'])), await letIn(String(short.body['token']))];
    assert.deepEqual((await poll(inTime))['expires_in'] as unknown, 60);
    nowMs += 60_000;
    assert.deepEqual(await poll(late), { error: 'invalid_grant' });
  });
});
