// Consents over several daemons: one refresh at a time, and a daemon that is killed around an exchange or a refresh leaves
// what nobody knows as such; nothing is sent twice. Afterwards no code, verifier, state or token is anywhere in the clear.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createLog } from '../../internal/base/log/log.ts';
import { type AuthorizationBench, startAuthorizationBench } from '../../internal/base/testkit/authorization-server.ts';
import { apiClient, spawnDaemon, type SpawnedDaemon, startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import type { TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { createToolBench, type Seat, type ToolBench } from '../../internal/edge/mcp/mcp-testkit.ts';

describe('a connection by consent, over several daemons', () => {
  let peer: AuthorizationBench;
  let database: TestDatabase;
  let bench: ToolBench;
  let dir: string;
  let log = '';
  const config = { allowPrivateNetwork: true };
  const logger = createLog('trace', { write: (line: string) => void (log += line) });
  before(async () => {
    peer = await startAuthorizationBench();
    database = await createTestDatabase();
    dir = await mkdtemp(join(tmpdir(), 'svc-oauth-'));
    bench = await createToolBench({ database, dataDir: dir, config, log: logger });
  });
  after(async () => {
    await bench.stop();
    await peer.stop();
    await database.close();
    await rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });

  let next = 1;
  const begin = async (): Promise<{ name: string; back: URL; attempt: string }> => {
    const name = `docs-${next++}`;
    const { api } = bench.daemon;
    assert.equal((await api('POST', 'P/connections', { provider: 'mcp', name, url: peer.resource })).status, 201);
    const { body } = await api('POST', `P/connections/${name}/authorize`, {});
    return { name, back: await peer.consent(String(body['authorizationUrl'])), attempt: String(body['attemptId']) };
  };
  const arrive = async (back: URL, at = bench.daemon.url): Promise<string> => {
    const response = await fetch(`${at}${back.pathname}${back.search}`, { redirect: 'manual' });
    return response.headers.get('location') ?? '';
  };
  /** A session with a tool behind a connection that somebody consented to. */
  const seated = async (): Promise<{ name: string; seat: Seat }> => {
    const { name, back } = await begin();
    assert.match(await arrive(back), /connectionOAuth=success/);
    const auth = { kind: 'mcp_oauth', connection: name };
    const agent = `reader-${name}`;
    await bench.apply({ [agent]: { tools: { docs: { kind: 'mcp_remote', url: 'https://x.example/mcp', auth } } } });
    // Authors write https alone; the peer of this test has no certificate.
    await database.db.query(
      `update svc.agent_revisions set spec = replace(spec::text, 'https://x.example/mcp', $1::text)::jsonb`,
      [peer.resource],
    );
    return { name, seat: await bench.start(agent) };
  };
  const call = async (seat: Seat, url = bench.daemon.url): Promise<string> => {
    const response = await fetch(`${url}/api/v1/sessions/${seat.session}/mcp/docs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${seat.token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'read', arguments: {} } }),
    });
    const { result } = (await response.json()) as { result?: { content: { text: string }[] } };
    return result?.content[0]?.text ?? `status ${response.status}`;
  };
  const expire = (name: string) =>
    database.db.query(
      `update svc.oauth_grants g set expires_at = now() - interval '1 second', refresh_at = now() - interval '1 second'
         from svc.connections c where c.id = g.connection_id and c.name = $1::text`,
      [name],
    );
  const status = async (name: string): Promise<string> =>
    String((await bench.daemon.api('GET', `P/connections/${name}`)).body['status']);

  it('refreshes once, however many sessions of two daemons call with a token that is over', async () => {
    const { name, seat } = await seated();
    const token = bench.daemon.token;
    const options = { database, token, log: logger };
    const other: TestDaemon = await startTestDaemon({
      ...options,
      config: { ...config, masterKeyFile: bench.daemon.ctx.config.masterKeyFile },
    });
    try {
      await expire(name);
      peer.tokenMs = 300;
      const before = peer.counts.refreshes;
      const urls = [bench.daemon.url, other.url];
      const texts = await Promise.all(Array.from({ length: 50 }, (_, n) => call(seat, urls[n % 2])));
      peer.tokenMs = 0;
      assert.deepEqual([...new Set(texts.map((text) => text.slice(0, 8)))], ['did read']);
      assert.equal(peer.counts.refreshes - before, 1);
      assert.deepEqual(peer.counts.failures, []);
    } finally {
      await other.stop();
    }
  });

  it('keeps what the server has answered also where the database breaks off behind it', async () => {
    const { name, seat } = await seated();
    await expire(name);
    // The first time that a token is to be kept, as when the server goes down at that moment.
    await database.db.query('create sequence public.breaks');
    await database.db.query(`create function public.break_off() returns trigger language plpgsql as $$ begin
      if nextval('public.breaks') = 1 then raise exception 'it goes down' using errcode = '57P01'; end if; return new; end $$`);
    await database.db.query(
      'create trigger break_off before insert on svc.oauth_tokens for each row execute function public.break_off()',
    );
    const before = peer.counts.refreshes;
    assert.match(await call(seat), /^did read/);
    await database.db.query('drop trigger break_off on svc.oauth_tokens');
    assert.equal(peer.counts.refreshes - before, 1);
    assert.deepEqual(peer.counts.failures, []);
    assert.equal(await status(name), 'active');
  });

  const killed = async (point: string, doing: (url: string) => Promise<unknown>): Promise<SpawnedDaemon> => {
    const daemon = spawnDaemon({
      dataDir: join(dir, 'other'),
      args: ['--database-url', database.url, '--master-key-file', bench.daemon.ctx.config.masterKeyFile],
      env: { SVC_FAILPOINT: point, SVC_ALLOW_PRIVATE_NETWORK: 'true', SVC_LOG_LEVEL: 'trace', SVC_ROLES: 'api' },
    });
    const { url, pid } = await daemon.ready;
    log += await readFile(`/proc/${pid}/cmdline`, 'utf8');
    await doing(url).catch(() => undefined);
    assert.equal((await daemon.exited).signal, 'SIGKILL', daemon.stderr());
    log += daemon.stdout() + daemon.stderr();
    return daemon;
  };

  for (const [point, sent] of [
    ['oauth.code-claimed', 0],
    ['oauth.exchanged', 1],
  ] as const) {
    if (!isLong && point !== 'oauth.exchanged') continue;
    it(`killed at ${point} the attempt is uncertain, and the code is not sent again`, async () => {
      const { name, back, attempt } = await begin();
      const before = peer.counts.exchanges;
      await killed(point, (url) => arrive(back, url));
      assert.equal(peer.counts.exchanges - before, sent);
      assert.match(await arrive(back), new RegExp(`oauthAttempt=${attempt}$`));
      await database.db.query('update svc.oauth_attempts set exchange_until = now() where id = $1::uuid', [attempt]);
      const { body } = await bench.daemon.api('GET', `P/connections/${name}/attempts/${attempt}`);
      assert.equal(String(body['status']), 'uncertain');
      assert.equal(await status(name), 'uncertain');
      assert.equal(await arrive(back), '/oauth/error');
      assert.equal(peer.counts.exchanges - before, sent);
    });
  }

  for (const [point, sent] of [
    ['oauth.refresh-sent', 0],
    ['oauth.refresh-answered', 1],
  ] as const) {
    if (!isLong && point !== 'oauth.refresh-answered') continue;
    it(`killed at ${point} the connection is uncertain, and the refresh token is not sent again`, async () => {
      const { name, seat } = await seated();
      await expire(name);
      const before = peer.counts.refreshes;
      await killed(point, (url) => call(seat, url));
      assert.equal(peer.counts.refreshes - before, sent);
      await database.db.query(`update svc.oauth_grants set refresh_until = now() where status = 'refreshing'`);
      for (const _ of [1, 2]) assert.equal(await call(seat), `authorization-required: connection ${name}`);
      assert.equal(await status(name), 'uncertain');
      assert.equal(peer.counts.refreshes - before, sent);
    });
  }

  it('leaves no code, verifier, state or token in the clear: no log, no argument list, no row, no file', async () => {
    const secrets = [...peer.secrets, ...peer.shown].filter((one) => one.length >= 20);
    assert.ok(secrets.length > 8, `${secrets.length}`);
    const hidden = (text: string, where: string): void => {
      for (const secret of secrets) assert.ok(!text.includes(secret), where);
    };
    hidden(log, 'log');
    const { rows: tables } = await database.db.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('svc', 'graphile_worker')`,
    );
    for (const { name } of tables) {
      const { rows } = await database.db.query<{ text: string | null }>(
        `select string_agg(t::text, E'\\n') as text from ${name} t`,
      );
      hidden(rows[0]?.text ?? '', name);
      // Bytes are shown in hex.
      for (const secret of secrets) {
        assert.ok(!(rows[0]?.text ?? '').includes(Buffer.from(secret).toString('hex')), `${name}, as bytes`);
      }
    }
    for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
      if (entry.isFile()) hidden(await readFile(join(entry.parentPath, entry.name), 'latin1'), entry.name);
    }
    for (const pid of (await readdir('/proc')).filter((one) => /^\d+$/.test(one))) {
      hidden(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''), `the arguments of ${pid}`);
    }
    const answers = await Promise.all(
      ['P/connections', 'P/events', 'P/audit', 'P/sessions'].map((path) =>
        apiClient(bench.daemon.url, bench.daemon.token)('GET', path),
      ),
    );
    hidden(JSON.stringify(answers.map(({ body }) => body)), 'an answer');
  });
});
