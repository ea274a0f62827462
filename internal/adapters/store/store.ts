// The database as the rest of the program sees it: a query, a transaction, a notification. Owns the pool, the retry of
// transactions that PostgreSQL asks to repeat, time limits and the mapping of connection failures to one fault.
// Knows no table: those are in the files beside this one, one per table family. Never retries a statement whose
// outcome is unknown; a caller that wants that writes an idempotent transaction (ARCHITECTURE.md#three-families-of-error).

import { randomInt } from 'node:crypto';
import type pg from 'pg';
import type { Logger } from 'pino';
import { connectionConfig, idleInTransactionMs, silenceMs, statementMsDefault } from './schema/connection-config.ts';
import { asFault, databaseUnavailable, errorCode, isConnectionLoss, isRepeatable } from './schema/errors.ts';
import { ListenHub, tellingName, type Wakeup, WakeupSender } from './schema/listen.ts';
import { type Held, type Lane, Pool, type Tx } from './schema/pool.ts';
import { notedRoom } from './schema/room.ts';
import type { Sql, Statement } from './schema/sql.ts';
import { type OpeningRows, Transaction } from './schema/transaction.ts';
import { Waited } from './schema/waited.ts';

export type { Sql, Statement, Tx };
export { connectionConfig } from './schema/connection-config.ts';
export {
  databaseUnavailable,
  errorCode,
  isAbandoned,
  isConnectionLoss,
  isDriversWord,
  isRepeatable,
  isUniqueViolation,
} from './schema/errors.ts';

export interface TxOptions {
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  readonly readOnly?: boolean;
  /**
   * Its statements may take longer than a caller is made to wait, up to the server's own limit and as long as the server
   * answers somebody: for the few that read or write a great deal. Waiting for others' locks stays short.
   */
  readonly patient?: boolean;
  /** Time limit of each of its statements, in milliseconds, where it is another one than usual. */
  readonly statementMs?: number;
  /** A statement that goes in the message of `begin`, and costs no round trip of its own; `fn` is given its rows. */
  readonly opening?: Statement;
  /**
   * A statement in front of `opening`, in the same message but committed by itself: it stays where the transaction is rolled
   * back, and runs again where that is repeated. Where it fails there is no transaction. `fn` is given its rows.
   */
  readonly ahead?: Statement | undefined;
}

type InTx<T> = (tx: Tx, opened: OpeningRows) => Promise<T>;

export interface Database extends Sql {
  /** The address of the database, credentials included: never log it. */
  readonly url: string;
  /** Whether a pooler is behind that address: then nothing may be left on a connection from one transaction to the next. */
  readonly pooled: boolean;
  /** The same object for every view of this database: what is kept by database is kept by this. */
  readonly root: object;
  /** A view for requests from outside: what is not answered within 5 s throws Fault `unavailable`. */
  readonly calls: Database;
  /** As `calls`, for a single request: what it has waited for the database is taken off the time of all that it asks next. */
  oneCall(): Database;
  /**
   * The same view, for what is asked for somebody: a project, or a caller. Where many wait for a connection the owners take turns,
   * so that nobody waits for all that another has asked for.
   */
  ownedBy(owner: string): Database;
  /** A view for loops that look for news again and again: they wait a moment rather than have a connection opened. */
  readonly looks: Database;
  /**
   * For a statement that is committed by itself while a transaction waits for it. It has a connection kept for it: behind
   * others' transactions, which may wait for such a statement too, each could wait for the other.
   */
  readonly notes: Sql;
  /** Connections that nothing else takes: for the heartbeat, the leases, and ending statements that were given up. */
  readonly vital: Sql;
  /**
   * Runs `fn` in one transaction and commits, or rolls back when it throws. Repeated up to five times when PostgreSQL
   * answers with what may be repeated (`isRepeatable`), so `fn` must have no effect outside the transaction.
   */
  tx<T>(fn: InTx<T>, options?: TxOptions): Promise<T>;
  /**
   * Calls `fn` with each notification's payload, and with null whenever the connection was lost and is back: whatever
   * was notified in between is gone, so polling stays the truth. Resolves once the first LISTEN stands.
   */
  listen(channel: string, fn: (payload: string | null) => void): Promise<() => Promise<void>>;
  /** Statements sent since the start, `begin` and `commit` not counted; for tests and benchmarks. */
  statements(): number;
  /** What waits for a free connection. */
  waiting(): number;
  /** Whether so much waits that what is asked for this view's owner is to be turned away: others wait too, and it has its share. */
  isCrowded(): boolean;
  /** For a daemon that stops: whoever waits for the database, or asks it from now on, gets Fault `unavailable`. */
  abandon(): void;
  /** Whoever has waited `ms` for an answer, and is not patient, gets Fault `unavailable`; the server ends the statement. */
  refuseLate(ms: number): void;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  /** The server itself, where a transaction-mode pooler stands at `url`: for LISTEN. */
  readonly directUrl?: string;
  readonly log: Logger;
  readonly statementTimeoutMs?: number;
  /** What the listening connection calls itself: it is there as long as the daemon is. */
  readonly listenerName?: string;
}

/**
 * Connections of one daemon when it is busy, 12 in all: its work and the calls from outside, what must never wait, the job
 * runner's, and the one that listens. When it is idle, one of each is left.
 */
export const connectionsMax = { main: 7, vital: 2, jobs: 2, listen: 1 } as const;

/**
 * About as long as opening one takes. The loops of an idle daemon meet for moments, again and again: the first of them beside
 * another's statement rather waits for its end.
 */
const growMs = {
  calls: { one: 3, more: 3 },
  work: { one: 25, more: 3 },
  looks: { one: 100, more: 100 },
} as const;
/** Tries of what PostgreSQL has rolled back and may be repeated. */
const attemptsMax = 5;
/** A request from outside gets its answer, or `unavailable`, within this. */
const callMs = 5_000;
/** Queries that wait for a connection, above which more is turned away. */
const waitingMax = 500;
/** How long a patient transaction of such a request waits for a lock: a little less. */
const lockMs = 4_500;
/** A wake-up that comes later than this wakes nobody sooner than polling does. */
const tellMs = 2_000;

/** Opens a pool; no connection is made before the first query. */
export function openDatabase(options: DatabaseOptions): Database {
  const shared = new Shared(options);
  return new View(shared, shared.lanes.work);
}

/** What all views of one database have in common. */
class Shared {
  readonly options: DatabaseOptions;
  readonly pooled: boolean;
  readonly main: Pool;
  readonly vital: Pool;
  readonly listener: ListenHub;
  readonly tells: WakeupSender;
  readonly lanes: { readonly [name in 'work' | 'calls' | 'looks' | 'notes' | 'vital' | 'tells']: Lane };
  count = 0;

  constructor(options: DatabaseOptions) {
    const { url, log, directUrl = url, statementTimeoutMs = statementMsDefault } = options;
    this.options = options;
    this.pooled = options.directUrl !== undefined;
    const config = connectionConfig({ url, statementTimeoutMs, pooled: this.pooled, applicationName: tellingName });
    this.tells = new WakeupSender((tells) => this.#notify(tells), log);
    const onTells = this.tells.tell.bind(this.tells);
    const answerMs = statementTimeoutMs + silenceMs;
    this.lanes = {
      work: { max: connectionsMax.main - 1, waitMs: 15_000, answerMs, growMs: growMs.work },
      calls: {
        max: connectionsMax.main - 1,
        ownerMax: connectionsMax.main - 2,
        waitMs: 4_000,
        answerMs: Math.min(callMs, answerMs),
        growMs: growMs.calls,
      },
      looks: { max: connectionsMax.main - 1, waitMs: 15_000, answerMs, growMs: growMs.looks, isPatient: true },
      notes: { max: 1, waitMs: 15_000, answerMs, growMs: growMs.work },
      vital: { max: connectionsMax.vital, waitMs: callMs, answerMs: callMs, growMs: growMs.work },
      tells: { max: 1, waitMs: tellMs, answerMs: tellMs, growMs: growMs.work },
    };
    // One that was made while its server took no writes may go on to take none.
    const isFit = (error: unknown): boolean => !isConnectionLoss(error) && errorCode(error) !== '25006';
    this.vital = new Pool({ config, log, isFit, max: connectionsMax.vital, onTells });
    this.main = new Pool({
      config,
      log,
      isFit,
      max: connectionsMax.main,
      onTells,
      probe: () => this.vital.use(this.lanes.vital, (held) => held.query({ text: 'select 1' })),
      // Behind a pooler the number that a connection has is not the server's; there the transaction's limit ends it.
      ...(!this.pooled && { cancel: (backend) => this.#cancel(backend) }),
    });
    const listening = { url: directUrl, statementTimeoutMs: 10_000, applicationName: options.listenerName };
    this.listener = new ListenHub(connectionConfig(listening), log);
  }

  /** In a transaction that writes nothing, so that it waits for no disk while it holds the cluster's lock. */
  #notify(tells: readonly Wakeup[]): Promise<unknown> {
    const text = 'select pg_notify(channel, told) from unnest($1::text[], $2::text[]) as t (channel, told)';
    const values = [tells.map(({ channel }) => channel), tells.map(({ payload }) => payload)];
    const name = this.pooled ? {} : { name: 'notify' };
    return this.main.use(this.lanes.tells, (held) => held.query({ text, values, ...name }));
  }

  /** Of what has been given up. Where this is not heard either, the server's own limit ends it. */
  #cancel(backend: number): void {
    const text = `select pg_cancel_backend(pid) from pg_stat_activity
      where pid = $1::int and state = 'active' and query_start < now() - interval '200 milliseconds'`;
    this.vital
      .use(this.lanes.vital, (held) => held.query({ text, values: [backend] }))
      .catch((error: unknown) => this.options.log.warn({ err: error }, 'database.cancel_failed'));
  }
}

class View implements Database {
  readonly #shared: Shared;
  readonly #lane: Lane;
  readonly #waited: Waited | undefined;
  readonly #owner: string;

  constructor(shared: Shared, lane: Lane, waited?: Waited, owner = '') {
    this.#shared = shared;
    this.#lane = lane;
    this.#waited = waited;
    this.#owner = owner;
  }

  get url(): string {
    return this.#shared.options.url;
  }
  get pooled(): boolean {
    return this.#shared.pooled;
  }
  get root(): object {
    return this.#shared;
  }
  get calls(): Database {
    return this.#of(this.#shared.lanes.calls);
  }
  get looks(): Database {
    return this.#of(this.#shared.lanes.looks);
  }
  oneCall(): Database {
    return this.#of(this.#shared.lanes.calls, new Waited());
  }
  ownedBy(owner: string): Database {
    return new View(this.#shared, this.#lane, this.#waited, owner);
  }
  get notes(): Sql {
    return this.#sql(this.#shared.main, this.#shared.lanes.notes);
  }
  get vital(): Sql {
    return this.#sql(this.#shared.vital, this.#shared.lanes.vital);
  }

  #of(lane: Lane, waited?: Waited): Database {
    return new View(this.#shared, lane, waited, this.#owner);
  }
  #sql(pool: Pool, lane: Lane): Sql {
    return { query: (text, values, name) => this.#single(pool, lane, { text, values, name }) };
  }

  statements(): number {
    return this.#shared.count;
  }

  waiting(): number {
    return this.#shared.main.waiting();
  }

  isCrowded(): boolean {
    return this.#shared.main.isCrowded(this.#lane, this.#owner, waitingMax);
  }

  query<R>(text: string, values?: readonly unknown[], name?: string): Promise<{ rows: R[]; rowCount: number }> {
    return this.#single<R>(this.#shared.main, this.#lane, { text, values, name }, this.#waited);
  }

  async tx<T>(fn: InTx<T>, options: TxOptions = {}): Promise<T> {
    const begin = `begin isolation level ${options.isolation ?? 'read committed'}${options.readOnly ? ' read only' : ''}`;
    const { main } = this.#shared;
    return this.#repeated(() =>
      main.use(this.#lane, (held) => this.#once(held, fn, begin, options), this.#waited, this.#owner),
    );
  }

  listen(channel: string, fn: (payload: string | null) => void): Promise<() => Promise<void>> {
    return this.#shared.listener.listen(channel, fn);
  }

  abandon(): void {
    this.#shared.main.abandon();
    this.#shared.vital.abandon();
  }

  refuseLate(ms: number): void {
    this.#shared.main.refuseLate(ms);
    this.#shared.vital.refuseLate(ms);
  }

  async close(): Promise<void> {
    await this.#shared.tells.stop();
    await this.#shared.listener.stop();
    await this.#shared.main.close();
    await this.#shared.vital.close();
  }

  /** One statement, which is its own transaction; behind a pooler in one that carries its time limits. */
  async #single<R>(pool: Pool, lane: Lane, statement: Statement, waited?: Waited) {
    return this.#repeated(() =>
      pool.use(
        lane,
        (held) =>
          this.#shared.pooled
            ? this.#once(held, (tx) => tx.query<R>(statement.text, statement.values), 'begin', {})
            : this.#send<R>(held, statement),
        waited,
        this.#owner,
      ),
    );
  }

  /** Tries what PostgreSQL has rolled back again, a bounded number of times. */
  async #repeated<T>(act: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await act();
      } catch (error) {
        if (attempt >= attemptsMax || !isRepeatable(error)) throw this.#asFault(notedRoom(this.#shared, error));
        // Spread the contenders.
        await new Promise((resolve) => setTimeout(resolve, attempt * 10 + randomInt(20)));
      }
    }
  }

  /** To a call, a statement that was ended by one of its time limits is a database that does not answer. */
  #asFault(error: unknown): unknown {
    const isCall = this.#lane === this.#shared.lanes.calls;
    return isCall && /^(57014|55P03)$/.test(errorCode(error) ?? '') ? databaseUnavailable(error) : asFault(error);
  }

  async #send<R>(held: Pick<Held, 'query'>, statement: Statement) {
    const result = await held.query(this.#queryOf(statement));
    return { rows: result.rows as R[], rowCount: result.rowCount ?? 0 };
  }

  async #once<T>(held: Held, fn: InTx<T>, begin: string, options: TxOptions): Promise<T> {
    const { patient = false, statementMs, opening, ahead } = options;
    const beginning = [begin, ...this.#settings(patient, statementMs)];
    const transaction = new Transaction(held, { beginning, patient });
    try {
      const opened = await this.#open(transaction, opening, ahead);
      const query: Sql['query'] = (text, values, name) => this.#send(transaction, { text, values, name });
      const copyIn: Tx['copyIn'] = (text, parts) => transaction.begun().then(() => held.copyIn(text, parts));
      const result = await fn({ query, copyIn, last: () => transaction.last() }, opened);
      await transaction.end('commit');
      return result;
    } catch (error) {
      // A connection that is lost is closed; the server rolls back by itself.
      if (!isConnectionLoss(error)) await transaction.end('rollback');
      throw error;
    }
  }

  async #open(transaction: Transaction, opening?: Statement, ahead?: Statement): Promise<OpeningRows> {
    if (opening === undefined) return { opening: [], ahead: [] };
    return transaction.open(this.#queryOf(opening), ahead && this.#queryOf(ahead));
  }

  #queryOf({ text, values, name }: Statement): pg.QueryConfig {
    this.#shared.count += 1;
    return {
      text,
      ...(values !== undefined && { values: [...values] }),
      ...(name !== undefined && !this.#shared.pooled && { name }),
    };
  }

  /** What a transaction sets for itself: its time limits where a pooler's connection has none, or others are wanted. */
  #settings(patient: boolean, statementMs: number | undefined): string[] {
    const { pooled, options } = this.#shared;
    const usualMs = options.statementTimeoutMs ?? statementMsDefault;
    const limitMs = statementMs ?? (patient ? usualMs : Math.min(usualMs, this.#lane.answerMs));
    const settings = [
      ...(pooled || statementMs !== undefined ? [`statement_timeout = ${limitMs}`] : []),
      ...(pooled ? [`idle_in_transaction_session_timeout = ${idleInTransactionMs}`] : []),
      // Who is patient is so with the work, not with those who are in its way.
      ...(patient && this.#lane === this.#shared.lanes.calls ? [`lock_timeout = ${lockMs}`] : []),
    ];
    return settings.map((one) => `set local ${one}`);
  }
}
