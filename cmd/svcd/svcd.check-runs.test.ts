// From a pull request's event to what the code host shows of its checks, through a daemon as it is wired.

import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { beginCheck, concludeCheck } from '../../internal/flows/checks/checks.ts';

interface Run {
  readonly id: number;
  readonly [field: string]: unknown;
}
const runs = new Map<number, Run>();
let refusals: number[] = [];
let minted = 0;

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
let api: Server;
let daemon: TestDaemon;
/** Paths of the connections' intakes. */
const intakes = new Map<string, string>();

/** As much of a code host as checks need. */
function answer(method: string, url: string, body: { readonly [field: string]: unknown }): [number, unknown] {
  if (url.endsWith('/access_tokens')) {
    minted += 1;
    return [201, { token: `minted-${minted}`, expires_at: '2099-01-01T00:00:00Z' }];
  }
  const refusal = refusals.shift();
  if (refusal !== undefined) return [refusal, {}];
  if (method === 'POST') {
    const run = { id: runs.size + 1, ...body };
    runs.set(run.id, run);
    return [201, run];
  }
  if (url.includes('/commits/')) {
    const commit = url.split('/commits/')[1]?.split('/')[0];
    return [200, { check_runs: [...runs.values()].filter((run) => run['head_sha'] === commit) }];
  }
  const id = Number(url.slice(url.lastIndexOf('/') + 1));
  const run = { ...runs.get(id), ...body, id };
  if (method === 'PATCH') runs.set(id, run);
  return [200, run];
}

before(async () => {
  api = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const [status, body] = answer(request.method ?? '', request.url ?? '', text === '' ? {} : JSON.parse(text));
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  api.listen(0, '127.0.0.1');
  await once(api, 'listening');
  daemon = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'], allowPrivateNetwork: true } });
  const apiUrl = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  for (const [name, privateKey] of [['hub', pem], ['deaf']]) {
    const made = await daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name,
      config: { apiUrl, appId: '7', installationId: '3' },
      credentials: { webhookSecret: 'hook', ...(privateKey !== undefined && { privateKey }) },
    });
    assert.equal(made.status, 201);
    intakes.set(String(name), new URL(String(made.body['intakeUrl'])).pathname);
  }
  const files = [...intakes.keys()].map((connection) => ({
    path: `.svc/agents/${connection}.json`,
    content: JSON.stringify({
      name: connection,
      harness: 'harness-a',
      environment: { name: 'e', image: { kind: 'preset', name: 'base' } },
      triggers: [
        {
          events: ['codehost.pull_request.opened', 'codehost.pull_request.synchronize'],
          connection,
          checks: [{ name: 'lint', displayName: 'Lint', description: 'Reads' }],
          routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' },
        },
      ],
    }),
  }));
  const applied = await daemon.api('POST', 'P/apply', { files });
  assert.equal(applied.status, 200);
});
after(async () => {
  await daemon?.stop();
  api.close();
});

let deliveries = 0;
/** The session that the event reached. */
async function pullRequest(action: string, sha: string, connection = 'hub'): Promise<string> {
  const body = JSON.stringify({
    action,
    pull_request: { number: 7, title: 't', state: 'open', head: { ref: 'f', sha }, base: { ref: 'main', sha: 'b' } },
    repository: { id: 1, full_name: 'acme/site', name: 'site', owner: { login: 'acme' } },
    sender: { id: 5, login: 'ann', type: 'User' },
  });
  deliveries += 1;
  const headers = {
    'x-github-event': 'pull_request',
    'x-github-delivery': `d-${deliveries}`,
    'x-hub-signature-256': `sha256=${createHmac('sha256', 'hook').update(body).digest('hex')}`,
  };
  const sent = await daemon.api('POST', intakes.get(connection) ?? '', body, { token: null, headers });
  assert.equal(sent.status, 202);
  for (;;) {
    const { body: event } = await daemon.api('GET', `P/events/${String(sent.body['eventRecordId'])}`);
    if (String(event['routerStatus']) !== 'pending') return String(event['routes']?.[0]?.['sessionId']);
    await sleep(20);
  }
}

/** Waits until the code host shows this, in the order in which its runs were made. */
async function shows(expected: readonly string[]): Promise<void> {
  const words = (run: Run): string =>
    [run['head_sha'], run['name'], run['status'], run['conclusion'], (run['output'] as { title: string }).title].join(
      ' ',
    );
  for (let tries = 0; ; tries += 1) {
    const seen = [...runs.values()].map((run) => words(run).replace(/ {2}/, ' - '));
    if (JSON.stringify(seen) === JSON.stringify(expected)) return;
    if (tries > 1_500) assert.deepEqual(seen, expected);
    await sleep(20);
  }
}

test('a check stands on the head of its pull request, follows the session, and starts anew with the next push', async () => {
  const session = await pullRequest('opened', 'aaa');
  await shows(['aaa Lint queued - Lint']);
  // A token that was revoked is asked for anew; a young one may only not be known everywhere yet.
  await daemon.ctx.db.query("update svc.installation_tokens set minted_at = minted_at - interval '10 minutes'");
  refusals = [401];
  await beginCheck(daemon.ctx, session, 'lint');
  await shows(['aaa Lint in_progress - Lint']);
  assert.equal(minted, 2);
  await pullRequest('synchronize', 'ccc');
  await shows(['aaa Lint completed cancelled Superseded', 'ccc Lint queued - Lint']);
  await beginCheck(daemon.ctx, session, 'lint');
  const fine = { conclusion: 'success', title: 'Fine', summary: 'All good' } as const;
  await concludeCheck(daemon.ctx, session, 'lint', fine);
  const both = ['aaa Lint completed cancelled Superseded', 'ccc Lint completed success Fine'];
  await shows(both);
  // What was concluded on an older head stays as it was.
  await pullRequest('synchronize', 'ddd');
  await shows([...both, 'ddd Lint queued - Lint']);
});

test('a connection without a key takes events in alone: its checks live, and nobody is asked or warned', async () => {
  const before = runs.size;
  const session = await pullRequest('opened', 'eee', 'deaf');
  await beginCheck(daemon.ctx, session, 'lint');
  for (let tries = 0; ; tries += 1) {
    const { rows } = await daemon.ctx.db.query<{ state: string; reported: boolean; error: string | null }>(
      `select state, reported, report_error as error from svc.checks where session_id = $1::uuid`,
      [session],
    );
    if (rows[0]?.reported === true) {
      assert.deepEqual(rows, [{ state: 'in_progress', reported: true, error: null }]);
      break;
    }
    assert.ok(tries < 1_500, 'it waits for somebody to be told');
    await sleep(20);
  }
  assert.equal(runs.size, before);
});

/** The installation is suspended, or is back. */
async function installation(action: 'suspend' | 'unsuspend'): Promise<void> {
  const body = JSON.stringify({ action, installation: { id: 3 }, sender: { id: 5, login: 'ann', type: 'User' } });
  deliveries += 1;
  const headers = {
    'x-github-event': 'installation',
    'x-github-delivery': `d-${deliveries}`,
    'x-hub-signature-256': `sha256=${createHmac('sha256', 'hook').update(body).digest('hex')}`,
  };
  const sent = await daemon.api('POST', intakes.get('hub') ?? '', body, { token: null, headers });
  assert.deepEqual([sent.status, sent.body['created']], [202, true], JSON.stringify(sent.body));
}

test('what a session concludes while the installation is suspended is told as soon as it is back', async () => {
  const older = [
    'aaa Lint completed cancelled Superseded',
    'ccc Lint completed success Fine',
    'ddd Lint completed cancelled Superseded',
  ];
  const session = await pullRequest('synchronize', 'fff');
  await beginCheck(daemon.ctx, session, 'lint');
  await shows([...older, 'fff Lint in_progress - Lint']);
  await installation('suspend');
  await concludeCheck(daemon.ctx, session, 'lint', { conclusion: 'success', title: 'Fine', summary: 'All good' });
  for (let tries = 0; ; tries += 1) {
    const { rows } = await daemon.ctx.db.query<{ error: string | null }>(
      `select report_error as error from svc.checks where session_id = $1::uuid and state = 'concluded'`,
      [session],
    );
    const refused = rows.find((row) => row.error !== null);
    if (refused !== undefined) {
      assert.equal(refused.error, 'connection hub is suspended');
      break;
    }
    assert.ok(tries < 1_500, 'it is told through a connection that is suspended');
    await sleep(20);
  }
  await installation('unsuspend');
  await shows([...older, 'fff Lint completed success Fine']);
});
