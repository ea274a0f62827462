// The embedded PostgreSQL: real server programs with their files under the data directory (docs/reference/configuration.md#settings).
// Initialises once, starts on a free port of 127.0.0.1 with a generated password, takes over a server that a killed
// daemon left running, and stops cleanly. Never shares a data directory: callers hold its lock (data-lock.ts).

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { hasCluster, whyForeign } from './foreign.ts';
import { keepTrying } from './keep-trying.ts';
import { Fault } from '../../domain/fault.ts';
import { whySaid } from './said.ts';
import { processesIn, processState } from './process-state.ts';
import {
  type Account,
  type Binaries,
  findAccount,
  findBinaries,
  launchAs,
  reachableBinaries,
} from './server-programs.ts';

export interface Embedded {
  readonly url: string;
  /** Process of the server that runs now. */
  pid(): number;
  /** Resolves when the server has ended by itself and could not be started again for five minutes. */
  readonly lost: Promise<void>;
  /** Fast shutdown: connections are cut, everything committed is on disk. Safe twice. */
  stop(): Promise<void>;
}

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** For tests: nothing is forced to disk. */
  readonly volatile?: boolean;
}

const user = 'svc';
const startTimeoutMs = 60_000;
const stopTimeoutMs = 30_000;
/** For how long a server that has died is started again before it counts as lost. */
const restartForMs = 5 * 60_000;

/** Starts, or finds running, the server of this data directory; the database `svc` exists when it resolves. */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const account = await findAccount();
  const binaries = await reachableBinaries(account, await findBinaries(options.dataDir));
  const cluster = join(options.dataDir, 'postgres');
  const password = await ensureCluster(options, binaries, account, cluster);
  const launch = (port?: number): Promise<Running> => start(options, binaries, account, cluster, port);
  let at = await adopt(options, cluster).then((running) => running ?? launch());
  const url = `postgres://${user}:${password}@127.0.0.1:${at.port}/svc`;
  await ensureDatabase(url);
  let stopping: Promise<void> | undefined;
  let restarting = Promise.resolve(true);
  const leaving = new AbortController();
  // A server that dies under us (killed, out of memory) is started again at its address; recovery is its own work. Where it
  // cannot be, as on a disk that is full, that is tried for as long as somebody may need to make room.
  const restart = async (): Promise<boolean> => {
    const onError = (error: unknown): void => options.log.error({ err: error }, 'database.restart_failed');
    const again = await keepTrying(() => launch(at.port), restartForMs, leaving.signal, onError).catch(() => undefined);
    at = again ?? at;
    return again !== undefined;
  };
  const watch = async (): Promise<void> => {
    for (;;) {
      await at.ended;
      if (leaving.signal.aborted) return new Promise<void>(() => undefined);
      options.log.error({ pid: at.pid }, 'database.died');
      restarting = restart();
      if (!(await restarting) && !leaving.signal.aborted) return;
    }
  };
  const end = async (): Promise<void> => {
    leaving.abort();
    // One that is being started again when it is to stop would outlive us.
    if (await restarting) await stop(at.pid, options.log);
  };
  return { url, pid: () => at.pid, lost: watch(), stop: () => (stopping ??= end()) };
}

/** The address of the server that runs in this data directory, whoever started it; undefined where none answers. */
export async function runningEmbedded(dataDir: string): Promise<string | undefined> {
  const running = await findRunning(join(dataDir, 'postgres'));
  if (running === undefined || !(await answers(running.port))) return undefined;
  const password = (await readFile(join(dataDir, 'postgres.password'), 'utf8')).trim();
  return `postgres://${user}:${password}@127.0.0.1:${running.port}/svc`;
}

/** The server that a killed daemon left running, once it answers; undefined when there is none, or it ends meanwhile. */
async function adopt(options: EmbeddedOptions, cluster: string): Promise<Running | undefined> {
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline) {
    const running = await findRunning(cluster);
    if (running === undefined) return undefined;
    if (running.ready && (await answers(running.port))) {
      options.log.warn({ pid: running.pid }, 'database.adopted');
      return { ...running, ended: untilGone(running.pid, Number.POSITIVE_INFINITY, 500) };
    }
    await sleep(50);
  }
  throw new Error(`a server left running under ${cluster} does not answer`);
}

/** Whether something accepts connections at this port. */
async function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, timeout: 1_000 });
    const end = (value: boolean): void => {
      socket.destroy();
      resolve(value);
    };
    socket.on('connect', () => end(true));
    socket.on('error', () => end(false));
    socket.on('timeout', () => end(false));
  });
}

interface Running {
  readonly pid: number;
  readonly port: number;
  readonly ready: boolean;
  /** Resolves when the process is gone, whoever ended it. */
  readonly ended: Promise<unknown>;
}

/** What somebody has to look after: said in a line, without the place in the code. */
const unusable = (why: string): Fault => new Fault('unavailable', 'embedded-database', `The ${why}`);

/** Initialises the cluster when there is none, and answers with its password. A killed initialisation leaves no cluster. */
async function ensureCluster(
  options: EmbeddedOptions,
  binaries: Binaries,
  account: Account | undefined,
  cluster: string,
): Promise<string> {
  const passwordFile = join(options.dataDir, 'postgres.password');
  if (await hasCluster(cluster)) {
    const why = await whyForeign(cluster, binaries);
    if (why !== undefined) throw unusable(why);
    return (await readFile(passwordFile, 'utf8')).trim();
  }
  const password = randomBytes(24).toString('base64url');
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  // A name of its own: the initialisation of a daemon that was killed may go on for a while, and write into its own.
  const fresh = `${cluster}.new-${randomBytes(4).toString('hex')}`;
  await removeUnfinished(options, `${cluster}.new`);
  await mkdir(fresh, { mode: 0o700 });
  // The server's user may not read the daemon's file, so it gets one of its own inside its own directory's parent.
  const handed = join(options.dataDir, 'postgres.initial');
  await writeFile(handed, `${password}\n`, { mode: 0o600 });
  if (account !== undefined) {
    await chown(fresh, account.uid, account.gid);
    await chown(handed, account.uid, account.gid);
  }
  try {
    const args = [
      `--pgdata=${fresh}`,
      `--username=${user}`,
      `--pwfile=${handed}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--locale=C',
      ...(options.volatile ? ['--no-sync', '--no-data-checksums'] : []),
    ];
    await runInitdb(await launchAs(account, binaries.initdb, args, [fresh, handed]), fresh);
    await rename(fresh, cluster);
  } finally {
    await rm(handed, { force: true });
  }
  return password;
}

/** What killed initialisations left. One that still goes on keeps its files until the next start. */
async function removeUnfinished(options: EmbeddedOptions, prefix: string): Promise<void> {
  for (const name of await readdir(options.dataDir)) {
    const path = join(options.dataDir, name);
    if (!path.startsWith(prefix)) continue;
    await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }).catch((error: unknown) => {
      options.log.debug({ err: error, path }, 'database.unfinished_left');
    });
  }
}

async function runInitdb(launch: Awaited<ReturnType<typeof launchAs>>, cwd: string): Promise<void> {
  const child = spawn(launch.program, launch.args, {
    ...launch.options,
    cwd: '/',
    env: serverEnv(),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-4_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0) throw unusable(`embedded database could not be initialised in ${cwd}: ${whySaid(stderr)}`);
}

async function start(
  options: EmbeddedOptions,
  binaries: Binaries,
  account: Account | undefined,
  cluster: string,
  wanted?: number,
): Promise<Running> {
  const logFile = join(options.dataDir, 'postgres.log');
  for (let attempt = 1; ; attempt += 1) {
    await clearStale(cluster);
    const port = wanted ?? (await freePort());
    const settings = [
      'listen_addresses=127.0.0.1',
      `port=${port}`,
      'unix_socket_directories=',
      'max_connections=200',
      'jit=off',
      // Refused statements are the daemon's to report; here they would only fill the disk.
      'log_min_messages=fatal',
      // Parallel workers need more shared memory than many containers have, and gain nothing on small tables.
      'max_parallel_workers_per_gather=0',
      ...(options.volatile
        ? [
            'wal_level=minimal',
            'max_wal_senders=0',
            'fsync=off',
            'synchronous_commit=off',
            'full_page_writes=off',
            'autovacuum=off',
          ]
        : []),
    ];
    const args = ['-D', cluster, ...settings.flatMap((setting) => ['-c', setting])];
    const launch = await launchAs(account, binaries.postgres, args, [cluster]);
    const output = await open(logFile, 'w', 0o600);
    // A session of its own: an interrupt from the terminal is for the daemon, which then stops the server in order.
    const child = spawn(launch.program, launch.args, {
      ...launch.options,
      cwd: '/',
      env: serverEnv(),
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
    });
    const ended = new Promise<void>((resolve) => {
      child.on('error', () => resolve());
      child.on('exit', () => resolve());
    });
    child.unref();
    await output.close();
    if (child.pid === undefined)
      throw new Error(`the embedded database could not be started: ${launch.program} does not run`);
    try {
      return await untilReady(cluster, child.pid, logFile, ended);
    } catch (error) {
      // The port may have been taken between the choice and the start; processes of a killed server may still end.
      const text = await readFile(logFile, 'utf8').catch(() => '');
      if (
        attempt >= 10 ||
        !/could not create any TCP\/IP sockets|Address already in use|shared memory block/.test(text)
      )
        throw error;
      await sleep(100);
    }
  }
}

/**
 * After a server that did not end in order: waits until none of its processes uses the files any more, then removes its
 * mark, which may name a process that is someone else's by now. What cannot be seen here the server checks itself.
 */
async function clearStale(cluster: string): Promise<void> {
  const stale = await readPidFile(cluster);
  if (stale === undefined) return;
  const deadline = performance.now() + startTimeoutMs;
  while ((await processesIn(cluster)).length > 0) {
    if (performance.now() > deadline) throw new Error(`processes of an earlier server still use ${cluster}`);
    await sleep(20);
  }
  if (isSignallable(stale.pid)) await rm(join(cluster, 'postmaster.pid'), { force: true });
}

async function untilReady(cluster: string, pid: number, logFile: string, ended: Promise<unknown>): Promise<Running> {
  let gone = false;
  const note = (): void => {
    gone = true;
  };
  ended.then(note, note);
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline && !gone) {
    const running = await readPidFile(cluster);
    if (running?.pid === pid && running.ready) return { ...running, ended };
    await sleep(5);
  }
  const why = whySaid(await readFile(logFile, 'utf8').catch(() => ''));
  throw unusable(`embedded database did not start: ${why} (see ${logFile})`);
}

/** postmaster.pid, by line: process, directory, start time, port, socket directory, address, shared memory, status. */
async function readPidFile(cluster: string): Promise<Omit<Running, 'ended'> | undefined> {
  const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, port: Number(lines[3]), ready: lines[7]?.trim() === 'ready' };
}

/** The server of this cluster that still runs, if any: the process named by the file works in this very directory. */
async function findRunning(cluster: string): Promise<Omit<Running, 'ended'> | undefined> {
  const found = await readPidFile(cluster);
  if (found === undefined || !(await processState(found.pid)).alive) return undefined;
  const users = await processesIn(cluster);
  const canSee = (await stat('/proc/self/cwd').catch(() => undefined)) !== undefined;
  return canSee && !users.includes(found.pid) ? undefined : found;
}

async function ensureDatabase(url: string): Promise<void> {
  const probe = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  try {
    await probe.connect();
    return;
  } catch (error) {
    if ((error as { code?: string }).code !== '3D000') throw error;
  } finally {
    await probe.end().catch(() => undefined);
  }
  const admin = new pg.Client({ connectionString: url.replace(/\/svc$/, '/postgres') });
  await admin.connect();
  try {
    await admin.query('create database svc');
  } finally {
    await admin.end();
  }
}

async function stop(pid: number, log: Logger): Promise<void> {
  signal(pid, 'SIGINT');
  if (await untilGone(pid, stopTimeoutMs, 10)) return;
  log.error({ pid }, 'database.stop_timed_out');
  // Immediate shutdown: recovery runs at the next start, nothing committed is lost.
  signal(pid, 'SIGQUIT');
  await untilGone(pid, 5_000, 10);
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function isSignallable(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function untilGone(pid: number, timeoutMs: number, everyMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while ((await processState(pid)).alive) {
    if (performance.now() > deadline) return false;
    await sleep(everyMs, undefined, { ref: timeoutMs !== Number.POSITIVE_INFINITY });
  }
  return true;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

/** The server needs nothing of the daemon's environment, which may hold secrets. */
function serverEnv(): Record<string, string> {
  return { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}
