// The connections of one daemon to its database. A gate stands before them: it opens as many as are wanted at once and no
// more, lets neither calls from outside nor the daemon's own work have all of them, nor one caller all that calls may have,
// has those who wait take turns, and keeps one deadline for the whole of what somebody waits for: the place, the connection,
// the answer. Who gives up closes its connection, so that nothing
// hangs behind a server that says nothing, and has the server end the statement.

import pg from 'pg';
import type { Logger } from 'pino';
import { Turns } from '../../../base/turns.ts';
import { within } from '../../../base/waits.ts';
import type { Sql } from './sql.ts';
import { Batch } from './batch.ts';
import { CopyIn } from './copy-in.ts';
import { Demand } from './demand.ts';
import { type Wakeup, wakeupOf } from './listen.ts';
import { Abandoned, NoAnswer, NoConnection, Refusals } from './no-answer.ts';
import { Waited } from './waited.ts';

export interface Lane {
  /** How many of the connections this kind of work may have at once. */
  readonly max: number;
  /** How many of those what is asked for one of its owners may have at once; absent: all. What is nobody's is not counted. */
  readonly ownerMax?: number;
  /** How long it waits to be let in and for a connection, in milliseconds. */
  readonly waitMs: number;
  /** How long it waits for each answer of the server, in milliseconds, less what it waited to be let in. */
  readonly answerMs: number;
  /** How long it waits before one more connection is opened, in milliseconds: beside the only one that there is, and beside more. */
  readonly growMs: { readonly one: number; readonly more: number };
  /** For loops that ask often and rest in between: no connection is kept so that they wait less. */
  readonly isPatient?: true;
}

export interface PoolOptions {
  readonly config: pg.PoolConfig;
  readonly log: Logger;
  /** Connections at once. */
  readonly max: number;
  /** Whether a connection can be used again after this error. */
  readonly isFit: (error: unknown) => boolean;
  /** Ends a statement that its caller has given up; absent: the server's own time limit does. */
  readonly cancel?: (backend: number) => void;
  /** Asks the server something over another connection: so it is known to answer while a patient statement takes long. */
  readonly probe?: () => Promise<unknown>;
  /** Told of the wake-ups that triggers asked for, once their transaction has committed. */
  readonly onTells?: (tells: readonly Wakeup[]) => void;
}

/** An answer is waited for at least this long, however long its caller has waited before. */
const leastMs = 250;
/** How often it is asked how many are worth keeping, and how long one that nobody uses is kept. */
const [shrinkMs, idleMs] = [5_000, 1_500];
/** So many times what may wait, before everybody is turned away. */
const allMax = 4;
/** After so much silence, it is asked whether the server still answers, where somebody waits patiently. */
const quietMs = 1_000;

interface Waiting {
  readonly lane: Lane;
  /** For whom it asks; empty: for nobody in particular. */
  readonly owner: string;
  readonly enter: () => void;
}

/** A connection that is somebody's for now. */
export interface Held {
  query(config: pg.QueryConfig, patient?: boolean): Promise<pg.QueryResult>;
  /** Runs several in one message, one after the other; resolves to as many results. Where one fails, all have. */
  queries(configs: readonly pg.QueryConfig[], patient?: boolean): Promise<pg.QueryResult[]>;
  readonly copyIn: Tx['copyIn'];
}

/** One transaction. */
export interface Tx extends Sql {
  /** Runs COPY … FROM STDIN with these bytes, which go to the server as it takes them; it may take its time. */
  readonly copyIn: (text: string, parts: Iterable<Uint8Array>) => Promise<void>;
  /**
   * Has the commit go in the message of what is asked for in this breath: one turn less. Nothing may be asked for after
   * that, and what has to be so for the commit to stand is for the server to find: a statement that fails undoes all.
   */
  readonly last: () => void;
}

export class Pool {
  readonly #options: PoolOptions;
  readonly #pool: pg.Pool;
  readonly #waiting = new Turns<Lane, Waiting>();
  /** How many of those are not patient. */
  #hurried = 0;
  readonly #refusals = new Refusals();
  readonly #busy = new Map<Lane, number>();
  /** Of lanes in which an owner may not have all: by owner, how many it has. */
  readonly #busyOf = new Map<string, number>();
  /** How many connections may be used at once now: as many as were wanted lately. */
  #open = 1;
  #active = 0;
  /** Of the active those that are not patient. */
  readonly #demand = new Demand(performance.now());
  #answeredAt = performance.now();
  #probing = false;
  #growing: NodeJS.Timeout | undefined;
  #growsMs = 0;
  readonly #shrinking: NodeJS.Timeout;
  #closing = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#pool = new pg.Pool({ ...options.config, max: options.max, idleTimeoutMillis: idleMs });
    // An idle connection that breaks is replaced; without a listener it would end the process.
    this.#pool.on('error', (error) => {
      if (!this.#closing) options.log.warn({ err: error }, 'database.idle_connection_lost');
    });
    // One that breaks in the same breath as it is ready, or handed out, has no other listener yet; its next query fails.
    this.#pool.on('connect', (client) => client.on('error', () => undefined));
    this.#shrinking = setInterval(() => this.#shrink(), shrinkMs);
    this.#shrinking.unref();
  }

  /** How many wait to be let in and are not patient. */
  waiting(): number {
    return this.#hurried;
  }

  /**
   * Whether so many wait that what is asked for this owner is to be turned away: more than `most`, and of them more of its own than
   * its share of those; or several times as many, whoever they are of.
   */
  isCrowded(lane: Lane, owner: string, most: number): boolean {
    if (this.#hurried <= most) return false;
    const { owners, own } = this.#waiting.sharesOf(lane, owner);
    return this.#hurried > allMax * most || own >= most / Math.max(1, owners);
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#shrinking);
    clearTimeout(this.#growing);
    await (this.#refusals.isAbandoned ? within(this.#pool.end(), leastMs) : this.#pool.end());
  }

  /** Whoever waits, and whoever asks from now on, gets Abandoned. */
  abandon(): void {
    this.#refusals.abandon();
  }

  /** Whoever has waited `ms` and is not patient gets NoAnswer. */
  refuseLate(ms: number): void {
    this.#refusals.refuseLate(ms);
  }

  /**
   * Runs `fn` with a connection of its own. It goes back afterwards, unless the error leaves it unfit for the next. Throws
   * NoAnswer where the lane's time is over, less what was `waited` before. `owner`: for whom it is, where others may wait for it.
   */
  async use<T>(lane: Lane, fn: (held: Held) => Promise<T>, waited = new Waited(), owner = ''): Promise<T> {
    const client = await waited.during(() => this.#connected(lane, owner, lane.waitMs - waited.ms));
    let broken: Error | undefined;
    const onError = (error: Error): Error => (broken = error);
    client.on('error', onError);
    let tells: Wakeup[] = [];
    const onNotice = (notice: object): void => {
      const tell = wakeupOf(notice);
      if (tell !== undefined) tells.push(tell);
    };
    client.on('notice', onNotice);
    try {
      // Who has waited to be let in waits that much less for each answer: the two do not add up.
      const answerMs = Math.max(leastMs, lane.answerMs - waited.ms);
      return await fn({
        query: async (config, patient) => {
          if (config.name === undefined)
            return this.#ask(client, () => client.query(config), answerMs, patient === true);
          const [result] = await this.#ask(client, () => this.#batch(client, [config]), answerMs, patient === true);
          return result as pg.QueryResult;
        },
        queries: (configs, patient) =>
          this.#ask(client, () => this.#batch(client, configs), answerMs, patient === true),
        copyIn: (text, parts) => this.#ask(client, () => copyInto(client, text, parts), answerMs, true),
      });
    } catch (error) {
      // It was rolled back; where nobody knows, polling finds what there is.
      tells = [];
      if (error instanceof NoAnswer) waited.inVain(lane.answerMs);
      if (!this.#options.isFit(error)) broken ??= error instanceof Error ? error : new Error('unfit');
      throw error;
    } finally {
      client.off('error', onError);
      client.off('notice', onNotice);
      client.release(broken);
      this.#leave(lane, owner);
      if (tells.length > 0) this.#options.onTells?.(tells);
    }
  }

  async #batch(client: pg.PoolClient, configs: readonly pg.QueryConfig[]): Promise<pg.QueryResult[]> {
    const { types, query_timeout: answerMs } = this.#options.config;
    const batch = new Batch(configs, types, answerMs);
    client.query(batch as unknown as pg.Submittable);
    try {
      return await batch.done;
    } catch (error) {
      // The stack of the parser of answers tells nobody where the statement came from.
      if (error instanceof Error) Error.captureStackTrace(error);
      throw error;
    }
  }

  /** A place at the gate, and a connection. */
  async #connected(lane: Lane, owner: string, waitMs: number): Promise<pg.PoolClient> {
    const until = performance.now() + waitMs;
    const leftMs = (): number => Math.max(leastMs, until - performance.now());
    await this.#enter(lane, owner, leftMs());
    return this.#connect(leftMs()).catch((error: unknown) => {
      this.#leave(lane, owner);
      throw error;
    });
  }

  /** Resolves with a place at the gate. */
  #enter(lane: Lane, owner: string, waitMs: number): Promise<void> {
    if (this.#refusals.isAbandoned) return Promise.reject(new Abandoned());
    if (this.#active < this.#open && this.#mayHave(lane, owner)) {
      this.#take(lane, owner);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const refuse = (error: NoAnswer): void => {
        end();
        if (this.#waiting.remove(waiting)) this.#left(lane);
        reject(error);
      };
      const timer = setTimeout(() => refuse(new NoAnswer('every connection is taken')), waitMs);
      const end = (): void => {
        clearTimeout(timer);
        leave();
      };
      const enter = (): void => {
        end();
        this.#take(lane, owner);
        resolve();
      };
      const waiting = { lane, owner, enter };
      this.#waiting.add(waiting);
      const leave = this.#refusals.add(refuse);
      if (lane.isPatient !== true) this.#hurried += 1;
      if (this.#mayHave(lane, owner)) this.#growSoon(lane);
    });
  }

  /** One of a lane waits no more. */
  #left(lane: Lane): void {
    if (lane.isPatient !== true) this.#hurried -= 1;
    // Who comes next waits its own time before another connection is opened.
    if (this.#waiting.size > 0) return;
    clearTimeout(this.#growing);
    this.#growing = undefined;
  }

  readonly #mayHave = (lane: Lane, owner: string): boolean =>
    (this.#busy.get(lane) ?? 0) < lane.max &&
    (lane.ownerMax === undefined || owner === '' || (this.#busyOf.get(owner) ?? 0) < lane.ownerMax);

  #take(lane: Lane, owner: string): void {
    this.#active += 1;
    if (lane.isPatient !== true) this.#demand.change(1, performance.now());
    this.#busy.set(lane, (this.#busy.get(lane) ?? 0) + 1);
    if (lane.ownerMax !== undefined && owner !== '') this.#busyOf.set(owner, (this.#busyOf.get(owner) ?? 0) + 1);
  }

  #leave(lane: Lane, owner: string): void {
    this.#active -= 1;
    if (lane.isPatient !== true) this.#demand.change(-1, performance.now());
    this.#busy.set(lane, (this.#busy.get(lane) ?? 1) - 1);
    if (lane.ownerMax !== undefined && owner !== '') {
      const left = (this.#busyOf.get(owner) ?? 1) - 1;
      if (left > 0) this.#busyOf.set(owner, left);
      else this.#busyOf.delete(owner);
    }
    this.#admit();
  }

  /** Lets in who may, in turn. */
  #admit(): void {
    for (;;) {
      const next = this.#waiting.first(this.#mayHave);
      if (next === undefined) return;
      if (this.#active >= this.#open) return this.#growSoon(next.lane);
      this.#waiting.take(next);
      this.#left(next.lane);
      next.enter();
    }
  }

  #growSoon(lane: Lane): void {
    if (this.#active < this.#open || this.#open >= this.#options.max) return;
    const growMs = lane.growMs[this.#open === 1 ? 'one' : 'more'];
    if (this.#growing !== undefined && this.#growsMs <= growMs) return;
    clearTimeout(this.#growing);
    this.#growsMs = growMs;
    this.#growing = setTimeout(() => this.#grow(), growMs);
  }

  #grow(): void {
    this.#growing = undefined;
    if (this.#active >= this.#open && this.#open < this.#options.max) this.#open += 1;
    this.#admit();
  }

  /** Connections that were hardly wanted at once for a while are let go of; the idle ones close by themselves. */
  #shrink(): void {
    this.#open = Math.min(this.#open, this.#demand.worthKeeping(performance.now()));
  }

  async #connect(leftMs: number): Promise<pg.PoolClient> {
    const connecting = this.#pool.connect();
    try {
      const connected = await this.#refusals.within(connecting, leftMs);
      if (connected === undefined) throw new NoAnswer(`${Math.round(leftMs)} ms`);
      this.#answeredAt = performance.now();
      return connected.value;
    } catch (error) {
      // It may still come, when nobody waits for it any more: then it goes back to the pool.
      connecting.then(
        (late) => late.release(),
        () => undefined,
      );
      throw error instanceof NoAnswer ? error : new NoConnection(error);
    }
  }

  /** `isPatient`: what is known to take its time is waited for as long as the server answers anybody at all. */
  async #ask<R>(client: pg.PoolClient, ask: () => Promise<R>, answerMs: number, isPatient: boolean): Promise<R> {
    const asked = performance.now();
    const answering = ask();
    try {
      for (;;) {
        const since = isPatient ? Math.max(asked, this.#answeredAt) : asked;
        const leftMs = since + answerMs - performance.now();
        if (leftMs <= 0) throw new NoAnswer(`${Math.round(answerMs)} ms`);
        const result = await this.#refusals.within(answering, isPatient ? Math.min(leftMs, quietMs) : leftMs);
        if (result !== undefined) {
          this.#answeredAt = performance.now();
          return result.value;
        }
        if (isPatient) this.#probe();
      }
    } catch (error) {
      if (error instanceof NoAnswer) {
        answering.catch(() => undefined);
        if (!this.#refusals.isAbandoned) this.#giveUp(client);
      }
      throw error;
    }
  }

  /** Learns whether the server answers anybody, where nobody has heard for a while. */
  #probe(): void {
    const { probe } = this.#options;
    if (probe === undefined || this.#probing || performance.now() - this.#answeredAt < quietMs) return;
    this.#probing = true;
    probe()
      .then(
        () => (this.#answeredAt = performance.now()),
        // Silence is what was asked about; whoever waits gives up by itself.
        () => undefined,
      )
      .finally(() => (this.#probing = false));
  }

  #giveUp(client: pg.PoolClient): void {
    const backend = (client as { processID?: unknown }).processID;
    if (typeof backend === 'number') this.#options.cancel?.(backend);
  }
}

function copyInto(client: pg.PoolClient, text: string, parts: Iterable<Uint8Array>): Promise<void> {
  const copy = new CopyIn(text, parts);
  client.query(copy as unknown as pg.Submittable);
  return copy.done;
}
