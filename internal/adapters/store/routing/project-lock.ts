// Waiting for a project. Whatever changes a project's world holds its routing lock (routing.ts), and whatever changes its
// agents, endpoints, connections or who owns them holds its apply lock: applies of one project, and whatever else changes
// what they plan against, happen one after the other. Here is how one comes to either without harm to others. Within a daemon
// those who want a project stand in a queue in memory, so that a project never takes more than one connection; the first of
// them tries the lock, and only `waitersMax` at once wait inside the database, each within its time limit. Who has waited for
// `waitMs` is told `busy`, and has changed nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../../domain/fault.ts';
import { type Database, errorCode, type Sql, type Tx, type TxOptions } from '../store.ts';
import { held, type RoutingTx } from './routing-lock.ts';

const limits = {
  /** How long a caller waits before it is told `busy`. */
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

/** Which of a project's locks. They are taken in this order where somebody needs both: an apply, then what it routes. */
type Lock = 'svc.project' | 'svc.routing';

/** Those of one daemon who want a lock of a project, in the order of asking. */
class Queues {
  readonly #queues = new Map<string, (() => void)[]>();
  waiters = 0;

  /** Resolves to whether it is one's turn, within so many milliseconds. Then `leave` has to follow. */
  async enter(lock: string, waitMs: number): Promise<boolean> {
    const queue = this.#queues.get(lock);
    if (queue === undefined) {
      this.#queues.set(lock, []);
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

  leave(lock: string): void {
    const next = this.#queues.get(lock)?.shift();
    if (next === undefined) this.#queues.delete(lock);
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

/** Runs `fn` when it is the turn of who wants the lock here; undefined where that takes longer than so many milliseconds. */
async function inLockTurn<T>(db: Database, key: string, waitMs: number, fn: () => Promise<T>): Promise<T | undefined> {
  const queues = queuesOf(db);
  if (!(await queues.enter(key, waitMs))) return undefined;
  try {
    return await fn();
  } finally {
    queues.leave(key);
  }
}

/** Runs `fn` when it is the project's turn in this daemon; undefined where that takes longer than so many milliseconds. */
export const inTurn = <T>(
  db: Database,
  projectId: string,
  waitMs: number,
  fn: () => Promise<T>,
): Promise<T | undefined> => inLockTurn(db, keyOf('svc.routing', projectId), waitMs, fn);

export interface ProjectTxOptions extends TxOptions {
  /** 0: only where nobody has it. */
  readonly waitMs?: number;
}

/**
 * Runs `fn` in a transaction that holds the routing lock of a project. Throws Fault `unavailable` with code `busy` where
 * others hold it for too long. `fn` must not ask for the project again but with the transaction that it gets.
 */
export const inProject = <T>(
  db: Database,
  projectId: string,
  fn: (tx: RoutingTx) => Promise<T>,
  options?: ProjectTxOptions,
): Promise<T> => underLock(db, 'svc.routing', projectId, (tx) => fn(held(tx, projectId)), options);

export interface ApplyTxOptions<E> extends ProjectTxOptions {
  /**
   * What is asked for in the message that takes the lock, behind it: each statement sees what was committed before it, so that
   * what it reads is read under the lock. `fn` is given the answer, or undefined where the lock was not to be had at once.
   */
  readonly early?: (tx: Sql) => Promise<E>;
}

/** The same with the apply lock of a project, which need not be there any more. */
export const inApply = <T, E = undefined>(
  db: Database,
  projectId: string,
  fn: (tx: Tx, early: E | undefined) => Promise<T>,
  options?: ApplyTxOptions<E>,
): Promise<T> => underLock(db, 'svc.project', projectId, fn, options);

async function underLock<T, E = undefined>(
  db: Database,
  lock: Lock,
  projectId: string,
  fn: (tx: Tx, early: E | undefined) => Promise<T>,
  { waitMs = limits.waitMs, early, ...options }: ApplyTxOptions<E> = {},
): Promise<T> {
  const until = performance.now() + waitMs;
  const key = keyOf(lock, projectId);
  const done = await inLockTurn(db, key, waitMs, async () => {
    let isFirst = true;
    const attempt = async (tx: Tx): Promise<{ readonly value: T } | undefined> => {
      const taking = take(db, tx, key, until - performance.now());
      // Once: who tries again and again asks for the lock alone.
      const asked = isFirst ? early?.(tx) : undefined;
      isFirst = false;
      const [taken, read] = await Promise.all([taking, asked]);
      if (taken === 'no') return undefined;
      return { value: await fn(tx, taken === 'at-once' ? read : undefined) };
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

/** What is hashed to the number of the lock. */
const keyOf = (lock: Lock, projectId: string): string => `${lock}:${projectId}`;
const numberOf = 'hashtextextended($1::text, 0)';

/** Takes the lock, waiting for it in the database where few enough do. */
async function take(db: Database, tx: Sql, key: string, leftMs: number): Promise<'at-once' | 'waited' | 'no'> {
  const { rows } = await tx.query<{ mine: boolean; limit: string }>(
    `select pg_try_advisory_xact_lock(${numberOf}) as mine, current_setting('lock_timeout') as limit`,
    [key],
    'try-lock-project',
  );
  const [first] = rows;
  if (first?.mine === true) return 'at-once';
  const queues = queuesOf(db);
  if (leftMs < 1 || queues.waiters >= limits.waitersMax) return 'no';
  queues.waiters += 1;
  try {
    const waitMs = Math.min(Math.ceil(leftMs), limits.waitMs);
    await tx.query(`select set_config('lock_timeout', $1::text, true)`, [`${waitMs}ms`]);
    await tx.query(`select pg_advisory_xact_lock(${numberOf})`, [key]);
    await tx.query(`select set_config('lock_timeout', $1::text, true)`, [first?.limit ?? '0']);
    return 'waited';
  } catch (error) {
    if (errorCode(error) === '55P03') throw new StillHeld();
    throw error;
  } finally {
    queues.waiters -= 1;
  }
}

/**
 * Takes the apply lock for the rest of a transaction that others began: where it is about several projects, which are then
 * taken in the order of their ids. Throws Fault `busy` like `inApply`; the transaction is of no use then.
 */
export async function lockProject(tx: Sql, projectId: string): Promise<void> {
  const limit = `select set_config('lock_timeout', $1::text, true)`;
  const { rows } = await tx.query<{ limit: string }>(`select current_setting('lock_timeout') as limit`);
  await tx.query(limit, [`${limits.waitMs}ms`]);
  try {
    await tx.query(`select pg_advisory_xact_lock(${numberOf})`, [keyOf('svc.project', projectId)]);
  } catch (error) {
    throw errorCode(error) === '55P03' ? projectBusy() : error;
  }
  await tx.query(limit, [rows[0]?.limit ?? '0']);
}

/**
 * As `inProject`, for work that is done again and again for every project: where others have this one, it is left out, and
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
