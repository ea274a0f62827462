// What an authorization server may say that no honest one says, and what honest ones say a little amiss: the person who
// connects is told which it is, and what was given is not lost over what stands beside it.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, beforeEach, test } from 'node:test';
import { createToolBench, type ToolBench } from '../../internal/edge/mcp/mcp-testkit.ts';

interface Said {
  readonly [name: string]: unknown;
}
type Answer = readonly [status: number, body: Said | string];

let bench: ToolBench;
let server: Server;
let origin = '';
/** Added to what the server says honestly. */
let resource: Said = {};
let metadata: Said = {};
let client: Said = {};
let token: (grant: string) => Answer | Promise<Answer> = () => [200, given];
const given = { access_token: 'held', token_type: 'Bearer', expires_in: 3_600, refresh_token: 'next' };
let exchanges = 0;
/** The scope that the resource misses. */
let wants = '';

function answer(path: string, authorization: string | undefined, body: string): Answer | Promise<Answer> {
  if (path.startsWith('/.well-known/oauth-protected-resource')) {
    return [200, { resource: `${origin}/mcp`, authorization_servers: [origin], ...resource }];
  }
  if (path.startsWith('/.well-known/oauth-authorization-server')) {
    const honest = {
      issuer: origin,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      code_challenge_methods_supported: ['S256'],
    };
    return [200, { ...honest, ...metadata }];
  }
  if (path === '/register') return [201, { client_id: 'registered', ...client }];
  if (path === '/token') {
    exchanges += 1;
    return token(new URLSearchParams(body).get('grant_type') ?? '');
  }
  const done = { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'done' }] } };
  if (path === '/mcp') return authorization === undefined ? [401, {}] : [wants === '' ? 200 : 403, done];
  return [404, {}];
}

before(async () => {
  server = createServer((request, response) => {
    void (async () => {
      const asked = await text(request);
      const [status, body] = await answer(
        (request.url ?? '').split('?')[0] ?? '',
        request.headers.authorization,
        asked,
      );
      const challenge = { 'www-authenticate': `Bearer error="insufficient_scope", scope="${wants}"` };
      response.writeHead(status, { 'content-type': 'application/json', ...(status === 403 && challenge) });
      const said = typeof body === 'string' ? body : JSON.stringify(body);
      response.end(said.replace('"deep"', '['.repeat(100_000) + ']'.repeat(100_000)));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  bench = await createToolBench({ config: { allowPrivateNetwork: true } });
});
after(async () => {
  await bench.stop();
  server.close();
});
beforeEach(async () => {
  [resource, metadata, client] = [{}, {}, {}];
  token = () => [200, given];
  wants = '';
  await bench.daemon.ctx.db.query('delete from svc.oauth_clients');
});

let next = 1;
async function begun(): Promise<{ name: string; status: number; body: Said }> {
  const name = `docs-${next++}`;
  const made = await bench.daemon.api('POST', 'P/connections', { provider: 'mcp', name, url: `${origin}/mcp` });
  assert.equal(made.status, 201);
  return again(name);
}
async function again(name: string): Promise<{ name: string; status: number; body: Said }> {
  const { status, body } = await bench.daemon.api('POST', `P/connections/${name}/authorize`, {});
  return { name, status, body };
}

test('words that nobody can keep or read are a reason of the server, not an error of the service', async () => {
  const unknown = { client_secret: 'x', client_secret_expires_at: 1e15 };
  for (const [what, said, code] of [
    ['a resource with NUL', () => (resource = { resource: `${origin}/mcp\0` }), 'discovery-failed'],
    ['an issuer with NUL', () => (metadata = { issuer: `${origin}\0` }), 'discovery-failed'],
    ['an address with NUL', () => (metadata = { token_endpoint: `${origin}/t\0` }), 'discovery-failed'],
    ['half a character', () => (metadata = { authorization_endpoint: `${origin}/a\ud800` }), 'discovery-failed'],
    ['a number of methods', () => (metadata = { code_challenge_methods_supported: 5 }), 'pkce-missing'],
    ['a text of methods', () => (metadata = { code_challenge_methods_supported: 'plain S256' }), 'pkce-missing'],
    ['a client with NUL', () => (client = { client_id: 'a\0b' }), 'client-needed'],
    ['a client as long as a book', () => (client = { client_id: 'a'.repeat(100_000) }), 'client-needed'],
    ['a revocation with NUL', () => (metadata = { revocation_endpoint: `${origin}/r\0` }), undefined],
    ['scopes that are none', () => (metadata = { scopes_supported: ['\ud800', 1, {}] }), undefined],
    ['proofs below proofs', () => (metadata = { token_endpoint_auth_methods_supported: ['deep'] }), undefined],
    ['a secret of all time', () => (client = unknown), undefined],
  ] as const) {
    await bench.daemon.ctx.db.query('delete from svc.oauth_clients');
    [resource, metadata, client] = [{}, {}, {}];
    said();
    const { status, body } = await begun();
    assert.deepEqual([status, body['code']], code === undefined ? [201, undefined] : [422, code], what);
  }
});

/** The browser of one that began comes back with this beside its state: what the attempt and the connection are then. */
async function returned(query: string, at = begun()): Promise<{ name: string; attempt: Said; status: unknown }> {
  const { name, body } = await at;
  const state = new URL(String(body['authorizationUrl'])).searchParams.get('state');
  await fetch(`${bench.daemon.url}/oauth/callback?state=${state}${query}`, { redirect: 'manual' });
  const attempt = await bench.daemon.api('GET', `P/connections/${name}/attempts/${String(body['attemptId'])}`);
  const { body: connection } = await bench.daemon.api('GET', `P/connections/${name}`);
  return { name, attempt: attempt.body, status: connection['status'] };
}

test('a browser that comes back without a code has failed: nothing was sent, so nothing is uncertain', async () => {
  for (const query of ['', '&code=', '&code=a&code=b']) {
    const before = exchanges;
    const { attempt, status } = await returned(query);
    assert.deepEqual(
      [attempt['status'], attempt['reason'], status, exchanges - before],
      ['failed', 'invalid_response', 'authorization_required', 0],
      query,
    );
  }
});

test('a token is taken whatever stands beside it, and an error in its place is a refusal', async () => {
  for (const beside of [
    { expires_in: null },
    { expires_in: -1 },
    { expires_in: 'soon' },
    { expires_in: '' },
    { refresh_token: null },
    { refresh_token: '' },
    { scope: null },
    { scope: ['read'] },
    { id_token: null },
  ]) {
    token = () => [200, { ...given, ...beside }];
    const { attempt, status } = await returned('&code=' + `code-${next}`);
    assert.deepEqual([attempt['status'], status], ['completed', 'active'], JSON.stringify(beside));
  }
  for (const [said, state, reason] of [
    [{ error: 'bad_verification_code' }, 'failed', 'bad_verification_code'],
    [{ ...given, access_token: 'a\r\nb: c' }, 'uncertain', 'no-answer'],
    ['[]', 'uncertain', 'no-answer'],
    ['nothing', 'uncertain', 'no-answer'],
  ] as const) {
    token = () => [200, said];
    const { attempt } = await returned('&code=' + `code-${next}`);
    assert.deepEqual([attempt['status'], attempt['reason']], [state, reason], JSON.stringify(said));
  }
});

/** Its token is over, and asked for: what the connection is then. */
async function refreshed(name: string): Promise<unknown[]> {
  await expire(name);
  const { body } = await bench.daemon.api('POST', `P/connections/${name}/check`, {});
  return [body['status'], body['reason']];
}
const expire = (name: string): Promise<unknown> =>
  bench.daemon.ctx.db.query(
    `update svc.oauth_grants g set expires_at = now() - interval '1 second', refresh_at = now() - interval '1 second'
       from svc.connections c where c.id = g.connection_id and c.name = $1::text`,
    [name],
  );
const clientOf = ({ body }: { body: Said }): string | null =>
  new URL(String(body['authorizationUrl'])).searchParams.get('client_id');

test('a client that its server does not know any more at a refresh is registered anew by the next consent', async () => {
  const { name } = await returned(`&code=first-${next}`);
  client = { client_id: 'anew' };
  token = () => [401, { error: 'invalid_client' }];
  assert.deepEqual(await refreshed(name), ['authorization_required', 'invalid_client']);
  assert.equal(clientOf(await again(name)), 'anew');
});

test('a connection whose registered client is gone asks for a consent, not for a server that is there', async () => {
  client = { client_id: 'one', client_secret: 'its', client_secret_expires_at: 0 };
  const { name } = await returned(`&code=first-${next}`);
  // Another connection learns that the server has forgotten the client, which is the organization's.
  token = () => [401, { error: 'invalid_client' }];
  await returned(`&code=other-${next}`);
  token = () => [200, given];
  client = { client_id: 'two', client_secret: 'its', client_secret_expires_at: 0 };
  assert.deepEqual(await refreshed(name), ['authorization_required', 'credential-refused']);
  assert.equal(clientOf(await again(name)), 'two');
});

test('a registered client goes on with what it was given after the service has got another address', async () => {
  client = { client_id: 'one', client_secret: 'its', client_secret_expires_at: 0 };
  const { name } = await returned(`&code=first-${next}`);
  await bench.daemon.ctx.db.query(
    `update svc.oauth_clients set redirect_uri = 'https://before.example/oauth/callback'`,
  );
  assert.deepEqual(await refreshed(name), ['active', undefined]);
  // Who consents is sent back to where the service is now, which only another client may name.
  client = { client_id: 'two', client_secret: 'its', client_secret_expires_at: 0 };
  assert.equal(clientOf(await again(name)), 'two');
  assert.deepEqual(await refreshed(name), ['active', undefined]);
});

test('a call whose refresh is overtaken by a new consent goes on with what that gave', async () => {
  const { name } = await returned(`&code=first-${next}`);
  const remote = { kind: 'mcp_remote', url: 'https://x.example/mcp', auth: { kind: 'mcp_oauth', connection: name } };
  await bench.apply({ reader: { tools: { docs: remote } } });
  // Authors write https alone; the server of this test has no certificate.
  await bench.daemon.ctx.db.query(
    `update svc.agent_revisions set spec = replace(spec::text, 'https://x.example/mcp', $1::text)::jsonb`,
    [`${origin}/mcp`],
  );
  const seat = await bench.start('reader');
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'read', arguments: {} } };
  for (const late of [
    [400, { error: 'invalid_grant' }],
    [200, { ...given, access_token: 'late' }],
  ] as const) {
    await expire(name);
    token = async (grant) => {
      if (grant !== 'refresh_token') return [200, { ...given, access_token: 'newer' }];
      const { status } = await returned(`&code=${late[0]}-${next++}`, again(name));
      assert.equal(status, 'active');
      return late;
    };
    assert.match(await (await seat.post('docs', message)).text(), /"text":"done"/);
  }
});

test('the next consent asks for the scope that was missed, also where the grant has ended since', async () => {
  resource = { scopes_supported: ['read'] };
  const { name } = await returned(`&code=first-${next}`);
  wants = 'write';
  const { body } = await bench.daemon.api('POST', `P/connections/${name}/check`, {});
  assert.equal(body['status'], 'scope_required');
  token = () => [400, { error: 'invalid_grant' }];
  assert.deepEqual(await refreshed(name), ['authorization_required', 'invalid_grant']);
  const asked = (await again(name)).body['authorizationUrl'];
  assert.equal(new URL(String(asked)).searchParams.get('scope'), 'read write');
});
