// The job runner: graphile-worker over the table of tasks (docs/adr/0006-jobs-through-a-lost-database.md). Keeps this
// daemon's heartbeat, hands back the jobs of daemons that died, parks what cannot succeed with a visible reason, and comes
// back when the database was away. Decides nothing about the work itself: a task does. Uses neither batch delays nor named
// queues, whose failure modes strand jobs.

import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import type pg from 'pg';
import * as v from 'valibot';
import {
  Logger as WorkerLogger,
  run,
  type Runner,
  type TaskList,
  type WorkerEvents,
  type WorkerPool,
} from 'graphile-worker';
import { connectionConfig, connectionsMax, type Database } from '../../adapters/store/store.ts';
import { addJob } from '../../adapters/store/operations/add-job.ts';
import {
  beat,
  removeDeadDaemons,
  countDueJobs,
  exhaustJob,
  removeDaemon,
  listDaemons,
} from '../../adapters/store/operations/jobs.ts';
import { countUncleanEnds } from '../../adapters/store/operations/in-hand.ts';
import { hasEnded, processIdentity } from '../../base/process-identity.ts';
import type { FlowContext } from '../../flows/context.ts';
import { logTurnFailed } from '../../flows/turn-failed.ts';
import type { Json } from '../../domain/json.ts';
import { type Loop, loop } from './loop.ts';
import { RetryingPool } from './retrying-pool.ts';
import type { Task } from './tasks.ts';

export interface JobsOptions {
  readonly tasks: readonly Task[];
  /** Jobs at a time; default 8. */
  readonly concurrency?: number;
  readonly beatMs?: number;
}

/** How long a drain waits for running jobs. */
const handBackMs = 5_000;
/** How long for the database to hear how they ended; where it does not, it finds out by the end of this daemon. */
const heardMs = 3_000;
/** One look for all workers finds jobs of a later time, and what a lost notification told; each by itself looks rarely. */
const lookMs = { together: 2_000, alone: 30_000 } as const;
const identity = processIdentity();
const restartMs = { first: 200, most: 5_000 };

/** Runs from `start` to `stop`, whatever the database does in between. */
export class JobRunner {
  readonly #ctx: FlowContext;
  readonly #options: JobsOptions;
  readonly #pool: RetryingPool;
  readonly #tasks: TaskList;
  readonly #draining = new AbortController();
  readonly #workers = new Map<string, WorkerPool>();
  /** Gives up on each running job, for the runner to hand it back. */
  readonly #abandons = new Set<() => void>();
  #runner: Runner | undefined;
  #supervising: Promise<void> | undefined;
  #beating: Promise<void> | undefined;
  #looking: Loop | undefined;
  #timer: NodeJS.Timeout | undefined;
  #wake: () => void = () => undefined;
  #stopping: Promise<void> | undefined;

  constructor(ctx: FlowContext, options: JobsOptions) {
    this.#ctx = ctx;
    this.#options = options;
    this.#tasks = this.#taskList();
    const { log } = ctx.runtime;
    this.#pool = new RetryingPool(
      {
        ...connectionConfig({ url: ctx.db.url, pooled: ctx.db.pooled, applicationName: 'svcd jobs' }),
        // Workers ask for a connection for a moment, to take a job and to complete it.
        max: connectionsMax.jobs,
        idleTimeoutMillis: 5_000,
      },
      this.#draining.signal,
      new NotificationClient(ctx.db).asClient(),
    );
    // The runner insists on both; a lost connection shows at its next statement and is handled there.
    this.#pool.on('error', (error) => log.warn({ err: error }, 'jobs.idle_connection_lost'));
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
  }

  get #concurrency(): number {
    return this.#options.concurrency ?? 8;
  }

  /** Resolves when jobs run: dead daemons' jobs are handed back first. */
  async start(): Promise<void> {
    const { db } = this.#ctx;
    await this.#beat();
    await removeDeadDaemons(db.vital, this.#ctx.daemonId, await this.#goneHere());
    await this.#countEnds();
    this.#timer = setInterval(() => {
      this.#beating ??= this.#tick().finally(() => {
        this.#beating = undefined;
      });
    }, this.#options.beatMs ?? 3_000);
    this.#runner = await this.#launch();
    this.#supervising = this.#supervise(this.#runner);
    this.#looking = loop(this.#ctx, 'jobs.look', lookMs.together, () => this.#look());
  }

  async #look(): Promise<void> {
    const due = await countDueJobs(this.#ctx.db.looks, Object.keys(this.#tasks), this.#concurrency);
    if (due > 0) for (const pool of this.#workers.values()) pool.nudge(due);
  }

  /** No new jobs; running ones are told, and have 5 s before they are handed back. Safe twice. */
  stop(): Promise<void> {
    this.#stopping ??= this.#drain();
    return this.#stopping;
  }

  async #drain(): Promise<void> {
    this.#draining.abort();
    clearInterval(this.#timer);
    this.#wake();
    const overdue = setTimeout(() => {
      for (const abandon of this.#abandons) abandon();
    }, handBackMs);
    const unheard = setTimeout(() => this.#pool.breakOff(), handBackMs + heardMs);
    await this.#looking?.stop();
    await this.#runner?.stop().catch(() => undefined);
    await this.#supervising;
    clearTimeout(overdue);
    clearTimeout(unheard);
    await this.#beating;
    // A database that is gone finds out by the silence.
    await removeDaemon(this.#ctx.db.vital, this.#ctx.daemonId).catch(() => undefined);
    await this.#pool.end();
  }

  async #beat(): Promise<void> {
    const { config, daemonId, db } = this.#ctx;
    await beat(db.vital, {
      id: daemonId,
      roles: config.roles,
      host: hostname(),
      pid: process.pid,
      process: identity,
      address: this.#ctx.host?.address,
      workerIds: [...this.#workers.keys()],
    });
  }

  /** Daemons whose process has certainly ended: nobody has to wait for their silence. */
  async #goneHere(): Promise<string[]> {
    const rows = await listDaemons(this.#ctx.db.vital);
    return rows.filter((row) => row.process && hasEnded(row.process, identity)).map((row) => row.id);
  }

  async #tick(): Promise<void> {
    const { log } = this.#ctx.runtime;
    try {
      await this.#beat();
      const buried = await removeDeadDaemons(this.#ctx.db.vital, this.#ctx.daemonId, await this.#goneHere());
      if (buried.length > 0) log.warn({ daemons: buried }, 'daemon.buried');
      await this.#countEnds();
    } catch (error) {
      logTurnFailed(this.#ctx, 'daemon.beat_failed', error);
    }
  }

  /** What was in hand of daemons that have ended without a word. */
  async #countEnds(): Promise<void> {
    const suspects = await countUncleanEnds(this.#ctx.db.vital);
    if (suspects.length > 0) this.#ctx.runtime.log.warn({ inHand: suspects.length }, 'daemon.ended_uncleanly');
  }

  async #launch(): Promise<Runner> {
    const { log } = this.#ctx.runtime;
    const events: WorkerEvents = new EventEmitter();
    // Jobs are locked in the name of the pool of workers.
    const pools: string[] = [];
    events.on('pool:create', ({ workerPool }) => {
      pools.push(workerPool.id);
      this.#workers.set(workerPool.id, workerPool);
    });
    const runner = await run({
      events,
      pgPool: this.#pool,
      taskList: this.#tasks,
      concurrency: this.#concurrency,
      noHandleSignals: true,
      noPreparedStatements: this.#ctx.db.pooled,
      pollInterval: lookMs.alone,
      logger: new WorkerLogger(() => (level, message) => {
        if (level === 'error') log.warn({ message }, 'jobs.runner_error');
        else log.trace({ message }, 'jobs.runner');
      }),
    });
    // A worker that gives up is not replaced by the pool; start over as a whole.
    events.on('worker:fatalError', () => void runner.stop().catch(() => undefined));
    // What a runner that is gone still holds is handed back like that of a dead daemon.
    const forget = (): void => {
      for (const id of pools) this.#workers.delete(id);
    };
    runner.promise.then(forget, forget);
    return runner;
  }

  async #supervise(first: Runner): Promise<void> {
    const { log } = this.#ctx.runtime;
    let delayMs = restartMs.first;
    let current: Runner | undefined = first;
    while (!this.#draining.signal.aborted) {
      try {
        current ??= await this.#launch();
        this.#runner = current;
        // A drain that began while it was being launched has stopped the one before.
        if (this.#draining.signal.aborted) break;
        await this.#beat();
        delayMs = restartMs.first;
        await current.promise;
      } catch (error) {
        log.warn({ err: error }, 'jobs.runner_lost');
      }
      current = undefined;
      if (this.#draining.signal.aborted) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, delayMs);
      });
      delayMs = Math.min(delayMs * 2, restartMs.most);
    }
    await current?.stop().catch(() => undefined);
  }

  #taskList(): TaskList {
    const mine = this.#options.tasks.filter((task) => this.#ctx.config.roles.includes(task.role));
    const list: TaskList = {};
    for (const task of mine) {
      if (list[task.name] !== undefined) throw new Error(`two tasks named ${task.name}`);
      list[task.name] = async (payload, { job }) => {
        const log = this.#ctx.runtime.log.child({ task: task.name, jobId: String(job.id) });
        const performed = this.#perform(
          task,
          payload,
          { id: String(job.id), attempt: job.attempts, key: job.key ?? undefined },
          log,
        );
        await this.#orAbandoned(performed);
      };
    }
    return list;
  }

  /** Not a race against one promise of the runner's own life, which would keep every job's end in memory. */
  async #orAbandoned(performed: Promise<void>): Promise<void> {
    let abandon: () => void = () => undefined;
    const abandoned = new Promise<never>((_resolve, reject) => {
      abandon = () => reject(new Error('handed back: the daemon shut down while it ran'));
    });
    this.#abandons.add(abandon);
    try {
      await Promise.race([performed, abandoned]);
    } finally {
      this.#abandons.delete(abandon);
    }
  }

  async #perform(
    task: Task,
    payload: unknown,
    job: { id: string; attempt: number; key: string | undefined },
    log: FlowContext['runtime']['log'],
  ): Promise<void> {
    const { db, metrics } = this.#ctx;
    const ended = metrics.counter('svc_jobs_total', 'Jobs by how they ended', ['task', 'outcome']);
    const parsed = v.safeParse(task.payload, payload);
    if (!parsed.success) {
      await exhaustJob(db, job.id);
      ended.inc({ task: task.name, outcome: 'stopped' });
      throw new Error(`the payload of ${task.name} is not as declared: ${parsed.issues[0].message}`);
    }
    try {
      const outcome = await task.handle(this.#ctx, parsed.output, {
        id: job.id,
        attempt: job.attempt,
        log,
        signal: this.#draining.signal,
      });
      if (outcome === undefined) {
        ended.inc({ task: task.name, outcome: 'done' });
      } else if ('retryAfterMs' in outcome) {
        const afterMs = outcome.retryAfterMs;
        await addJob(db, task.name, payload as Json, { afterMs, ...(job.key !== undefined && { jobKey: job.key }) });
        ended.inc({ task: task.name, outcome: 'later' });
      } else {
        await exhaustJob(db, job.id);
        ended.inc({ task: task.name, outcome: 'stopped' });
        throw new Stopped(outcome.stop);
      }
    } catch (error) {
      if (!(error instanceof Stopped)) ended.inc({ task: task.name, outcome: 'failed' });
      log.warn({ err: error, attempt: job.attempt }, 'job.failed');
      throw error;
    }
  }
}

/** Ends a job that waits for a person; its text is the reason that is shown. */
class Stopped extends Error {}

// What the job runner listens with: it asks its pool for a connection to keep, and gets this, which hears what the daemon's
// one listening connection hears. So it costs no connection, and works behind a pooler.

export class NotificationClient extends EventEmitter {
  readonly #db: Database;
  #stops: (() => Promise<void>)[] = [];

  constructor(db: Database) {
    super();
    this.#db = db;
  }

  /** Takes `LISTEN "a"; LISTEN "b"` and `UNLISTEN …`, and nothing else. */
  async query(text: string): Promise<void> {
    const stops = this.#stops.splice(0);
    for (const stop of stops) await stop();
    if (/^\s*unlisten\b/i.test(text)) return;
    for (const [, channel = ''] of text.matchAll(/\blisten "([^"]+)"/gi)) {
      const hear = (payload: string | null): void => {
        // What was told while the connection was lost is found by the next look for jobs.
        if (payload !== null) this.emit('notification', { channel, payload });
      };
      this.#stops.push(await this.#db.listen(channel, hear));
    }
  }

  /** As the runner knows it: of a connection it uses the events and `query` alone. */
  asClient(): pg.PoolClient {
    return this as unknown as pg.PoolClient;
  }
}
