// Waiting for a project. Whatever changes a project's world holds its routing lock (routing.ts); here is how one comes to
// it without harm to others. Within a daemon those who want a project stand in a queue in memory, so that a project never
// takes more than one connection; the first of them tries the lock, and only `waitersMax` at once wait inside the
// database, each within its time limit. Who has waited for `waitMs` is told `busy`, and has changed nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../../domain/fault.ts';
import { type Database, errorCode, type Sql, type TxOptions } from '../store.ts';
import { held, type RoutingTx } from './routing.ts';

const limits = {
  /** Contract, section 9. */
  waitMs: 2_000,
  /** Of all projects, those whose lock is waited for in the database: each has a connection. */
  waitersMax: 2,
  /** Of one project: more than that would not be served within their time. */
  queueMax: 200,
  /** Between two tries where no more may wait in the database. */
  againMs: 25,
} as const;

/** Somebody else has held the project for too long. Nothing was changed. */
export function projectBusy(): Fault {
  return new Fault('unavailable', 'busy', 'The project is busy with something else at the moment; try again.', {
    retryAfterSeconds: 1,
  });
}

/** The time for the lock is over, and the transaction with it. */
class StillHeld extends Error {}

/** Those of one daemon who want a project, in the order of asking. */
class Queues {
  readonly #queues = new Map<string, (() => void)[]>();
  waiters = 0;

  /** Resolves to whether it is one's turn, within so many milliseconds. Then `leave` has to follow. */
  async enter(projectId: string, waitMs: number): Promise<boolean> {
    const queue = this.#queues.get(projectId);
    if (queue === undefined) {
      this.#queues.set(projectId, []);
      return true;
    }
    if (waitMs <= 0 || queue.length >= limits.queueMax) return false;
    return new Promise((resolve) => {
      const turn = (): void => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        queue.splice(queue.indexOf(turn), 1);
        resolve(false);
      }, waitMs);
      queue.push(turn);
    });
  }

  leave(projectId: string): void {
    const next = this.#queues.get(projectId)?.shift();
    if (next === undefined) this.#queues.delete(projectId);
    else next();
  }
}

const all = new WeakMap<object, Queues>();
function queuesOf(db: Database): Queues {
  let queues = all.get(db.root);
  if (queues === undefined) {
    queues = new Queues();
    all.set(db.root, queues);
  }
  return queues;
}

/** Runs `fn` when it is the project's turn in this daemon; undefined where that takes longer than so many milliseconds. */
export async function inTurn<T>(
  db: Database,
  projectId: string,
  waitMs: number,
  fn: () => Promise<T>,
): Promise<T | undefined> {
  const queues = queuesOf(db);
  if (!(await queues.enter(projectId, waitMs))) return undefined;
  try {
    return await fn();
  } finally {
    queues.leave(projectId);
  }
}

export interface ProjectTxOptions extends TxOptions {
  /** 0: only where nobody has it. */
  readonly waitMs?: number;
}

/**
 * Runs `fn` in a transaction that holds the routing lock of a project. Throws Fault `unavailable` with code `busy` where
 * others hold it for too long. `fn` must not ask for the project again but with the transaction that it gets.
 */
export async function inProject<T>(
  db: Database,
  projectId: string,
  fn: (tx: RoutingTx) => Promise<T>,
  { waitMs = limits.waitMs, ...options }: ProjectTxOptions = {},
): Promise<T> {
  const until = performance.now() + waitMs;
  const done = await inTurn(db, projectId, waitMs, async () => {
    const attempt = async (tx: Sql): Promise<{ readonly value: T } | undefined> => {
      if (!(await take(db, tx, projectId, until - performance.now()))) return undefined;
      return { value: await fn(held(tx, projectId)) };
    };
    for (;;) {
      const result = await db.tx(attempt, options).catch((error: unknown) => {
        if (error instanceof StillHeld) return undefined;
        throw error;
      });
      if (result !== undefined) return result;
      if (performance.now() >= until) throw projectBusy();
      await sleep(limits.againMs);
    }
  });
  if (done === undefined) throw projectBusy();
  return done.value;
}

const key = `hashtextextended('svc.routing:' || $1::text, 0)`;

/** Takes the lock, waiting for it in the database where few enough do. */
async function take(db: Database, tx: Sql, projectId: string, leftMs: number): Promise<boolean> {
  const { rows } = await tx.query<{ mine: boolean }>(
    `select pg_try_advisory_xact_lock(${key}) as mine`,
    [projectId],
    'try-lock-routing',
  );
  if (rows[0]?.mine === true) return true;
  const queues = queuesOf(db);
  if (leftMs < 1 || queues.waiters >= limits.waitersMax) return false;
  queues.waiters += 1;
  try {
    const waitMs = Math.min(Math.ceil(leftMs), limits.waitMs);
    await tx.query(`select set_config('lock_timeout', $1::text, true)`, [`${waitMs}ms`]);
    await tx.query(`select pg_advisory_xact_lock(${key})`, [projectId]);
    await tx.query(`select set_config('lock_timeout', '0', true)`);
    return true;
  } catch (error) {
    if (errorCode(error) === '55P03') throw new StillHeld();
    throw error;
  } finally {
    queues.waiters -= 1;
  }
}

/**
 * The same for work that is done again and again for every project: where others have this one, it is left out, and
 * undefined is the answer, so that nobody else's work waits behind it.
 */
export async function unlessBusy<T>(
  db: Database,
  projectId: string,
  fn: (tx: RoutingTx) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await inProject(db, projectId, fn, { waitMs: 0 });
  } catch (error) {
    if (error instanceof Fault && error.code === 'busy') return undefined;
    throw error;
  }
}
