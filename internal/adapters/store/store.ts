// The database as the rest of the program sees it: a query, a transaction, a notification. Owns the pool, the retry of
// transactions that PostgreSQL asks to repeat, time limits and the mapping of connection failures to one fault.
// Knows no table: those are in the files beside this one, one per table family. Never retries a statement whose
// outcome is unknown; a caller that wants that writes an idempotent transaction (design, Rules of construction).

import { randomInt } from 'node:crypto';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Json } from '../../domain/json.ts';
import { Fault } from '../../domain/fault.ts';
import { ListenHub } from './schema/listen.ts';

export interface Sql {
  /**
   * Runs one statement. `bigint` columns arrive as numbers, `timestamptz` as Date, `bytea` as Buffer. `name` has each
   * connection parse and plan the statement once: for the few that run thousands of times a second.
   */
  query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    name?: string,
  ): Promise<{ readonly rows: R[]; readonly rowCount: number }>;
}

export interface TxOptions {
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  readonly readOnly?: boolean;
}

export interface Database extends Sql {
  /** The address of the database, credentials included: never log it. */
  readonly url: string;
  /**
   * Runs `fn` in one transaction and commits, or rolls back when it throws. Repeated up to five times when PostgreSQL
   * answers with what may be repeated (`isRepeatable`), so `fn` must have no effect outside the transaction.
   */
  tx<T>(fn: (tx: Sql) => Promise<T>, options?: TxOptions): Promise<T>;
  /**
   * Calls `fn` with each notification's payload, and with null whenever the connection was lost and is back: whatever
   * was notified in between is gone, so polling stays the truth. Resolves once the first LISTEN stands.
   */
  listen(channel: string, fn: (payload: string | null) => void): Promise<() => Promise<void>>;
  /** Statements sent since the start, `begin` and `commit` not counted; for tests and benchmarks. */
  statements(): number;
  /** Queries that wait for a free connection: a measure of overload. */
  waiting(): number;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  readonly log: Logger;
  readonly poolSize?: number;
  readonly statementTimeoutMs?: number;
  readonly applicationName?: string;
}

const repeatableCodes = new Set(['40001', '40P01']);
const attemptsMax = 5;
/** Server shutting down or starting, too many connections, and every connection exception (class 08). */
const unavailableCodes = /^(08...|57P0[1-5]|53300)$/;
const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
]);

/** Of the fault that callers get for any of them. */
const unavailable = 'database-unavailable';

/** The SQLSTATE of a database error, or a socket's error code, else undefined. */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** True when the error says that a unique index (of that name, when given) already holds the row. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (errorCode(error) !== '23505') return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

/**
 * True when what was tried has been rolled back and goes through when it is tried again: a serialization failure, a
 * deadlock, and a row that was on its way to a default partition while a partition was made for it.
 */
export function isRepeatable(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  return repeatableCodes.has(code) || (code === '23514' && (error as { constraint?: string }).constraint === undefined);
}

/** True when the server could not be reached, or the connection broke: what was in flight may have happened or not. */
export function isConnectionLoss(error: unknown): boolean {
  const code = errorCode(error);
  if (code === unavailable) return true;
  if (code !== undefined && (unavailableCodes.test(code) || socketCodes.has(code))) return true;
  const message = error instanceof Error ? error.message : '';
  return /^Connection terminated|^Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|not queryable/.test(
    message,
  );
}

function asFault(error: unknown): unknown {
  if (!isConnectionLoss(error) || error instanceof Fault) return error;
  return new Fault('unavailable', unavailable, 'The database cannot be reached at the moment; try again.', {
    cause: error,
    retryAfterSeconds: 1,
  });
}

const types = new pg.TypeOverrides();
types.setTypeParser(pg.types.builtins.INT8, (text: string) => Number(text));

/** How much later than the server, which ends a statement that takes too long, its silence is taken for a lost connection. */
const silenceMs = 5_000;

/** Settings every connection to the database shares, also those that the job runner opens. */
export function connectionConfig(options: DatabaseOptions): pg.PoolConfig {
  const statementMs = options.statementTimeoutMs ?? 30_000;
  return {
    connectionString: options.url,
    types,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: options.applicationName ?? 'svcd',
    statement_timeout: statementMs,
    query_timeout: statementMs + silenceMs,
    idle_in_transaction_session_timeout: 60_000,
  };
}

/** Opens a pool; no connection is made before the first query. */
export function openDatabase(options: DatabaseOptions): Database {
  return new PooledDatabase(options);
}

class PooledDatabase implements Database {
  readonly url: string;
  readonly #pool: pg.Pool;
  readonly #listener: ListenHub;
  #count = 0;
  #closing = false;

  constructor(options: DatabaseOptions) {
    this.url = options.url;
    this.#pool = new pg.Pool({ ...connectionConfig(options), max: options.poolSize ?? 10 });
    // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
    this.#pool.on('error', (error) => {
      if (!this.#closing) options.log.warn({ err: error }, 'database.idle_connection_lost');
    });
    this.#listener = new ListenHub(connectionConfig(options), options.log);
  }

  statements(): number {
    return this.#count;
  }

  waiting(): number {
    return this.#pool.waitingCount;
  }

  async query<R>(text: string, values?: readonly unknown[], name?: string): Promise<{ rows: R[]; rowCount: number }> {
    try {
      return await this.#send<R>(this.#pool, text, values, name);
    } catch (error) {
      throw asFault(error);
    }
  }

  async tx<T>(fn: (tx: Sql) => Promise<T>, options: TxOptions = {}): Promise<T> {
    const begin = `begin isolation level ${options.isolation ?? 'read committed'}${options.readOnly ? ' read only' : ''}`;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#once(fn, begin);
      } catch (error) {
        if (attempt >= attemptsMax || !isRepeatable(error)) throw asFault(error);
        // Spread the contenders.
        await new Promise((resolve) => setTimeout(resolve, attempt * 10 + randomInt(20)));
      }
    }
  }

  listen(channel: string, fn: (payload: string | null) => void): Promise<() => Promise<void>> {
    return this.#listener.listen(channel, fn);
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#listener.stop();
    await this.#pool.end();
  }

  async #send<R>(client: pg.ClientBase | pg.Pool, text: string, values?: readonly unknown[], name?: string) {
    this.#count += 1;
    const result = await client.query({
      text,
      ...(values !== undefined && { values: [...values] }),
      ...(name !== undefined && { name }),
    });
    return { rows: result.rows as R[], rowCount: result.rowCount ?? 0 };
  }

  async #once<T>(fn: (tx: Sql) => Promise<T>, begin: string): Promise<T> {
    const client = await this.#pool.connect();
    let broken: Error | undefined;
    const onError = (error: Error): Error => (broken = error);
    client.on('error', onError);
    try {
      await client.query(begin);
      const result = await fn({ query: (text, values, name) => this.#send(client, text, values, name) });
      await client.query('commit');
      return result;
    } catch (error) {
      // A connection that cannot roll back is closed by release(true); the server rolls back by itself.
      if (isConnectionLoss(error) && error instanceof Error) broken ??= error;
      else {
        await client.query('rollback').catch((cause: unknown) => {
          broken ??= cause instanceof Error ? cause : new Error('rollback failed');
        });
      }
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  }
}

export interface JobOptions {
  /** Jobs of one key are one job while it waits. A key added again while its job runs makes a second one. */
  readonly jobKey?: string;
  /** Default `preserve_run_at`: `replace` is a debounce, under which a busy key would never run. */
  readonly jobKeyMode?: 'replace' | 'preserve_run_at';
  readonly runAt?: Date;
  /** Default 100: a killed worker costs one attempt, and an exhausted job waits for a person. */
  readonly maxAttempts?: number;
  readonly priority?: number;
}

/** Adds a job inside the caller's transaction; it becomes visible with the commit. */
export async function addJob(sql: Sql, task: string, payload: Json, options: JobOptions = {}): Promise<void> {
  await sql.query(
    `select graphile_worker.add_job($1::text, payload => $2::json, run_at => $3::timestamptz, max_attempts => $4::int,
       job_key => $5::text, job_key_mode => $6::text, priority => $7::int)`,
    [
      task,
      JSON.stringify(payload),
      options.runAt ?? null,
      options.maxAttempts ?? 100,
      options.jobKey ?? null,
      options.jobKey === undefined ? null : (options.jobKeyMode ?? 'preserve_run_at'),
      options.priority ?? null,
    ],
  );
}
