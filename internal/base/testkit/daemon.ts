// A daemon for a test: in this process on a copy of the template database (fast, the default), or a real child process
// on its own data directory (for signals and kills). Both speak over the real HTTP port.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { type Daemon, startDaemon } from '../../../cmd/svcd/daemon.ts';
import { type Config, loadConfig } from '../config/config.ts';
import type { Runtime } from '../runtime.ts';
import { createTestDatabase, dataDirVariable, silent, type TestDatabase } from './postgres.ts';

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; the text where the answer is none; undefined without a body. */
  readonly body: JsonBody;
}
/** What a test reads out of an answer: any property of any depth, checked by the test's own assertions. */
export interface JsonBody {
  readonly [key: string]: JsonBody;
  readonly [index: number]: JsonBody;
}

export interface ApiOptions {
  /** Instead of the administrator's; null for none. */
  readonly token?: string | null;
  readonly headers?: { readonly [name: string]: string };
}

/** `api('POST', '/api/v1/orgs', {…})`; a path that starts with `P/` is below the default project. */
export type Api = (method: string, path: string, body?: unknown, options?: ApiOptions) => Promise<ApiAnswer>;

export interface TestDaemon {
  readonly url: string;
  readonly token: string;
  readonly dataDir: string;
  readonly ctx: Daemon['ctx'];
  readonly database: TestDatabase;
  readonly api: Api;
  stop(): Promise<void>;
}

export interface TestDaemonOptions {
  readonly config?: Partial<Config>;
  readonly runtime?: Partial<Runtime>;
  /** The machine's clock, in milliseconds, where it is off. */
  readonly machineMs?: () => number;
  readonly log?: Logger;
  /** Shared with another daemon; then this one neither creates nor drops it. */
  readonly database?: TestDatabase;
  /** Kept afterwards when given. */
  readonly dataDir?: string;
  /** On the embedded server of its own data directory, as durable as in earnest, instead of a template's copy. */
  readonly embedded?: boolean;
  /** For a second daemon on a database that has its first rows: no token is written there. */
  readonly token?: string;
}

const baseConfig = loadConfig({ env: { HOME: tmpdir() }, argv: [] });

/** An in-process daemon on port 0 of 127.0.0.1 with a database of its own. */
export async function startTestDaemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
  const dataDir = options.dataDir ?? (await tempDataDir({ empty: options.embedded !== true })).path;
  const database = options.database ?? (await createTestDatabase());
  const masterKeyFile = join(dataDir, 'master.key');
  await writeFile(masterKeyFile, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flag: 'a' });
  const config: Config = {
    ...baseConfig,
    // Of the sessions of most tests nobody keeps the work.
    file: { sandboxes: { snapshots: { maxMB: 0 } } },
    dataDir,
    ...(options.embedded !== true && { databaseUrl: database.url }),
    masterKeyFile,
    listen: { host: '127.0.0.1', port: 0 },
    logLevel: 'silent',
    ...options.config,
  };
  const clean = async (): Promise<void> => {
    if (options.database === undefined) await database.close();
    if (options.dataDir === undefined)
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  };
  try {
    const daemon = await startDaemon({
      config,
      log: options.log ?? silent,
      test: options.embedded !== true,
      ...(options.runtime && { runtime: options.runtime }),
      ...(options.machineMs && { machineMs: options.machineMs }),
    });
    const token = options.token ?? readClientFile(dataDir).token;
    return {
      url: daemon.url,
      token,
      dataDir,
      ctx: daemon.ctx,
      database,
      api: apiClient(daemon.url, token),
      async stop() {
        await daemon.stop();
        await clean();
      },
    };
  } catch (error) {
    await clean();
    throw error;
  }
}

/**
 * A tiny client over fetch. Where the project has been somebody else's for two seconds, as on a slow machine with many calls
 * at once, it asks again, as any client has to: nothing was changed.
 */
export function apiClient(url: string, token: string): Api {
  const ask = asking(url, token);
  return async (...of) => {
    for (let tries = 0; ; tries += 1) {
      const answer = await ask(...of);
      const isBusy = answer.status === 503 && (answer.body as JsonBody | undefined)?.['code'] === ('busy' as never);
      if (!isBusy || tries === busyMax) return answer;
      await sleep(Number(answer.headers.get('retry-after')) * 1_000);
    }
  };
}
const busyMax = 10;

function asking(url: string, token: string): Api {
  return async (method, path, body, options = {}) => {
    const bearer = options.token === undefined ? token : options.token;
    const target = path.replace(/^P(?=\/|$)/, '/api/v1/orgs/default/projects/default');
    const init: RequestInit = {
      method,
      redirect: 'manual',
      headers: {
        ...(bearer !== null && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    };
    const send = (): Promise<Response> => fetch(`${url}${target}`, init);
    // A kept connection may be closed as idle while it is taken for the next call, after a test was busy for long.
    const response = await (method === 'GET' ? send().catch((error) => againAfterReset(error, send)) : send());
    const text = await response.text();
    const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
    const parsed: unknown = text === '' ? undefined : isJson ? JSON.parse(text) : text;
    return { status: response.status, headers: response.headers, body: parsed as JsonBody };
  };
}

function againAfterReset(error: unknown, send: () => Promise<Response>): Promise<Response> {
  const code = ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
  if (code !== 'UND_ERR_SOCKET' && code !== 'ECONNRESET' && code !== 'EPIPE') throw error;
  return send();
}

/** client.json of a data directory. */
export function readClientFile(dataDir: string): { url: string; token: string; org: string; project: string } {
  return JSON.parse(readFileSync(join(dataDir, 'client.json'), 'utf8'));
}

export interface SpawnedDaemon {
  readonly process: ChildProcess;
  readonly dataDir: string;
  /** From the ready line. Rejects when the process ends first; the message holds its stderr. */
  readonly ready: Promise<{ event: string; url: string; pid: number; dataDir: string }>;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  stdout(): string;
  stderr(): string;
  /** Sends the signal and waits for the end. */
  kill(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export interface SpawnOptions {
  readonly dataDir: string;
  readonly args?: readonly string[];
  readonly env?: { readonly [name: string]: string };
  /** The program of another tree than this one's. */
  readonly entry?: string;
}

const entry = fileURLToPath(new URL('../../../cmd/svcd/main.mjs', import.meta.url));

/** `svcd` as a child process, listening on port 0. The embedded database unless `args` or `env` name another. */
export function spawnDaemon(options: SpawnOptions): SpawnedDaemon {
  const child = spawn(
    process.execPath,
    [options.entry ?? entry, '--data-dir', options.dataDir, ...(options.args ?? [])],
    {
      env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), SVC_LISTEN: '127.0.0.1:0', ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let stdout = '';
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  const ready = new Promise<{ event: string; url: string; pid: number; dataDir: string }>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
      // The last part is no line yet.
      const line = stdout
        .split('\n')
        .slice(0, -1)
        .find((text) => text.includes('"ready"'));
      if (line !== undefined) resolve(JSON.parse(line));
    });
    child.on('error', reject);
    exited.then(({ code, signal }) => reject(new Error(`svcd ended with ${code ?? signal}: ${stderr}`)), reject);
  });
  // A test that never looks at it must not fail for it.
  ready.catch(() => undefined);
  return {
    process: child,
    dataDir: options.dataDir,
    ready,
    exited,
    stdout: () => stdout,
    stderr: () => stderr,
    async kill(signal) {
      child.kill(signal);
      return exited;
    },
  };
}

/** Process of the embedded server of a data directory, if one runs. */
export async function embeddedPid(dataDir: string): Promise<number | undefined> {
  const text = await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number(text.split('\n')[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  try {
    process.kill(pid, 0);
    return pid;
  } catch {
    return undefined;
  }
}

/** Makes a data directory at `path` whose embedded server is a copy of the run's prepared one; none where a run has none. */
export async function copyPrepared(path: string): Promise<void> {
  const prepared = process.env[dataDirVariable];
  if (prepared === undefined) return;
  await mkdir(path, { recursive: true, mode: 0o700 });
  // With its owners, which the server's user is among.
  await promisify(execFile)('cp', ['-a', `${prepared}/.`, path]);
}

/**
 * A data directory for spawned daemons; `remove` stops a server that a killed one has left. Its embedded server is a copy
 * of the run's prepared one, which has the migrations and no rows (initialising takes longer than most tests); `empty`
 * leaves that to the daemon.
 */
export async function tempDataDir(
  options: { empty?: boolean } = {},
): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'svc-data-'));
  if (options.empty !== true) await copyPrepared(path);
  return {
    path,
    async remove() {
      const pid = await embeddedPid(path);
      if (pid !== undefined) {
        process.kill(pid, 'SIGQUIT');
        for (let tries = 0; tries < 3_000 && (await embeddedPid(path)) !== undefined; tries += 1) await sleep(10);
      }
      await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
}
