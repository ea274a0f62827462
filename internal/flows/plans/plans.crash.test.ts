import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import {
  type Api,
  apiClient,
  type JsonBody,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
} from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { agentFile, until, word } from '../sync/sync-testkit.ts';
import { appKey, branchOff, delivery, hookSecret, newSimulator, openPull } from './plans-testkit.ts';

// A daemon that is killed outright around a write to the code host: what is there is there once, and the next daemon
// brings everything to its end.

let sim: CodehostSimulator;
let dataDir: string;
let database: TestDatabase;
before(async () => {
  sim = await newSimulator();
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), 'svc-plans-'));
  await writeFile(join(dataDir, 'keys'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  await writeFile(join(dataDir, 'config.json'), '{"providers":{"codehost":{"writeSpacingMs":0}}}');
});
const started: SpawnedDaemon[] = [];
after(async () => {
  for (const one of started) one.process.kill('SIGKILL');
  await sim.stop();
  await database.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(failpoint?: string): Promise<{ daemon: SpawnedDaemon; api: Api }> {
  const daemon = spawnDaemon({
    dataDir,
    env: {
      SVC_CONFIG: join(dataDir, 'config.json'),
      SVC_DATABASE_URL: database.url,
      SVC_MASTER_KEY_FILE: join(dataDir, 'keys'),
      SVC_ALLOW_PRIVATE_NETWORK: '1',
      ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
    },
  });
  started.push(daemon);
  const { url } = await daemon.ready;
  return { daemon, api: apiClient(url, readClientFile(dataDir).token) };
}

const calls = async (api: Api): Promise<JsonBody[]> =>
  (await api('GET', 'P/calls?limit=200')).body['items'] as unknown as JsonBody[];

test('killed before or after a write was sent, a plan is told once and every call has an end', async () => {
  const first = await start();
  const made = await first.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'hub',
    config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: sim.bot.login },
    credentials: { webhookSecret: hookSecret, privateKey: appKey },
  });
  const intake = new URL(String(made.body['intakeUrl'])).pathname;
  const repo = await sim.repository('acme/app', { '.svc/agents/first.yaml': agentFile('first') });
  const auth = { kind: 'connection', connection: 'hub' };
  const body = { name: 'app', url: `${sim.origin}/acme/app.git`, intervalSeconds: 3600, auth };
  assert.equal((await first.api('POST', 'P/repositories', body)).status, 201);
  await until('the status', async () => repo.statuses.some((one) => one.fields['state'] === 'success'));
  await first.daemon.kill('SIGTERM');
  // The check's beginning before it is sent; the comment when it is there; and between comment and conclusion.
  const points = isLong ? ['outbox.handed:1', 'outbox.answered:2', 'plan.commented'] : ['outbox.answered:2'];
  for (const [index, point] of points.entries()) {
    const branch = `topic${index}`;
    const { daemon, api } = await start(point);
    await branchOff(repo, branch);
    const pull = await openPull(sim, repo, {
      branch,
      files: { [`.svc/agents/n${index}.yaml`]: agentFile(`n${index}`) },
    });
    const { headers, text } = delivery('pull_request', pull.body);
    assert.ok((await api('POST', intake, text, { token: null, headers })).status < 300);
    assert.equal((await daemon.exited).signal, 'SIGKILL', point);
    const next = await start();
    const checks = () => repo.checks.filter((one) => one.fields['head_sha'] === pull.head);
    await until(`the end of ${point}`, async () => checks()[0]?.fields['conclusion'] === 'success', 120_000);
    await until('no call that is sending', async () =>
      (await calls(next.api)).every((one) => word(one['status']) !== 'sending'),
    );
    assert.equal(checks().length, 1, point);
    assert.equal(repo.comments.filter((one) => one.number === pull.number).length, 1, point);
    const rows = await calls(next.api);
    for (const tool of ['create_check_run', 'add_issue_comment']) {
      const done = rows.filter((one) => word(one['tool']) === tool && word(one['status']) === 'done');
      assert.equal(done.length, index + 1, `${point}: ${tool} is told as done once`);
    }
    await next.daemon.kill('SIGTERM');
  }
});
