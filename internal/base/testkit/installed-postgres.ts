// PostgreSQL's client programs of this machine, and a server that they can dump. The embedded server comes without
// pg_dump, and a pg_dump reads no server that is newer than itself: where the machine's is older than the embedded
// server, it gets a server of its own release, if the machine has that.

import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { findAccount, launchAs } from '../../adapters/postgres/server-programs.ts';
import { testCluster } from './postgres.ts';

const run = promisify(execFile);
/** What the service runs on. */
const oldestMajor = 15;

export interface DumpTools {
  readonly major: number;
  readonly pgDump: string;
  readonly pgRestore: string;
  /** Its initdb and postgres, where they are beside it. */
  readonly server: { readonly initdb: string; readonly postgres: string } | undefined;
}

/** The newest pg_dump and pg_restore in PATH or where distributions put them; those with a server first. */
async function findTools(): Promise<readonly DumpTools[]> {
  const homes = (await readdir('/usr/lib/postgresql').catch(() => [])).map((name) => `/usr/lib/postgresql/${name}/bin`);
  const found: DumpTools[] = [];
  for (const bin of [...homes, ...(process.env['PATH'] ?? '').split(delimiter)]) {
    const pgDump = join(bin, 'pg_dump');
    const pgRestore = join(bin, 'pg_restore');
    if (!(await isThere(pgDump, pgRestore))) continue;
    // A distribution's wrapper may be there without the programs that it leads to.
    const { stdout } = await run(pgDump, ['--version']).catch(() => ({ stdout: '' }));
    const major = Number(/\b(\d+)/.exec(stdout)?.[1]);
    const [initdb, postgres] = [join(bin, 'initdb'), join(bin, 'postgres')];
    const server = (await isThere(initdb, postgres)) ? { initdb, postgres } : undefined;
    if (major >= oldestMajor) found.push({ major, pgDump, pgRestore, server });
  }
  return found.sort((a, b) => b.major - a.major || Number(b.server !== undefined) - Number(a.server !== undefined));
}

const isThere = async (...paths: readonly string[]): Promise<boolean> => {
  const seen = await Promise.all(
    paths.map((path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    ),
  );
  return seen.every(Boolean);
};

export interface Dumpable {
  readonly tools: DumpTools;
  /** The maintenance database, as superuser. */
  readonly adminUrl: string;
  stop(): Promise<void>;
}

/** A server, and the programs that dump and restore it; undefined where the machine has none that fit. */
export async function startDumpable(): Promise<Dumpable | undefined> {
  const all = await findTools();
  const adminUrl = await testCluster();
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  const { rows } = await client.query<{ server_version_num: string }>('show server_version_num');
  await client.end();
  const fits = all.find((tools) => tools.major >= Math.floor(Number(rows[0]?.server_version_num) / 10_000));
  if (fits !== undefined) return { tools: fits, adminUrl, stop: async () => undefined };
  const own = all.find((tools) => tools.server !== undefined);
  return own?.server === undefined ? undefined : { tools: own, ...(await startServer(own.server)) };
}

async function startServer(programs: { readonly initdb: string; readonly postgres: string }) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-installed-'));
  const [cluster, passwordFile, password] = [join(dir, 'data'), join(dir, 'password'), randomBytes(12).toString('hex')];
  await mkdir(cluster, { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  const account = await findAccount();
  for (const path of account === undefined ? [] : [dir, cluster, passwordFile]) {
    await chown(path, account?.uid ?? 0, account?.gid ?? 0);
  }
  const rules = ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-sync'];
  const made = [`--pgdata=${cluster}`, '--username=svc', `--pwfile=${passwordFile}`, ...rules];
  const init = await launchAs(account, programs.initdb, made, [cluster, passwordFile]);
  const env = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' };
  await run(init.program, [...init.args], { ...init.options, cwd: '/', env });
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'unix_socket_directories=', 'fsync=off'];
  const args = ['-D', cluster, ...settings.flatMap((setting) => ['-c', setting])];
  const launch = await launchAs(account, programs.postgres, args, [cluster]);
  const child = spawn(launch.program, launch.args, { ...launch.options, cwd: '/', env, stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const isReady = async (): Promise<boolean> =>
    /^ready/m.test(await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => ''));
  while (!(await isReady())) {
    if (child.exitCode !== null) throw new Error('the installed PostgreSQL does not start');
    await sleep(20);
  }
  return {
    adminUrl: `postgres://svc:${password}@127.0.0.1:${port}/postgres`,
    async stop() {
      child.kill('SIGINT');
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A port of 127.0.0.1 that nobody listens on, for what cannot say which one it took. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
