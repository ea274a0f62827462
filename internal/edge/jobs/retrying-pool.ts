// A pool for the job runner that outlives the database. The runner does not wait for the statement that completes a
// job: when its connection broke, the error would go unhandled and the job would stay locked as long as the daemon
// lives. Its statements may all be repeated, so a lost connection is presented to it as what it repeats by itself.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isConnectionLoss } from '../../adapters/store/store.ts';

/** The runner repeats a statement that failed with this code, up to 100 times, with delays of 50 ms to 5 s. */
const repeated = '40001';
const connectMs = { first: 50, most: 2_000 };

function asRepeated(error: unknown): unknown {
  return isConnectionLoss(error)
    ? Object.assign(new Error('the connection was lost', { cause: error }), { code: repeated })
    : error;
}

export class RetryingPool extends pg.Pool {
  readonly #signal: AbortSignal;
  readonly #listener: pg.PoolClient;
  readonly #seen = new Set<pg.PoolClient>();

  /**
   * Until `signal` aborts, `connect()` waits for the database as long as it takes. `listener` is what the runner listens
   * with: it takes none of the connections.
   */
  constructor(config: pg.PoolConfig, signal: AbortSignal, listener: pg.PoolClient) {
    super(config);
    this.#signal = signal;
    this.#listener = listener;
    this.on('remove', (client) => this.#seen.delete(client));
  }

  /** Breaks off what the database has not answered. */
  breakOff(): void {
    for (const client of this.#seen) void client.end().catch(() => undefined); // It is not waited for.
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Parameters<pg.Pool['connect']>[0]): void;
  override connect(callback?: Parameters<pg.Pool['connect']>[0]): Promise<pg.PoolClient> | void {
    // Only the runner's listener uses a callback.
    if (callback !== undefined) return callback(undefined, this.#listener, () => undefined);
    return this.#steadily();
  }

  /** A pool's own would come to its connection as the listener does. */
  override query = ((text: string | pg.QueryConfig, values?: unknown[]) =>
    this.connect().then(async (client) => {
      try {
        return await client.query(text as string, values);
      } finally {
        client.release();
      }
    })) as pg.Pool['query'];

  async #steadily(): Promise<pg.PoolClient> {
    for (let delayMs = connectMs.first; ; delayMs = Math.min(delayMs * 2, connectMs.most)) {
      try {
        return this.#soften(await super.connect());
      } catch (error) {
        // Whatever keeps a connection from being made, a person may mend: a password, a right, a name.
        if (this.#signal.aborted) throw error;
        await sleep(delayMs, undefined, { signal: this.#signal }).catch(() => undefined);
      }
    }
  }

  #soften(client: pg.PoolClient): pg.PoolClient {
    if (this.#seen.has(client)) return client;
    this.#seen.add(client);
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    const softened = (...args: unknown[]): unknown => {
      const result = query(...args);
      if (!(result instanceof Promise)) return result;
      return result.catch((error: unknown) => {
        // One that says nothing any more must not go back to the others.
        if (isConnectionLoss(error)) void client.end().catch(() => undefined);
        throw this.#signal.aborted ? error : asRepeated(error);
      });
    };
    client.query = softened as typeof client.query;
    return client;
  }
}
