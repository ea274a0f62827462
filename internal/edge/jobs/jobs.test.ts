import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as v from 'valibot';
import { addJob } from '../../adapters/store/operations/add-job.ts';
import { beat, listDaemons, listParkedJobs, retryParkedJobs } from '../../adapters/store/operations/jobs.ts';
import { within } from '../../base/waits.ts';
import { type ProcessIdentity, processIdentity } from '../../base/process-identity.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { JobRunner } from './jobs.ts';
import { defineTask, type Task } from './tasks.ts';

const number = v.strictObject({ n: v.number() });

async function until(what: string, done: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 6_000; tries += 1) {
    if (await done()) return;
    await sleep(20);
  }
  assert.fail(`never: ${what}`);
}

describe('the job runner', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await startTestDaemon();
  });
  const runners: JobRunner[] = [];
  after(async () => {
    for (const one of runners) await one.stop();
    await daemon.stop();
  });

  /** A runner with a daemon id of its own, as another process would have. */
  async function runner(tasks: readonly Task[], beatMs = 100): Promise<JobRunner> {
    const made = new JobRunner({ ...daemon.ctx, daemonId: randomUUID() }, { tasks, beatMs });
    runners.push(made);
    await made.start();
    return made;
  }

  it('performs jobs with their checked payload, and drains', async () => {
    const seen: number[] = [];
    const task = defineTask({
      name: 't.plain',
      role: 'sync',
      payload: number,
      handle: async (_ctx, { n }) => void seen.push(n),
    });
    const jobs = await runner([task]);
    for (let n = 0; n < 20; n += 1) await addJob(daemon.database.db, 't.plain', { n });
    await until('all performed', () => seen.length === 20);
    await jobs.stop();
    await jobs.stop();
    assert.deepEqual(
      [...seen].sort((a, b) => a - b),
      Array.from({ length: 20 }, (_, n) => n),
    );
  });

  it('leaves nothing for a person of a job whose work a newer one of its key does, however the running one ends', async () => {
    const { db } = daemon.database;
    const worker = `worker-${randomUUID()}`;
    await addJob(db, 't.keyed', { n: 1 }, { jobKey: 'keyed' });
    await db.query(
      `update graphile_worker._private_jobs set locked_at = now(), locked_by = $1::text, attempts = 1 where key = 'keyed'`,
      [worker],
    );
    await addJob(db, 't.keyed', { n: 2 }, { jobKey: 'keyed' });
    // Its process is killed.
    await db.query('select graphile_worker.force_unlock_workers($1::text[])', [[worker]]);
    const { rows } = await db.query<{ payload: { n: number }; attempts: number }>(
      `select j.payload, j.attempts from graphile_worker._private_jobs j
         join graphile_worker._private_tasks t on t.id = j.task_id where t.identifier = 't.keyed'`,
    );
    assert.deepEqual(rows, [{ payload: { n: 2 }, attempts: 0 }]);
    assert.deepEqual(
      (await listParkedJobs(db, { limit: 100 })).map((one) => one.task),
      [],
    );
  });

  it('runs only the tasks of its roles', async () => {
    const task = defineTask({
      name: 't.session',
      role: 'session',
      payload: number,
      handle: async () => assert.fail('not here'),
    });
    const config = { ...daemon.ctx.config, roles: ['sync'] as const };
    const jobs = new JobRunner({ ...daemon.ctx, config, daemonId: randomUUID() }, { tasks: [task] });
    await jobs.start();
    await addJob(daemon.database.db, 't.session', { n: 1 });
    await sleep(300);
    await jobs.stop();
    const { rows } = await daemon.database.db.query(
      `select attempts from graphile_worker.jobs where task_identifier = 't.session'`,
    );
    assert.deepEqual(rows, [{ attempts: 0 }]);
  });

  it('comes back to a job that asks for later, and parks one that says stop or cannot be read', async () => {
    let runs = 0;
    const later = defineTask({
      name: 't.later',
      role: 'sync',
      payload: number,
      handle: async () => {
        runs += 1;
        return runs < 3 ? { retryAfterMs: 10 } : undefined;
      },
    });
    const stop = defineTask({
      name: 't.stop',
      role: 'sync',
      payload: number,
      handle: async () => ({ stop: 'the key is missing: put it back' }),
    });
    const jobs = await runner([later, stop]);
    const { db } = daemon.database;
    await addJob(db, 't.later', { n: 1 }, { jobKey: 'later' });
    await addJob(db, 't.stop', { n: 1 });
    await addJob(db, 't.stop', { wrong: true });
    await until('third run', () => runs === 3);
    await until('parked', async () => (await listParkedJobs(db, { limit: 100 })).length === 2);
    const reasons = (await listParkedJobs(db, { limit: 100 }))
      .map((job) => [job.task, job.reason])
      .sort((a, b) => (String(a) < String(b) ? -1 : 1));
    assert.match(String(reasons[0]?.[1]), /the key is missing: put it back/);
    assert.match(String(reasons[1]?.[1]), /payload of t\.stop is not as declared/);
    assert.deepEqual(await retryParkedJobs(db), [{ task: 't.stop', count: 2 }]);
    await until('parked again', async () => (await listParkedJobs(db, { limit: 100 })).length === 2);
    await jobs.stop();
  });

  it('tries a failed job again', async () => {
    let attempts = 0;
    const flaky = defineTask({
      name: 't.flaky',
      role: 'sync',
      payload: number,
      handle: async (_ctx, _payload, job) => {
        attempts = job.attempt;
        if (attempts < 2) throw new Error('first');
      },
    });
    const jobs = await runner([flaky]);
    await addJob(daemon.database.db, 't.flaky', { n: 1 });
    await until('second attempt', () => attempts === 2);
    await jobs.stop();
  });

  it('takes over the jobs of a daemon that died', async () => {
    const { db } = daemon.database;
    await addJob(db, 't.orphan', { n: 1 });
    // As a killed process leaves it: the job locked by a worker whose daemon is silent.
    const dead = { id: randomUUID(), roles: ['sync'], host: 'elsewhere', pid: 1, workerIds: ['worker-dead'] };
    await beat(db, dead);
    await db.query(`update svc.daemons set beat_at = now() - interval '1 minute' where id = $1::uuid`, [dead.id]);
    await db.query(
      `update graphile_worker._private_jobs set locked_at = now(), locked_by = 'worker-dead', attempts = attempts + 1
       where task_id = (select id from graphile_worker._private_tasks where identifier = 't.orphan')`,
    );
    let ran = false;
    const task = defineTask({ name: 't.orphan', role: 'sync', payload: number, handle: async () => void (ran = true) });
    const jobs = await runner([task]);
    await until('taken over', () => ran);
    assert.ok(!(await listDaemons(db)).some((row) => row.id === dead.id));
    await jobs.stop();
  });

  it('leaves alone what a living daemon holds, and writes itself down again when taken for dead', async () => {
    const { db } = daemon.database;
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    let runs = 0;
    const task = defineTask({
      name: 't.held',
      role: 'sync',
      payload: number,
      handle: async () => {
        runs += 1;
        await held;
      },
    });
    const one = await runner([task]);
    await addJob(db, 't.held', { n: 1 });
    await until('held', () => runs === 1);
    const before = (await listDaemons(db)).length;
    await db.query('delete from svc.daemons');
    await until('written again', async () => (await listDaemons(db)).length >= before);
    const two = await runner([task]);
    await sleep(500);
    assert.equal(runs, 1);
    release();
    await one.stop();
    await two.stop();
  });

  it('buries a daemon whose process has ended at once, and none that may run where it cannot be seen', async () => {
    const { db } = daemon.database;
    const self = processIdentity();
    assert.ok(self !== undefined);
    const roles = ['sync'];
    const row = (pid: number, process: ProcessIdentity) => ({
      ...{ id: randomUUID(), roles, host: hostname(), pid, workerIds: [] },
      process,
    });
    const gone = 2 ** 22 - 1;
    const dead = row(gone, { ...self, pid: gone });
    const earlier = row(self.pid, { ...self, startTicks: '1' });
    // On one host name: another machine, and another container of this one, whose numbers are nobody's here.
    const elsewhere = row(gone, { ...self, pid: gone, bootId: randomUUID() });
    const inside = row(gone, { ...self, pid: gone, pidNamespace: 'pid:[1]' });
    const unknown = { ...row(gone, self), process: undefined };
    for (const one of [dead, earlier, elsewhere, inside, unknown]) await beat(db, one);
    const jobs = await runner([]);
    const left = new Set((await listDaemons(db)).map((one) => one.id));
    assert.deepEqual(
      [dead, earlier, elsewhere, inside, unknown].map((one) => left.has(one.id)),
      [false, false, true, true, true],
    );
    await jobs.stop();
    await db.query('delete from svc.daemons where id = any($1::uuid[])', [[elsewhere.id, inside.id, unknown.id]]);
  });

  it('goes on after every connection to the database was cut', async () => {
    const { db } = daemon.database;
    const seen: number[] = [];
    const task = defineTask({
      name: 't.cut',
      role: 'sync',
      payload: number,
      handle: async (_ctx, { n }) => void seen.push(n),
    });
    const jobs = await runner([task]);
    await addJob(db, 't.cut', { n: 1 });
    await until('before', () => seen.includes(1));
    for (let round = 0; round < 3; round += 1) {
      await db
        .query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        )
        .catch(() => undefined);
      await sleep(50);
    }
    await until('added', () =>
      addJob(db, 't.cut', { n: 2 }).then(
        () => true,
        () => false,
      ),
    );
    await until('after', () => seen.includes(2));
    await jobs.stop();
  });

  it('drains also while it is being started over', async () => {
    const { db } = daemon.database;
    const jobs = await runner([]);
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const locking = db.tx(async (tx) => {
      await tx.query('lock table graphile_worker.migrations in access exclusive mode');
      begun.resolve();
      await over.promise;
    });
    await begun.promise;
    // Another daemon has migrated: the runner ends, and the next one looks what there is.
    await db.query(`select pg_notify('worker:migrate', '{"migrationNumber":1,"breaking":true}')`);
    const waits = `select from pg_stat_activity where application_name = 'svcd jobs' and wait_event_type = 'Lock'`;
    await until('it is being started over', async () => (await db.query(waits)).rowCount > 0);
    const stopping = jobs.stop();
    await sleep(300);
    over.resolve();
    await locking;
    const stopped = await within(stopping, 10_000);
    // What the runner leaves for the end of the process.
    process.exitCode = undefined;
    assert.ok(stopped !== undefined, 'it drains');
  });

  it('tells running jobs to end when it drains, and hands back one that does not listen', async () => {
    const { db } = daemon.database;
    let started = 0;
    let heard = false;
    let release: () => void = () => undefined;
    const never = new Promise<void>((resolve) => (release = resolve));
    const polite = defineTask({
      name: 't.polite',
      role: 'sync',
      payload: number,
      handle: async (_ctx, _payload, job) => {
        started += 1;
        await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
        heard = true;
      },
    });
    const deaf = defineTask({
      name: 't.deaf',
      role: 'sync',
      payload: number,
      handle: async () => {
        started += 1;
        await never;
      },
    });
    const jobs = await runner([polite, deaf]);
    await addJob(db, 't.polite', { n: 1 });
    await addJob(db, 't.deaf', { n: 1 });
    await until('both run', () => started === 2);
    await jobs.stop();
    assert.ok(heard);
    const { rows } = await db.query(
      `select task_identifier as task, locked_at is null as free from graphile_worker.jobs
       where task_identifier in ('t.polite', 't.deaf')`,
    );
    assert.deepEqual(rows, [{ task: 't.deaf', free: true }]);
    release();
  });
});
