import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type AuthorizationBench, startAuthorizationBench } from '../../internal/base/testkit/authorization-server.ts';
import type { JsonBody } from '../../internal/base/testkit/daemon.ts';
import { createLog } from '../../internal/base/log/log.ts';
import { emptyHome, runSvc } from '../svc/testkit.ts';
import { createToolBench, type ToolBench } from '../../internal/edge/mcp/mcp-testkit.ts';

describe('a connection by consent', () => {
  let peer: AuthorizationBench;
  let bench: ToolBench;
  let log = '';
  let file: { providers: { oauth: { docs: { [key: string]: string | string[] } } } };
  let next = 1;
  const answers: string[] = [];
  const secrets = new Set<string>();
  const clock = { aheadMs: 0 };
  before(async () => {
    peer = await startAuthorizationBench();
    file = {
      providers: {
        oauth: { docs: { issuer: peer.issuer, clientId: 'unknown-there', scopes: ['read'], resource: peer.resource } },
      },
    };
    bench = await createToolBench({
      config: { file, allowPrivateNetwork: true },
      log: createLog('trace', { write: (line: string) => void (log += line) }),
      runtime: { now: () => new Date(performance.timeOrigin + performance.now() + clock.aheadMs) },
    });
  });
  after(async () => {
    await bench.stop();
    await peer.stop();
  });

  const api = async (method: string, path: string, body?: unknown): ReturnType<typeof bench.daemon.api> => {
    const answer = await bench.daemon.api(method, path, body);
    answers.push(JSON.stringify(answer.body ?? ''));
    return answer;
  };
  const make = async (more: object = {}): Promise<string> => {
    const name = `docs-${next++}`;
    const made = await api('POST', 'P/connections', { provider: 'mcp', name, url: peer.resource, ...more });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return name;
  };
  const authorize = async (name: string, body: object = {}): Promise<{ id: string; url: string; body: JsonBody }> => {
    const begun = await api('POST', `P/connections/${name}/authorize`, body);
    assert.equal(begun.status, 201, JSON.stringify(begun.body));
    // The address itself holds the state, which is for this browser alone.
    answers.pop();
    const url = String(begun.body['authorizationUrl']);
    secrets.add(new URL(url).searchParams.get('state') ?? '');
    return { id: String(begun.body['attemptId']), url, body: begun.body };
  };
  const arrive = async (url: URL, headers: { [name: string]: string } = {}): Promise<string> => {
    secrets.add(url.searchParams.get('code') ?? 'none');
    const response = await fetch(url, { redirect: 'manual', headers });
    assert.equal(response.status, 303);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
    return response.headers.get('location') ?? '';
  };
  const consented = async (name: string, body: object = {}): Promise<string> => {
    const { id, url } = await authorize(name, body);
    const location = await arrive(await peer.consent(url));
    assert.match(location, /\?connectionOAuth=success&provider=mcp$/);
    return id;
  };
  const status = async (name: string): Promise<string> =>
    String((await api('GET', `P/connections/${name}`)).body['status']);
  const attempt = async (name: string, id: string): Promise<JsonBody> =>
    (await api('GET', `P/connections/${name}/attempts/${id}`)).body;

  it('is made without a request, begun by a person, and active after the callback', async () => {
    const made = await api('POST', 'P/connections', { provider: 'mcp', name: 'first', url: peer.resource });
    assert.equal(made.status, 201);
    assert.deepEqual(
      [made.body['provider'], made.body['status'], made.body['intakeUrl']],
      ['mcp', 'authorization_required', null],
    );
    const { id, url, body } = await authorize('first');
    assert.equal(body['status'], 'awaiting_authorization');
    const asked = new URL(url).searchParams;
    assert.equal(asked.get('code_challenge_method'), 'S256');
    assert.equal(asked.get('resource'), peer.resource);
    assert.equal(asked.get('redirect_uri'), `${bench.daemon.url}/oauth/callback`);
    assert.match(String(asked.get('scope')), /^read offline_access$/);
    const back = await peer.consent(url);
    assert.equal(back.searchParams.get('iss'), peer.issuer);
    const location = await arrive(back);
    assert.equal(location, `/default/default/connections?connectionOAuth=success&provider=mcp`);
    assert.equal((await attempt('first', id))['status'], 'completed');
    assert.equal(await status('first'), 'active');
    const events = await api('GET', 'P/events?key=svc.connection.established');
    const payload = events.body['items']?.[0]?.['payload'];
    assert.deepEqual(
      [payload?.['provider'], payload?.['connection'], payload?.['kind'], payload?.['status']],
      ['mcp', 'first', 'mcp', 'active'],
    );
    // Once: the state is spent.
    assert.equal(await arrive(back), '/oauth/error');
    assert.equal(peer.counts.registrations, 1);
  });

  it('exchanges a code once, however many callbacks come at once', async () => {
    const name = await make();
    const { id, url } = await authorize(name);
    const back = await peer.consent(url);
    const before = peer.counts.exchanges;
    const locations = await Promise.all(Array.from({ length: 20 }, () => arrive(back)));
    assert.equal(peer.counts.exchanges - before, 1);
    assert.deepEqual(peer.counts.failures, []);
    assert.equal(locations.filter((one) => one.includes('connectionOAuth=success')).length, 1);
    const others = locations.filter((one) => !one.includes('connectionOAuth=success'));
    for (const one of others) assert.ok(one === '/oauth/error' || one.endsWith(`?oauthAttempt=${id}`), one);
    assert.equal(await status(name), 'active');
    assert.equal(peer.counts.registrations, 1);
  });

  it('refuses an answer of another issuer, one without the promised issuer, and a foreign person', async () => {
    for (const bend of [
      (url: URL) => url.searchParams.set('iss', 'https://evil.example'),
      (url: URL) => url.searchParams.delete('iss'),
      (url: URL) => url.searchParams.append('iss', 'https://evil.example'),
      (url: URL) => url.searchParams.set('error', 'access_denied'),
    ]) {
      const name = await make();
      const { id, url } = await authorize(name);
      const back = await peer.consent(url);
      bend(back);
      const before = peer.counts.exchanges + peer.counts.failures.length;
      assert.equal(await arrive(back), '/oauth/error');
      assert.equal(peer.counts.exchanges + peer.counts.failures.length, before);
      assert.equal((await attempt(name, id))['status'], 'failed');
      assert.equal(await status(name), 'authorization_required');
    }
    const name = await make();
    const { id, url } = await authorize(name);
    const back = await peer.consent(url);
    assert.equal(await arrive(back, { authorization: `Bearer svc_${'x'.repeat(43)}` }), '/oauth/error');
    assert.equal((await attempt(name, id))['status'], 'awaiting_authorization');
    assert.match(await arrive(back, { authorization: `Bearer ${bench.daemon.token}` }), /connectionOAuth=success/);
  });

  it('takes the browser session of the person who began, of nobody else, and none that has ended', async () => {
    const { token: own, url: base } = bench.daemon;
    const { db } = bench.daemon.ctx;
    await db.query(`with made as (insert into svc.principals (kind, name) values ('user', 'other') returning id)
      insert into svc.org_members select o.id, made.id, 'admin' from svc.orgs o, made where o.slug = 'default'`);
    const theirs = `svc_${'o'.repeat(43)}`;
    await db.query(
      `insert into svc.api_tokens (principal_id, token_sha256, name)
         select id, sha256(convert_to($1::text, 'utf8')), 'other' from svc.principals where name = 'other'`,
      [theirs],
    );
    const cookieOf = async (token: string): Promise<{ cookie: string }> => {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ token });
      const response = await fetch(`${base}/api/v1/auth/sessions`, { method: 'POST', headers, body });
      assert.equal(response.status, 201, await response.text());
      return { cookie: String(response.headers.getSetCookie()[0]).split(';')[0] ?? '' };
    };
    const foreign = await cookieOf(theirs);
    for (const sent of [await cookieOf(own), { cookie: `__Host-svc-session=${'x'.repeat(43)}` }]) {
      const name = await make();
      const { id, url } = await authorize(name);
      const back = await peer.consent(url);
      const before = peer.counts.exchanges;
      assert.equal(await arrive(back, foreign), '/oauth/error');
      assert.equal((await attempt(name, id))['status'], 'awaiting_authorization');
      assert.equal(peer.counts.exchanges, before);
      assert.match(await arrive(back, sent), /connectionOAuth=success/);
    }
  });

  it('is made, shown, checked and disconnected from the command line, which waits for the consent', async () => {
    const home = await emptyHome();
    const { url, token } = bench.daemon;
    const env = { SVC_URL: url, SVC_TOKEN: token, SVC_ORG: 'default', SVC_PROJECT: 'default' };
    const svc = (...words: string[]) => runSvc(home.path, words, { env });
    const wrong = await svc('connect', 'mcp', 'cli', '--url', `${peer.issuer}/nothing`, '--no-browser');
    assert.deepEqual([wrong.code, /discovery-failed|does not say/.test(wrong.stderr)], [1, true], wrong.stderr);
    assert.equal((await svc('connection', 'show', 'cli')).code, 1, 'nothing stays of it');

    const begun = await svc('connect', 'mcp', 'cli', '--url', peer.resource, '--no-wait', '--json');
    assert.equal(begun.code, 0, begun.stderr);
    const cancelled = JSON.parse(begun.stdout);
    assert.deepEqual([cancelled.status, cancelled.connection], ['authorization_required', 'cli']);
    // Another attempt ends the first.
    let seen = '';
    const running = runSvc(home.path, ['connect', 'mcp', 'cli', '--no-browser', '--json'], {
      env,
      onStderr: (text) => void (seen = text),
    });
    while (!/consent at \S+\n/.test(seen)) await new Promise((resolve) => setTimeout(resolve, 20));
    const address = /consent at (\S+)\n/.exec(seen)?.[1] ?? '';
    assert.match(await arrive(await peer.consent(address)), /connectionOAuth=success/);
    const done = await running;
    assert.equal(done.code, 0, done.stderr);
    assert.deepEqual(JSON.parse(done.stdout), {
      status: 'connected',
      provider: 'mcp',
      connection: 'cli',
      message: 'cli is connected',
    });
    assert.equal((await attempt('cli', String(cancelled.attemptId)))['status'], 'cancelled');
    assert.match((await svc('connect', 'mcp', 'cli')).stdout, /connected already/);
    const other = await svc('connect', 'mcp', 'cli', '--url', `${peer.resource}/other`);
    assert.match(other.stderr, /another connection cli/);

    const shown = JSON.parse((await svc('connection', 'show', 'cli', '--json')).stdout);
    assert.deepEqual([shown.provider, shown.status, shown.config.url], ['mcp', 'active', peer.resource]);
    const check = await svc('connection', 'check', 'cli', '--json');
    assert.equal(check.code, 0, check.stderr);
    assert.match(JSON.parse(check.stdout).checkedAt, /^\d{4}-/);
    assert.match((await svc('connection', 'list')).stdout, /^cli +mcp +active/m);
    const before = peer.counts.revocations;
    assert.equal((await svc('connection', 'disconnect', 'cli', '--json')).code, 0);
    assert.equal(peer.counts.revocations - before, 1);
    answers.push(done.stdout, done.stderr, JSON.stringify(shown), check.stdout);
    await home.remove();
  });

  it('connects a configured provider with its secret, and passes its tool server through', async () => {
    const registered = await fetch(`${peer.issuer}/reg`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        redirect_uris: [`${bench.daemon.url}/oauth/callback`],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'client_secret_basic',
      }),
    });
    const client = (await registered.json()) as { readonly client_id: string; readonly client_secret: string };
    secrets.add(client.client_secret);
    file.providers.oauth.docs = {
      ...{ issuer: peer.issuer, clientId: client.client_id, clientSecretRef: 'docs-client' },
      ...{ scopes: ['read', 'offline_access'], resource: peer.resource, mcpUrl: peer.resource },
    };
    await bench.daemon.api('PUT', 'P/secrets/docs-client', { value: client.client_secret });
    assert.equal((await api('POST', 'P/connections', { provider: 'docs', name: 'team' })).status, 201);
    const { url } = await authorize('team');
    assert.match(await arrive(await peer.consent(url)), /connectionOAuth=success&provider=docs$/);
    await bench.apply({ asker: { tools: { docs: { kind: 'connection', provider: 'docs', connection: 'team' } } } });
    const seat = await bench.start('asker');
    const { tools } = await (await seat.client('docs')).listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['read', 'write'],
    );
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'read', arguments: {} } };
    assert.match(await (await seat.post('docs', message)).text(), /did read with read/);
  });

  it('says why an authorization server cannot be used, and sends it nothing', async () => {
    for (const [fault, code, more] of [
      ['no-pkce', 'pkce-missing', {}],
      ['wrong-issuer', 'issuer-mismatch', {}],
      ['no-registration', 'client-needed', { url: peer.resource }],
    ] as const) {
      const name = await make(more);
      peer.faults.add(fault);
      // The registered client of this issuer is not asked for where there is no registration.
      const { status: answered, body } = await api('POST', `P/connections/${name}/authorize`);
      peer.faults.delete(fault);
      assert.equal(answered, 422, fault);
      assert.equal(body['code'], code);
    }
    const name = await make({ url: `${peer.issuer}/nothing` });
    assert.equal((await api('POST', `P/connections/${name}/authorize`)).body['code'], 'discovery-failed');
    const bound = await make({ clientId: 'mine' });
    await bench.daemon.ctx.db.query(
      `update svc.connections set config = config || '{"issuer": "https://elsewhere.example"}' where name = $1::text`,
      [bound],
    );
    assert.equal((await api('POST', `P/connections/${bound}/authorize`)).body['code'], 'issuer-mismatch');
  });

  it('takes no connection without an address, and no attempt that is over', async () => {
    for (const body of [
      { provider: 'mcp', name: 'x' },
      { provider: 'mcp', name: 'x', url: 'ftp://a.example/' },
      { provider: 'mcp', name: 'x', url: 'https://u:p@a.example/' },
      { provider: 'mcp', name: 'x', url: peer.resource, scopes: ['a b'] },
      { provider: 'unknown-here', name: 'x' },
    ])
      assert.equal((await api('POST', 'P/connections', body)).status, 400, JSON.stringify(body));
    const name = await make();
    const { id, url } = await authorize(name);
    const back = await peer.consent(url);
    assert.equal((await api('DELETE', `P/connections/${name}/attempts/${id}`)).body['status'], 'cancelled');
    assert.equal((await api('DELETE', `P/connections/${name}/attempts/${id}`)).status, 409);
    assert.equal(await arrive(back), '/oauth/error');
    const late = await authorize(name);
    const lateBack = await peer.consent(late.url);
    clock.aheadMs += 900_000;
    assert.equal(await arrive(lateBack), '/oauth/error');
    assert.equal((await attempt(name, late.id))['status'], 'expired');
    assert.equal((await api('GET', `P/connections/${name}/attempts/nothing`)).status, 404);
    for (const query of ['', '?state=x', '?state=a&state=b', `?state=${'A'.repeat(43)}&code=c`, '?code=c&error=x']) {
      assert.equal(await arrive(new URL(`${bench.daemon.url}/oauth/callback${query}`)), '/oauth/error');
    }
  });

  it('is uncertain where the answer to the exchange is lost', async () => {
    const name = await make();
    const { id, url } = await authorize(name);
    const back = await peer.consent(url);
    const before = peer.counts.exchanges;
    peer.faults.add('token-lost');
    assert.equal(await arrive(back), '/oauth/error');
    assert.equal(peer.counts.exchanges - before, 1);
    assert.equal((await attempt(name, id))['status'], 'uncertain');
    assert.equal(await status(name), 'uncertain');
    assert.equal(await arrive(back), '/oauth/error');
    assert.equal(peer.counts.exchanges - before, 1);
    await consented(name);
    assert.equal(await status(name), 'active');
  });

  it('destroys its tokens, replaced or disconnected, and asks the server to forget them, whatever that answers', async () => {
    for (const isLost of [false, true]) {
      const name = await make();
      await consented(name);
      const tokens = 'select id from svc.oauth_tokens where name like $1::text';
      const id = String((await api('GET', `P/connections/${name}`)).body['id']);
      const held = async (): Promise<string[]> =>
        (await bench.daemon.ctx.db.query<{ id: string }>(tokens, [`oauth:${id}%`])).rows.map((row) => row.id);
      const first = await held();
      await consented(name);
      assert.deepEqual([(await held()).length, (await held())[0] === first[0]], [1, false], 'another one');
      const before = peer.counts.revocations;
      if (isLost) peer.faults.add('revocation-lost');
      assert.equal((await api('DELETE', `P/connections/${name}`)).status, 204);
      assert.equal(peer.counts.revocations - before, 1);
      assert.deepEqual(await held(), []);
    }
  });

  it('answers with one page for whatever went wrong, and with no document by plain http', async () => {
    const one = await fetch(`${bench.daemon.url}/oauth/error`);
    const other = await fetch(`${bench.daemon.url}/oauth/error?error=<script>`);
    assert.equal(one.status, 200);
    assert.equal(await one.text(), await other.text());
    assert.equal(one.headers.get('cache-control'), 'no-store');
    assert.equal((await fetch(`${bench.daemon.url}/oauth/client-metadata.json`)).status, 404);
  });

  it('lets a session call with the token, refreshed once, stepped up, and says what is missing', async () => {
    const name = await make();
    await consented(name);
    const remote = { kind: 'mcp_remote', url: 'https://x.example/mcp', auth: { kind: 'mcp_oauth', connection: name } };
    await bench.apply({ reader: { tools: { docs: remote } } });
    // Authors write https alone; the peer of this test has no certificate.
    await bench.daemon.ctx.db.query(
      `update svc.agent_revisions set spec = replace(spec::text, 'https://x.example/mcp', $1::text)::jsonb`,
      [peer.resource],
    );
    const seat = await bench.start('reader');
    const call = async (tool: string): Promise<string> => {
      const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: {} } };
      const answer = await seat.post('docs', message);
      const { result } = (await answer.json()) as { result?: { content: { text: string }[] } };
      return result?.content[0]?.text ?? `status ${answer.status}`;
    };
    assert.match(await call('read'), /^did read with /);
    clock.aheadMs += 4_000_000;
    const before = peer.counts.refreshes;
    const texts = await Promise.all(Array.from({ length: 20 }, () => call('read')));
    assert.deepEqual([...new Set(texts.map((text) => text.slice(0, 8)))], ['did read']);
    assert.equal(peer.counts.refreshes - before, 1);
    peer.refused.add(String(peer.shown.at(-1)));
    assert.match(await call('read'), /^did read/);
    assert.equal(peer.counts.refreshes - before, 2);
    assert.equal(await call('write'), `scope-required: connection ${name}`);
    assert.equal(await status(name), 'scope_required');
    await consented(name);
    assert.match(await call('write'), /^did write/);
    assert.equal(await status(name), 'active');
    clock.aheadMs += 4_000_000;
    peer.faults.add('token-lost');
    assert.equal(await call('read'), `authorization-required: connection ${name}`);
    assert.equal(await status(name), 'uncertain');
    const sent = peer.counts.refreshes;
    assert.equal(await call('read'), `authorization-required: connection ${name}`);
    assert.equal(peer.counts.refreshes, sent);
  });

  it('shows no code, state or token anywhere', async () => {
    for (const token of [...peer.shown, ...peer.secrets]) secrets.add(token);
    for (const short of [...secrets].filter((one) => one.length < 20 || /^A+$/.test(one))) secrets.delete(short);
    assert.ok(secrets.size > 5);
    for (const secret of secrets) {
      assert.ok(!log.includes(secret), 'in the log');
      assert.ok(!answers.some((one) => one.includes(secret)), 'in an answer');
    }
  });
});
