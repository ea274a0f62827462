// A daemon whose master key file has not been given the next key yet, beside one that seals with it: what it takes in hand
// and cannot open waits, for its file or for another daemon, and is not given up.

import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { appendFile, copyFile, mkdir } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { hmacSha256 } from '../../internal/adapters/crypto/crypto.ts';
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { Fault } from '../../internal/domain/fault.ts';
import { againAfterMs } from '../../internal/flows/plans/hub.ts';

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await holds()) return;
    await sleep(100);
  }
  assert.fail(`not within a minute: ${what}`);
}

const common = { harnessACommand: scriptedAgent, sandbox: 'process', allowPrivateNetwork: true } as const;
const pem = {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
} as const;
const agent = { harness: 'harness-a', environment: { name: 'base', image: { kind: 'preset', name: 'base' } } };

describe('a daemon that lacks the key that another one seals with', () => {
  let ahead: TestDaemon;
  let behind: TestDaemon;
  const heard: { headers: IncomingHttpHeaders; body: string }[] = [];
  const receiver = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      heard.push({ headers: request.headers, body });
      response.end();
    });
  });
  before(async () => {
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    ahead = await startTestDaemon({ config: { ...common, roles: ['api', 'sync', 'route'] } });
    const dataDir = join(ahead.dataDir, 'other');
    await mkdir(dataDir);
    const masterKeyFile = join(dataDir, 'keys');
    await copyFile(ahead.ctx.config.masterKeyFile, masterKeyFile);
    const config = { ...common, masterKeyFile, roles: ['schedule', 'session'] } as const;
    behind = await startTestDaemon({ database: ahead.database, token: ahead.token, dataDir, config });
    await appendFile(ahead.ctx.config.masterKeyFile, `2:${randomBytes(32).toString('base64')}\n`);
    await until(
      'the key is known',
      async () => (await ahead.api('GET', '/api/v1/keys')).body['current'] === (2 as never),
    );
  });
  after(async () => {
    await behind?.stop();
    await ahead?.stop();
    receiver.close();
  });

  const sessions: string[] = [];
  const sessionOf = async (id: string | undefined) => (await ahead.api('GET', `P/sessions/${id}`)).body;
  const notices = async () =>
    (
      await ahead.database.db.query<{ status: string; code: string | null; attempts: number }>(
        'select status, code, attempts from svc.notifications',
      )
    ).rows;

  it('does not give up what it cannot open: neither a notification nor the launch of a session', async () => {
    const { port } = receiver.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/`;
    const added = await ahead.api('POST', 'P/receivers', { name: 'ops', kind: 'webhook', url, secret: 'signing' });
    assert.equal(added.status, 201, JSON.stringify(added.body));
    assert.ok((await ahead.api('PUT', 'P/secrets/A', { value: 'in the sandbox' })).status < 300);
    const content = JSON.stringify({ name: 'worker', ...agent, env: { A: { $secret: 'A' } } });
    const applied = await ahead.api('POST', 'P/apply', { files: [{ path: '.svc/agents/worker.yaml', content }] });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const started = await ahead.api('POST', 'P/agents/worker/sessions', { message: '!env A' });
    sessions.push(String(started.body['id']));
    const added2 = await ahead.api('POST', 'P/repositories', { name: 'none', path: join(ahead.dataDir, 'not-there') });
    assert.equal(added2.status, 201, JSON.stringify(added2.body));
    await until('it has tried both', async () => {
      const [{ attempts, status } = { attempts: 0, status: 'pending' }] = await notices();
      const session = await sessionOf(sessions[0]);
      return (
        (attempts > 0 || status !== 'pending') &&
        session['reason'] !== null &&
        session['reason'] !== ('capacity' as never)
      );
    });
    assert.deepEqual(
      (await notices()).map(({ status, code }) => [status, code]),
      [['pending', 'master-key-missing']],
    );
    const session = await sessionOf(sessions[0]);
    assert.deepEqual([session['state'], session['reason']], ['queued', 'key']);
    assert.match(String(session['reasonText']), /no master key of version 2; SVC_MASTER_KEY_FILE holds 1/);
  });

  it('does not give up what the code host is to be told of a check', async () => {
    const connected = await ahead.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'hub',
      config: { apiUrl: 'http://127.0.0.1:9', appId: '7', installationId: '3' },
      credentials: { webhookSecret: 'hook', privateKey: generateKeyPairSync('rsa', pem).privateKey },
    });
    assert.equal(connected.status, 201, JSON.stringify(connected.body));
    const checks = [{ name: 'lint', displayName: 'Lint', description: 'Reads' }];
    const trigger = { event: 'codehost.pull_request.opened', checks, routing: { kind: 'spawn' } };
    const content = JSON.stringify({ name: 'checker', ...agent, triggers: [trigger] });
    const files = [{ path: '.svc/agents/checker.yaml', content }];
    assert.equal((await ahead.api('POST', 'P/apply', { files, prune: false })).status, 200);
    const payload = JSON.stringify({
      action: 'opened',
      number: 1,
      repository: { id: 1, full_name: 'acme/shop', name: 'shop', owner: { login: 'acme' } },
      sender: { id: 5, login: 'bob', type: 'User' },
      pull_request: {
        number: 1,
        title: 't',
        state: 'open',
        head: { ref: 'f', sha: 'a'.repeat(40) },
        base: { ref: 'm' },
      },
    });
    const sent = await ahead.api('POST', new URL(String(connected.body['intakeUrl'])).pathname, payload, {
      token: null,
      headers: {
        'x-github-event': 'pull_request',
        'x-github-delivery': 'one',
        'x-hub-signature-256': `sha256=${hmacSha256(Buffer.from('hook'), Buffer.from(payload)).toString('hex')}`,
      },
    });
    assert.equal(sent.status, 202, JSON.stringify(sent.body));
    const told = async () =>
      (
        await ahead.database.db.query<{ error: string | null; tried: boolean }>(
          `select report_error as error, report_after is not null and reporting_by is null as tried from svc.checks`,
        )
      ).rows[0];
    await until('it has tried', async () => {
      const check = await told();
      return check !== undefined && (check.tried || check.error !== null);
    });
    assert.deepEqual(await told(), { error: null, tried: true });
  });

  it('nor a plan or a status', () => {
    const lacking = new Fault('unavailable', 'master-key-missing', 'no master key of version 2');
    assert.equal(againAfterMs(lacking, 0), 3_000);
  });

  it('goes on with both once its file is right', async () => {
    await copyFile(ahead.ctx.config.masterKeyFile, behind.ctx.config.masterKeyFile);
    await until('it is told', async () => heard.length > 0);
    const [told] = heard;
    const proof = `sha256=${hmacSha256(Buffer.from('signing'), Buffer.from(told?.body ?? '')).toString('hex')}`;
    assert.equal(told?.headers['x-signature'], proof);
    await until('it has run', async () => (await sessionOf(sessions[0]))['state'] === ('idle' as never));
    assert.deepEqual(
      (await notices()).map(({ status }) => status),
      ['done'],
    );
    assert.equal(heard.length, 1);
  });
});
