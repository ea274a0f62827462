// Where a sandbox's files lie on the host, and which directory of the host a path inside it is.
// A path is only followed through directories that are no links, since a session may have put links anywhere.

import { lstat, mkdir, readdir, readFile, realpath, rename, writeFile, chmod } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path/posix';
import { sha256 } from '../../base/hash.ts';
import { MachineLack } from '../../base/machine-lack.ts';
import { Fault } from '../../domain/fault.ts';
import { removeTree } from '../../base/remove-tree.ts';
import type { SandboxSpec } from './types.ts';

/** What paths inside are called in declarations, whatever a provider calls them. */
export const declaredHome = '/home/user';
export const declaredWork = '/workspace';

/** Where a fenced sandbox shows the run directory. */
export const fencedRun = '/run/svc/sockets';

const idPattern = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;
/** Of the kernel, less the terminating zero: Linux takes four more than the others. */
const socketPathBytesMax = process.platform === 'linux' ? 107 : 103;

/** As of a device that has gone: whoever lost it gets it back, or makes it. */
const lost = (directory: string): Error =>
  new MachineLack(
    'ENODEV',
    'the daemon’s data directory is not there any more: has its disk gone?',
    new Error(`${directory} is not there`),
  );

export interface PlacedMount {
  /** Normalized. */
  readonly mountPath: string;
  /** The directory in which its tree lies on the host. */
  readonly hostPath: string;
  /** True where it lies in no other directory of the sandbox, and has to be put at its path. */
  readonly isBound: boolean;
  /** Empty, as `commit`, for a directory that is no clone. */
  readonly url: string;
  readonly ref: string | null;
  readonly commit: string;
}

/** What is kept of a sandbox beside its files. Holds no secret. */
export interface SandboxRecord {
  readonly version: 1;
  readonly spec: SandboxSpec;
  readonly mounts: readonly PlacedMount[];
  /** The label of its box and volume; absent in what an earlier version has left, whose label is of the data directory's path alone. */
  readonly installation?: string;
}

/** The sandboxes of one data directory. */
export class Layout {
  readonly root: string;
  /** Tells this data directory's processes from those of another. */
  readonly tag: string;

  private constructor(root: string) {
    this.root = root;
    this.tag = sha256(root).slice(0, 16);
  }

  static async open(dataDir: string): Promise<Layout> {
    const root = join(dataDir, 'sandboxes');
    await mkdir(root, { recursive: true, mode: 0o700 });
    await chmod(root, 0o700);
    return new Layout(await realpath(root));
  }

  at(id: string): SandboxFiles {
    if (!idPattern.test(id))
      throw new Fault('invalid', 'sandbox-id', `A sandbox cannot be called ${JSON.stringify(id)}`);
    return new SandboxFiles(join(this.root, id));
  }

  async ids(): Promise<string[]> {
    const entries = await readdir(this.root, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory() && idPattern.test(entry.name)).map((entry) => entry.name);
  }
}

/** The directories of one sandbox. */
export class SandboxFiles {
  readonly dir: string;
  readonly home: string;
  readonly work: string;
  readonly run: string;
  readonly tmp: string;
  readonly mounts: string;
  readonly stage: string;
  /** Certificates, in the run directory. */
  readonly trust: { readonly ca: string; readonly all: string };

  constructor(dir: string) {
    this.dir = dir;
    this.home = join(dir, 'home');
    this.work = join(dir, 'work');
    this.run = join(dir, 'run');
    this.tmp = join(dir, 'tmp');
    this.mounts = join(dir, 'mounts');
    this.stage = join(dir, 'stage');
    this.trust = { ca: join(this.run, 'ca.pem'), all: join(this.run, 'trust.pem') };
  }

  async make(): Promise<void> {
    await this.remove();
    for (const path of [this.dir, this.home, this.work, this.run, this.tmp, this.mounts, this.stage]) {
      await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'ENOENT' ? lost(dirname(path)) : error;
      });
    }
  }

  async read(): Promise<SandboxRecord | null> {
    let text: string;
    try {
      text = await readFile(join(this.dir, 'sandbox.json'), 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
    return JSON.parse(text) as SandboxRecord;
  }

  /** Replaced as a whole, so that a crash leaves the old record or the new one. */
  async write(record: SandboxRecord): Promise<void> {
    const next = join(this.dir, 'sandbox.json.next');
    await writeFile(next, JSON.stringify(record), { mode: 0o600 });
    await rename(next, join(this.dir, 'sandbox.json'));
  }

  async remove(): Promise<void> {
    await removeTree(this.dir);
  }

  /** The path of a channel's socket. Throws Fault `unprocessable` where the kernel takes no path of that length. */
  socket(channel: string): string {
    const path = join(this.run, `${channel}.sock`);
    if (Buffer.byteLength(path) <= socketPathBytesMax) return path;
    throw new Fault(
      'unprocessable',
      'sandbox-path',
      `The data directory's path is too long for sockets (${path}): a fenced sandbox needs a shorter SVC_DATA_DIR`,
    );
  }
}

const within = (path: string, parent: string): boolean => path === parent || path.startsWith(`${parent}/`);

/** The part of `path` below `parent`, without a leading slash; undefined when it is not in it. */
export function relativeTo(path: string, parent: string): string | undefined {
  return within(path, parent) ? path.slice(parent.length + 1) : undefined;
}

/** An absolute path without `.`, `..`, doubled or trailing slashes. Throws Fault `unprocessable` for any other. */
export function declaredPath(path: string, what: string): string {
  const plain = normalize(path).replace(/(?<=.)\/$/, '');
  if (!path.startsWith('/') || path.includes('\0') || path.split('/').includes('..')) {
    throw new Fault(
      'unprocessable',
      'sandbox-path',
      `${what} ${JSON.stringify(path)} is not an absolute path without ..`,
    );
  }
  return plain;
}

/** Of one name in a path, as file systems have it. */
const stepBytesMax = 255;
/** Paths that belong to the sandbox itself. */
const reserved = ['/', '/home', '/tmp', '/run', '/dev', '/proc', '/sys', '/etc', '/usr', '/bin', '/sbin', '/nix'];
const reservedBelow = /^\/(run|dev|proc|sys|etc|usr|bin|sbin|lib\w*|nix)(\/|$)/;

/** True for a normalized path that is, or is in, a directory of the sandbox itself. */
export const isSystemPath = (path: string): boolean => reserved.includes(path) || reservedBelow.test(path);

/** As `declaredPath`, for a path at which something is to be put. Throws Fault `unprocessable` for one of the system's. */
export function freePath(declared: string, what: string): string {
  const path = declaredPath(declared, `${what} path`);
  if (path.split('/').some((step) => Buffer.byteLength(step) > stepBytesMax))
    throw new Fault('unprocessable', 'mount-path', `${what} ${path.slice(0, 80)}…: a name in the path is too long`);
  if (!isSystemPath(path)) return path;
  throw new Fault('unprocessable', 'mount-path', `${what} ${path}: the path belongs to the sandbox itself`);
}

/**
 * Makes the directories of `relative` below `base` and gives the full path. Throws Fault `unprocessable` where something
 * on the way is a link or no directory. `base` itself is ours and trusted.
 */
export async function makeDirectories(base: string, relative: string, declared: string): Promise<string> {
  let path = base;
  for (const step of relative.split('/').filter((part) => part !== '')) {
    path = join(path, step);
    await mkdir(path, { mode: 0o755 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    if (!(await lstat(path)).isDirectory()) {
      throw new Fault(
        'unprocessable',
        'sandbox-path',
        `${declared} cannot be used: ${step} is no plain directory there`,
      );
    }
  }
  return path;
}

/** The mount that a path lies in: the deepest one. */
export function mountOf(path: string, mounts: readonly PlacedMount[]): PlacedMount | undefined {
  return mounts
    .filter(({ mountPath }) => relativeTo(path, mountPath) !== undefined)
    .sort((a, b) => b.mountPath.length - a.mountPath.length)[0];
}

/** The directory of ours, and the path below it, that a path inside is on the host; null where it is in none of them. */
export function placeOf(
  path: string,
  files: SandboxFiles,
  mounts: readonly PlacedMount[],
): { readonly base: string; readonly relative: string } | null {
  const places = [
    [declaredHome, files.home],
    [declaredWork, files.work],
    ['/tmp', files.tmp],
    ...mounts.map(({ mountPath, hostPath }) => [mountPath, hostPath] as const),
  ] as const;
  const [deepest] = places
    .filter(([declared]) => relativeTo(path, declared) !== undefined)
    .toSorted((a, b) => b[0].length - a[0].length);
  return deepest === undefined ? null : { base: deepest[1], relative: relativeTo(path, deepest[0]) ?? '' };
}
