// For tests of work that ends the process: daemons that are started on one database again and again, and what has become
// of the work by then. Only tests import this.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Api,
  apiClient,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { assertReadySoon } from '../../base/testkit/ready.ts';

type Env = { readonly [name: string]: string };

export interface Running {
  readonly url: string;
  readonly api: Api;
}

export class ParkingBench {
  readonly database: TestDatabase;
  readonly dataDir: string;
  /** What daemons are started with besides. */
  env: Env;
  #daemon: SpawnedDaemon | undefined;
  /** What the daemon before that has logged. */
  lastWords = '';
  /** What the first start took on this machine, with nothing to take up again. */
  #firstMs: number | undefined;
  readonly #removeData: () => Promise<void>;

  private constructor(database: TestDatabase, data: Awaited<ReturnType<typeof tempDataDir>>, env: Env) {
    [this.database, this.dataDir, this.#removeData, this.env] = [database, data.path, data.remove, env];
  }

  static async create(env: Env = {}): Promise<ParkingBench> {
    const [database, data] = [await createTestDatabase(), await tempDataDir({ empty: true })];
    await writeFile(join(data.path, 'keys'), `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    return new ParkingBench(database, data, env);
  }

  /** Starts a daemon after the end of the one before; undefined where it ends before it is ready. One that was ready was so soon. */
  async start(failpoint?: string): Promise<Running | undefined> {
    await this.#daemon?.kill('SIGTERM');
    this.lastWords = this.log();
    const since = performance.now();
    const one = spawnDaemon({
      dataDir: this.dataDir,
      env: {
        SVC_DATABASE_URL: this.database.url,
        SVC_MASTER_KEY_FILE: join(this.dataDir, 'keys'),
        SVC_ROLES: 'api,route,sync,schedule',
        ...(failpoint !== undefined && { SVC_FAILPOINT: failpoint }),
        ...this.env,
      },
    });
    this.#daemon = one;
    const url = await one.ready.then(
      (told) => told.url,
      () => undefined,
    );
    if (url === undefined) return undefined;
    const tookMs = performance.now() - since;
    this.#firstMs ??= tookMs;
    await assertReadySoon(tookMs, this.#firstMs);
    return this.#running(url);
  }

  #running(url: string): Running {
    return { url, api: apiClient(url, readClientFile(this.dataDir).token) };
  }

  /** The daemon that was started last. */
  async running(): Promise<Running> {
    return this.#running((await this.#daemon?.ready)?.url ?? '');
  }

  /** Waits for the daemon's end, or for what is to come about; true where it came about. */
  async reaches(isThere: () => Promise<boolean>): Promise<boolean> {
    const ended = this.#daemon?.exited.then(() => 'ended' as const);
    for (let waited = 0; waited < 90_000; waited += 100) {
      if ((await Promise.race([ended, sleep(100)])) === 'ended') return false;
      if (await isThere()) return true;
    }
    throw new Error(`neither an end nor what was waited for: ${this.log().slice(-2_000)}`);
  }

  /** Starts daemons until what is to come about does; answers with how many aborted. Points are divided by commas. */
  async abortsUntil(
    failpoint: string | undefined,
    isThere: () => Promise<boolean>,
    first?: (at: Running) => Promise<void>,
  ): Promise<number> {
    const points = failpoint?.split(',').length ?? 1;
    // At a fourth end of its own one has not been parked.
    for (let aborts = 0; aborts <= 3 * points; aborts += 1) {
      const running = await this.start(failpoint);
      if (aborts === 0 && running !== undefined) await first?.(running);
      if (await this.reaches(isThere)) return aborts;
      assert.equal((await this.#daemon?.exited)?.signal, 'SIGABRT', this.log().slice(-2_000));
    }
    throw new Error('it aborts again and again');
  }

  async value<T>(text: string, values: readonly unknown[] = []): Promise<T | undefined> {
    const { rows } = await this.database.db.query<{ value: T }>(text, values);
    return rows[0]?.value;
  }

  /** `failed ended-the-process` of an event that is parked. */
  statusOf(id: string): Promise<string | undefined> {
    return this.value<string>(
      `select router_status || ' ' || coalesce(reason, '') as value from svc.events where id = $1::uuid`,
      [id],
    );
  }

  /** How many things that a person tries again, or nobody, are suspected: tellings and successors that are parked are remembered for a while. */
  async suspects(): Promise<number | undefined> {
    return this.value<number>(
      `select count(*)::int as value from svc.suspects
        where kind in ('event', 'sync', 'tick', 'session') and id not like 'successor:%'`,
    );
  }

  /** The checks of the doctor. */
  async doctor(): Promise<{ name: string; message: string; hint: string }[]> {
    const { api } = await this.running();
    return (await api('GET', 'P/doctor')).body['checks'] as unknown as {
      name: string;
      message: string;
      hint: string;
    }[];
  }

  /** What it says of parked work: how each is tried again. */
  async parkedBy(): Promise<string[]> {
    return (await this.doctor()).filter((one) => one.name === 'parked').map((one) => one.hint);
  }

  /** Stops the daemon that was started last, in order. */
  async stop(): Promise<void> {
    await this.#daemon?.kill('SIGTERM');
  }

  /** What the daemon that was started last has logged. */
  log(): string {
    return this.#daemon?.stderr() ?? '';
  }

  async remove(): Promise<void> {
    await this.#daemon?.kill('SIGTERM');
    await this.database.close();
    await this.#removeData();
  }
}
