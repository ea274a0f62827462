import assert from 'node:assert/strict';
import { randomBytes, randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiClient, readClientFile, type SpawnedDaemon, spawnDaemon } from '../../base/testkit/daemon.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { isLong } from '../../base/testkit/long.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { agentFile, until } from './sync-testkit.ts';

/** Every named point of a sync that applies something. The short form takes one in front of each write, and the one behind the last. */
const all = [
  'sync.resolved',
  'sync.snapshot-stored',
  'sync.compiled',
  'sync.before-apply',
  'apply.before-tx',
  'apply.agents',
  'apply.triggers',
  'apply.before-commit',
  'apply.after-commit',
  'sync.after-apply',
];
const short = ['sync.before-apply', 'apply.before-commit', 'apply.after-commit'];
const points = isLong ? all : short;
const randomKills = isLong ? 60 : 1;

/** Agents of a version: what stays, what comes and what goes differs from one to the next. */
function agentsOf(version: number): string[] {
  return Array.from({ length: 8 }, (_, index) => `agent-${index}`).filter((_, index) => (index + version) % 4 !== 0);
}

function treeOf(version: number): Record<string, string> {
  const trigger = [
    'triggers:',
    '  - event: svc.project.onboarded',
    `    message: v${version}`,
    '    routing: { kind: spawn }',
  ];
  const files = agentsOf(version).map((name) => [
    `.svc/agents/${name}.yaml`,
    agentFile(name, `labels: { version: "v${version}" }`, ...trigger),
  ]);
  return Object.fromEntries(files) as Record<string, string>;
}

const stateOf = (version: number): string =>
  agentsOf(version)
    .map((name) => `${name} v${version} v${version}`)
    .join('\n');

describe('a daemon that is killed while it syncs', () => {
  let database: TestDatabase;
  let root: string;
  let server: GitServer;
  let repo: GitFixture;
  let version = 0;
  const running = new Set<SpawnedDaemon>();

  function start(failpoint?: string): SpawnedDaemon {
    const daemon = spawnDaemon({
      dataDir: join(root, 'data'),
      env: {
        SVC_DATABASE_URL: database.url,
        SVC_MASTER_KEY_FILE: join(root, 'master.key'),
        SVC_ALLOW_PRIVATE_NETWORK: 'true',
        SVC_LOG_LEVEL: 'warn',
        ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
      },
    });
    running.add(daemon);
    void daemon.exited.then(() => running.delete(daemon));
    return daemon;
  }

  /** What is stored, as text: one line for each agent, with the version of its spec and of its trigger. */
  async function stored(): Promise<string> {
    const { rows } = await database.db.query<{ line: string }>(
      `select a.name || ' ' || (a.spec -> 'labels' ->> 'version') || ' ' || coalesce(t.spec ->> 'message', 'no trigger') as line
         from svc.agents a left join svc.triggers t on t.agent_id = a.id order by a.name`,
    );
    return rows.map((row) => row.line).join('\n');
  }

  async function push(): Promise<string> {
    version += 1;
    return repo.commit(treeOf(version), { orphan: true });
  }

  async function converged(commit: string): Promise<void> {
    await until(
      `commit ${commit} to be applied`,
      async () => {
        const { rows } = await database.db.query<{ commit: string; running: number }>(
          `select s.applied_commit as commit, (select count(*)::int from svc.reconciles where status = 'running') as running
             from svc.repository_states s`,
        );
        return rows[0]?.commit === commit && rows[0].running === 0;
      },
      120_000,
    );
    assert.equal(await stored(), stateOf(version));
  }

  before(async () => {
    database = await createTestDatabase();
    root = await mkdtemp(join(tmpdir(), 'svc-crash-'));
    await writeFile(join(root, 'master.key'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    server = await new GitServer({ root }).start();
    repo = await GitFixture.create(join(root, 'app.git'));
    const commit = await push();
    const daemon = start();
    const { url } = await daemon.ready;
    const { token } = readClientFile(join(root, 'data'));
    const body = { name: 'app', url: server.url('app.git'), intervalSeconds: 1, guard: { deleteMax: 100 } };
    const answer = await apiClient(url, token)('POST', 'P/repositories', body);
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    await converged(commit);
    await daemon.kill('SIGKILL');
  });
  after(async () => {
    for (const daemon of running) await daemon.kill('SIGKILL');
    await server.stop();
    await database.close();
    await rm(root, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });

  async function recovers(commit: string): Promise<void> {
    const now = await stored();
    const either = [stateOf(version - 1), stateOf(version)];
    assert.ok(either.includes(now), `neither the old nor the new state:\n${now}`);
    const next = start();
    await next.ready;
    await converged(commit);
    await next.kill('SIGKILL');
  }

  for (const point of points) {
    it(`at ${point} leaves the old or the new state, and the next start converges`, async () => {
      const commit = await push();
      const daemon = start(point);
      const { signal } = await daemon.exited;
      assert.equal(signal, 'SIGKILL', `it passed ${point} by: ${daemon.stderr()}`);
      await recovers(commit);
    });
  }

  for (let kill = 1; kill <= randomKills; kill += 1) {
    it(`at a random moment (${kill}) leaves the old or the new state, and the next start converges`, async (t) => {
      const commit = await push();
      const daemon = start();
      await daemon.ready;
      const afterMs = randomInt(0, 900);
      t.diagnostic(`killed ${afterMs} ms after it was ready`);
      await sleep(afterMs);
      await daemon.kill('SIGKILL');
      await recovers(commit);
    });
  }
});
