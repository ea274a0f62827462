import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { portsOf } from '../context.ts';
import { saying } from './codehost.ts';
import { agentFile, type Bench, runsOf, settled, startBench, syncNow, until, word } from './sync-testkit.ts';

interface Posted {
  readonly path: string;
  readonly authorization: string;
  readonly body: {
    readonly state: string;
    readonly context: string;
    readonly description: string;
    readonly target_url: string;
  };
}

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });

describe('the status of a commit at the code host', () => {
  const posted: Posted[] = [];
  /** What the provider answers next, before it takes a status. */
  const answers: number[] = [];
  let bench: Bench;
  let api: Server;

  before(async () => {
    api = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const path = request.url ?? '';
        response.setHeader('content-type', 'application/json');
        if (path.endsWith('/access_tokens')) {
          response.writeHead(201).end(JSON.stringify({ token: 'minted', expires_at: '2099-01-01T00:00:00Z' }));
          return;
        }
        const body = JSON.parse(Buffer.concat(chunks).toString()) as Posted['body'];
        const status = answers.shift() ?? 201;
        if (status === 201) posted.push({ path, authorization: request.headers.authorization ?? '', body });
        response.writeHead(status).end('{}');
      });
    });
    api.listen(0, '127.0.0.1');
    await once(api, 'listening');
    bench = await startBench();
    await connect('hub', `http://127.0.0.1:${(api.address() as AddressInfo).port}`);
  });
  after(async () => {
    await bench.stop();
    api.close();
  });

  async function connect(name: string, apiUrl: string): Promise<void> {
    const { ctx } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string; orgId: string }>(
      `select id, org_id as "orgId" from svc.projects where slug = 'default'`,
    );
    const [project] = rows;
    assert.ok(project);
    const binding = { orgId: project.orgId, projectId: project.id, name, use: 'connection' } as const;
    const { keyVersion, sealed } = portsOf(ctx).sealer.seal(Buffer.from(JSON.stringify({ privateKey: pem })), binding);
    await ctx.db.query(
      `insert into svc.connections (project_id, provider, product, name, config, key_version, sealed_credentials)
       values ($1::uuid, 'codehost', 'codehost', $2::text, $3::jsonb, $4::int, $5::bytea)`,
      [project.id, name, JSON.stringify({ apiUrl, appId: 5, installationId: 7 }), keyVersion, sealed],
    );
  }

  async function repository(name: string): Promise<GitFixture> {
    const path = join(bench.server.options.root, 'acme', `${name}.git`);
    await mkdir(dirname(path), { recursive: true });
    return GitFixture.create(path);
  }

  const statusOf = (commit: string, state: string): Promise<Posted> =>
    until(`${state} of ${commit}`, async () =>
      posted.find((one) => one.path.endsWith(`/statuses/${commit}`) && one.body.state === state),
    );

  test('follows each run: what was applied, what is wrong, and what is right again', async () => {
    const git = await repository('app');
    const good = await git.commit({ '.svc/agents/a.yaml': agentFile('a') });
    const auth = { kind: 'connection', connection: 'hub' };
    const body = { name: 'app', url: bench.server.url('acme/app.git'), intervalSeconds: 3600, auth };
    assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    const run = await settled(bench.daemon, 'app');
    assert.equal(word(run['status']), 'applied', JSON.stringify(run));
    const first = await statusOf(good, 'success');
    assert.equal(first.path, `/repos/acme/app/statuses/${good}`);
    assert.equal(first.authorization, 'Bearer minted');
    assert.equal(first.body.context, 'svc/app');
    assert.equal(first.body.description, 'applied: 2 created, 0 updated, 0 deleted');
    assert.match(
      first.body.target_url,
      new RegExp(`/api/v1/orgs/default/projects/default/reconciles/${word(run['id'])}$`),
    );
    const shown = await bench.daemon.api('GET', new URL(first.body.target_url).pathname);
    assert.equal(shown.status, 200);

    const bad = await git.commit({ '.svc/agents/a.yaml': agentFile('a', 'nonsense: [') });
    await syncNow(bench.daemon, 'app');
    assert.match((await statusOf(bad, 'failure')).body.description, /^\d+ errors?: /);
  });

  test('a code host that refuses or stumbles delays nothing, and a stumble is tried again', async () => {
    const git = await repository('deaf');
    answers.push(502, 201);
    const commit = await git.commit({ '.svc/agents/b.yaml': agentFile('b') });
    const auth = { kind: 'connection', connection: 'hub' };
    await bench.daemon.api('POST', 'P/repositories', { name: 'deaf', url: bench.server.url('acme/deaf.git'), auth });
    assert.equal(word((await settled(bench.daemon, 'deaf'))['status']), 'applied');
    await statusOf(commit, 'success');
    answers.push(403);
    const next = await git.commit({ '.svc/agents/b.yaml': agentFile('b', 'reasoningEffort: low') });
    assert.equal(word((await syncNow(bench.daemon, 'deaf'))['status']), 'applied');
    await until('the refusal', async () => answers.length === 0);
    await until('the end of the job', async () => {
      const { rows } = await bench.daemon.ctx.db.query(
        `select from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
          where t.identifier = 'repo.status'`,
      );
      return rows.length === 0;
    });
    assert.ok(!posted.some((one) => one.path.endsWith(next)));
    assert.equal((await runsOf(bench.daemon, 'deaf')).length, 2);
  });

  test('a repository without such a connection asks for nothing', async () => {
    const before = posted.length;
    const git = await repository('plain');
    await git.commit({ '.svc/agents/c.yaml': agentFile('c') });
    await bench.daemon.api('POST', 'P/repositories', { name: 'plain', url: bench.server.url('acme/plain.git') });
    await settled(bench.daemon, 'plain');
    await syncNow(bench.daemon, 'plain');
    assert.equal(posted.length, before);
  });
});

test('each end of a run has its word', () => {
  const run = { condition: null, detail: null, actions: [], diagnostics: [] };
  const error = { severity: 'error', message: 'no harness' };
  const cases = [
    [{ ...run, status: 'unchanged' }, 'success', 'nothing to change'],
    [{ ...run, status: 'held', detail: 'would delete 12 agents' }, 'failure', 'would delete 12 agents'],
    [{ ...run, status: 'quarantined' }, 'failure', 'left aside by a rollback'],
    [{ ...run, status: 'failed', diagnostics: [error, { severity: 'warning' }] }, 'failure', '1 error: no harness'],
    [{ ...run, status: 'failed', condition: 'unreachable' }, 'error', 'not read: unreachable'],
    [{ ...run, status: 'failed' }, 'error', 'the sync broke off'],
  ] as const;
  for (const [given, state, description] of cases) assert.deepEqual(saying(given), { state, description });
});
