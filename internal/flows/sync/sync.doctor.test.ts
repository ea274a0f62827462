import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { agentsTree, type Bench, createBench, onCron } from './apply-testkit.ts';
import { diagnose, retryJobs } from '../doctor.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const checks = async (): Promise<unknown[]> => {
  const project = { id: bench.projectId, slug: 'p', orgId: bench.orgId, orgSlug: 'o' };
  const found = await diagnose(bench.ctx, project, { operates: true });
  return found.map(({ name, status, message, hint }) => [name, status, message, hint]);
};

test('the doctor tells what is late among events and schedules, what gave up, and what to do about each', async () => {
  await bench.apply(agentsTree({ a: { triggers: [onCron('0 * * * *')] } }));
  await bench.db.query(`update svc.events set router_status = 'routed'`);
  assert.deepEqual(await checks(), [['repositories', 'ok', '0 watched, all as they should be', undefined]]);

  const failed = randomUUID();
  const record = (id: string, status: string, secondsAgo: number): Promise<unknown> =>
    bench.db.query(
      `insert into svc.events (id, project_id, key, router_status, reason, received_at)
       values ($1::uuid, $2::uuid, 'webhook.received', $3::text, 'it broke', $4::timestamptz)`,
      [id, bench.projectId, status, new Date(bench.ctx.runtime.now().getTime() - secondsAgo * 1_000)],
    );
  await record(failed, 'failed', 0);
  await record(randomUUID(), 'pending', 90);
  await record(randomUUID(), 'pending', 5);
  await bench.db.query(
    `update svc.schedules set next_at = $1::timestamptz - interval '2 minutes', last_at = $1::timestamptz - interval '1 hour',
       last_status = 'skipped-late'`,
    [bench.ctx.runtime.now()],
  );
  await bench.db.query(
    `insert into svc.checks (id, project_id, agent_id, agent, connection_id, target_key, name, cycle, head_sha, spec, state,
       event_id, ordinal, created_at, updated_at, report_error)
     values (gen_random_uuid(), $1::uuid, gen_random_uuid(), 'a', gen_random_uuid(), 'acme/site#7', 'lint', 1, 'abc', '{}',
       'queued', gen_random_uuid(), 0, now(), now(), 'no such commit')`,
    [bench.projectId],
  );
  await bench.db.query(`select graphile_worker.add_job('t.parked', max_attempts => 1)`);
  await bench.db.query(
    `update graphile_worker._private_jobs set attempts = 1, last_error = 'no key' where max_attempts = 1`,
  );
  const found = await checks();
  assert.deepEqual(found, [
    ['jobs', 'error', '1 job t.parked gave up: no key', 'remove the cause, then: svc doctor --retry-jobs'],
    [
      'events',
      'error',
      '1 event could not be routed; the latest: it broke',
      `svc event show ${failed}; svc event replay ID`,
    ],
    ['events', 'error', '1 event not routed yet, for up to 90 s', 'is a daemon with the role route running?'],
    ['schedules', 'error', '1 schedule due for more than a minute', 'is a daemon with the role schedule running?'],
    [
      'schedules',
      'warning',
      '1 schedule missed the latest tick: no daemon was up within a minute of it',
      'svc schedule list; missed ticks are not made up for',
    ],
    [
      'checks',
      'warning',
      'the code host did not take check lint on acme/site#7: no such commit',
      'the next event on the pull request tells it anew',
    ],
  ]);

  const actor = { kind: 'user', id: null, name: 'tester' } as const;
  assert.equal(await retryJobs(bench.ctx, actor), 1);
  assert.equal(await retryJobs(bench.ctx, actor), 0);
  assert.ok(!(await checks()).some((check) => (check as string[])[0] === 'jobs'));
  const { rows } = await bench.db.query<{ detail: unknown }>(
    `select detail from svc.audit where action = 'jobs.retried'`,
  );
  assert.deepEqual(rows, [{ detail: { 't.parked': 1 } }]);
});

test('what to do about a source that cannot be read is of a folder where it is one', async () => {
  const told = async (condition: string): Promise<unknown> => {
    await bench.db.query('update svc.repository_states set condition = $1::text', [condition]);
    return (await checks())
      .filter((check) => (check as string[])[0] === 'repository')
      .map((check) => (check as string[])[3]);
  };
  await bench.db.query(
    `insert into svc.repositories (id, project_id, name, path, url, url_key, interval_seconds)
       values (gen_random_uuid(), $1::uuid, 'folder', '/srv/agents', null, null, 60),
              (gen_random_uuid(), $1::uuid, 'remote', null, 'https://git.test/o/r', 'git.test/o/r', 60)`,
    [bench.projectId],
  );
  await bench.db.query(
    `insert into svc.repository_states (repository_id, condition_detail) select id, 'why' from svc.repositories`,
  );
  assert.deepEqual(await told('not-found'), [
    "is the path right, and there on the daemon's machine? else: svc repo edit folder --path DIR",
    'check the url, and whether the credentials may see the repository',
  ]);
  assert.deepEqual(await told('unreachable'), [
    "let the daemon's user read the path and all that lies below .svc/",
    'check the network between this daemon and the server; private addresses need SVC_ALLOW_PRIVATE_NETWORK',
  ]);
  assert.deepEqual(await told('corrupt'), [
    'look at the repository with git fsck',
    'the server, or what stands before it, answers with what git cannot read: try git clone, and git fsck there',
  ]);
  for (const [condition, command] of [
    ['auth-failed', 'svc repo sync '],
    ['stale', 'svc repo pin '],
  ] as const)
    for (const [at, name] of ['folder', 'remote'].entries()) {
      const hint = String(((await told(condition)) as string[])[at]);
      assert.ok(hint.includes(`${command}${name}`), hint);
    }
  const [ofFolder, ofServer] = (await told('hostile')) as string[];
  assert.equal(ofFolder, ofServer);
});
