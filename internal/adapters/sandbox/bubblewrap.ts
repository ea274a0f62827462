// The sandbox of namespaces: own processes, users and files, the machine's programs read-only, nothing else of the host.
// Every setting, and with them the environment, reaches bubblewrap through a descriptor, so that no argument list shows
// it, and none of it is in the environment of bubblewrap itself, which runs outside.

import { execFile } from 'node:child_process';
import { constants, existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { access, mkdir, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path/posix';
import { Fault } from '../../domain/fault.ts';
import { type Launch, runToEnd, startChild } from './child.ts';
import {
  relativeTo,
  declaredHome,
  declaredWork,
  fencedRun,
  type Layout,
  makeDirectories,
  placeOf,
  type SandboxFiles,
  type SandboxRecord,
} from './layout.ts';
import type { Kind } from './local.ts';
import type { ResourceLimiter } from './resources.ts';
import { bundles, bundlesIn, nodeOf, rootBinds } from './rootfs.ts';
import { seccompProgram } from './seccomp.ts';
import type { RootFileSystem } from './types.ts';
import { localInitArgv } from './wire.ts';

export type Bubblewrap =
  | { readonly works: true; readonly file: string; readonly version: string }
  | { readonly works: false; readonly why: string };

const probeMs = 10_000;
const innerPath = `${declaredHome}/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
/** Programs and what they need: a link where the host has one. */
const userlandPaths = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store'];
/** Names, certificates and the linker's settings; not the directories beside them in which machines keep private keys. */
const etcFiles = [
  'alternatives',
  'ca-certificates',
  'ca-certificates.conf',
  'crypto-policies',
  'gai.conf',
  'host.conf',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'mime.types',
  'nsswitch.conf',
  'os-release',
  'pki/ca-trust',
  'pki/tls/cert.pem',
  'pki/tls/certs',
  'pki/tls/openssl.cnf',
  'protocols',
  'services',
  'ssl/cert.pem',
  'ssl/certs',
  'ssl/openssl.cnf',
];
/** Parts of /proc that are the whole machine's: a daemon that is root must not lend its right to write there. */
const procOfHost = ['acpi', 'bus', 'driver', 'fs', 'irq', 'mtrr', 'scsi', 'sys', 'sysrq-trigger', 'timer_list'];

const filter = seccompProgram(process.arch);
const descriptorArgs = ['--args', '3', '--info-fd', '4', ...(filter === undefined ? [] : ['--seccomp', '5'])];
/** The first version that can forbid further namespaces of users. */
const disablesUsernsList: readonly [major: number, minor: number] = [0, 8];
const fenceDir = '/run/svc';

function userland(): string[] {
  const args: string[] = [];
  for (const path of userlandPaths) {
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) args.push('--symlink', readlinkSync(path), path);
    else args.push('--ro-bind', path, path);
  }
  for (const name of etcFiles)
    if (existsSync(`/etc/${name}`)) args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`);
  return args;
}

/** Whether this version takes `--disable-userns`; where it does not, the filter alone refuses what it would. */
export function disablesUserns(version: string): boolean {
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(version) ?? [];
  const [wantedMajor, wantedMinor] = disablesUsernsList;
  return Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor);
}

/** What every sandbox has, over the programs that `shown` puts there. */
function common(version: string, shown: readonly string[]): string[] {
  return [
    ...(disablesUserns(version) ? ['--disable-userns'] : []),
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
    ...['--die-with-parent', '--new-session', '--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'],
    ...shown,
    ...['--proc', '/proc'],
    ...procOfHost.flatMap((name) => ['--ro-bind-try', `/proc/${name}`, `/proc/${name}`]),
    // Beyond the standard devices, memory that programs share among them, nothing there can be written.
    ...['--dev', '/dev', '--tmpfs', '/dev/shm', '--remount-ro', '/dev', '--dir', '/run', '--clearenv'],
  ];
}

/** Whether bubblewrap works here, shown by running it with everything that a fenced sandbox needs. `path` is a PATH. */
export async function probeBubblewrap(path: string): Promise<Bubblewrap> {
  const file = await findProgram('bwrap', path);
  if (file === null) return { works: false, why: 'bubblewrap is not installed (no bwrap in PATH)' };
  const version = await new Promise<string>((resolve) => {
    execFile(file, ['--version'], { timeout: probeMs }, (error, out) => resolve(error === null ? out.trim() : ''));
  });
  const marker = { tag: 'probe', boot: String(process.pid), id: 'probe', spawn: '0' };
  const args = [...common(version, userland()), '--unshare-net', '--tmpfs', '/tmp', '--remount-ro', '/'];
  const launch = { file, args: [...descriptorArgs, '--', 'true'], env: {}, cwd: '/', ...descriptors(args) };
  try {
    const result = await runToEnd(await startChild(launch, marker), { command: [], timeoutMs: probeMs });
    if (result.code === 0) return { works: true, file, version };
    const said = result.timedOut ? `no answer in ${probeMs / 1000} s` : result.output.trim().split('\n').at(-1);
    return { works: false, why: `bubblewrap is installed and cannot make namespaces here: ${said}` };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { works: false, why: `bubblewrap is installed and cannot be started: ${error.message}` };
  }
}

/** The executable of that name in a PATH, or null. */
export async function findProgram(name: string, path: string): Promise<string | null> {
  for (const directory of path.split(':').filter(isAbsolute)) {
    const file = join(directory, name);
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return file;
  }
  return null;
}

/** What goes to bubblewrap through its descriptors. */
const descriptors = (args: readonly string[]): Pick<Launch, 'settings' | 'filter'> => ({
  settings: args.map((arg) => `${arg}\0`).join(''),
  ...(filter !== undefined && { filter: filter }),
});

/** Files that stand in for the host's own in every sandbox of a data directory. */
async function makeEtc(layout: Layout): Promise<string> {
  const dir = join(layout.root, '.etc');
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const files = {
    passwd: `user:x:1000:1000::${declaredHome}:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n`,
    group: 'user:x:1000:\nnogroup:x:65534:\n',
    // Channels are listened for at this address alone.
    hosts: '127.0.0.1 localhost sandbox\n',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text, { mode: 0o644 });
  return dir;
}

/** `privateFiles`: of the daemon, wherever they lie; its data directory is private as a whole. */
export async function bubblewrapKind(
  { file, version }: Pick<Extract<Bubblewrap, { works: true }>, 'file' | 'version'>,
  layout: Layout,
  limiter: ResourceLimiter,
  privateFiles: readonly string[],
): Promise<Kind> {
  const etc = await makeEtc(layout);
  const hidden = [dirname(layout.root), ...privateFiles.filter(existsSync).map((path) => realpathSync(path))];
  return {
    name: 'bubblewrap',
    capabilities: {
      isolation: 'namespace',
      injectionEdge: true,
      snapshot: true,
      resources: limiter.works,
      networkFence: true,
      images: true,
      commit: false,
      warm: false,
      survivesRestart: false,
    },
    dirs: () => ({ home: declaredHome, work: declaredWork, tmp: '/tmp' }),
    diesWithParent: true,
    bindsMounts: true,
    notEnforced: (spec) => (spec.resources === undefined || limiter.works ? [] : ['resources']),
    outOfMemory: async (id) => (await limiter.outOfMemory?.(id)) === true,
    released: async (id) => limiter.release?.(id),
    removed: async (id) => limiter.release?.(id),
    firstProgram: async ({ spec }) =>
      spec.fenced === true ? localInitArgv((await nodeOf(spec.rootfs)) ?? `${fenceDir}/node`) : null,
    launch: async (record, files, { argv, env, cwd }) => {
      const isFenced = record.spec.fenced === true;
      const { rootfs } = record.spec;
      const shown = rootfs === undefined ? userland() : await rootBinds(rootfs.path, placesIn(record));
      const args = [
        ...common(version, shown),
        ...['passwd', 'group', ...(isFenced ? ['hosts'] : [])].flatMap((name) => [
          '--ro-bind',
          join(etc, name),
          `/etc/${name}`,
        ]),
        ...['--bind', files.tmp, '/tmp', '--bind', files.home, declaredHome, '--bind', files.work, declaredWork],
        ...mountBinds(record),
        ...(await readOnlyBinds(record, files)),
        ...covers(record.spec.readOnlyPaths ?? [], hidden, rootfs === undefined),
        ...(isFenced ? await fence(files, rootfs) : network()),
        ...['--remount-ro', '/', '--chdir', cwd],
        ...Object.entries({ PATH: innerPath, ...env }).flatMap(([name, value]) => ['--setenv', name, value]),
      ];
      const { resources, id } = record.spec;
      const outer = await limiter.wrap([file, ...descriptorArgs, '--', ...argv], resources, id);
      const [program = '', ...rest] = outer.argv;
      return { file: program, args: rest, env: outer.env, cwd: '/', ...descriptors(args) } satisfies Launch;
    },
  };
}

/** Paths at which something is put beside the root file system. */
function placesIn({ spec, mounts }: SandboxRecord): string[] {
  return [...mounts.filter(({ isBound }) => isBound).map(({ mountPath }) => mountPath), ...(spec.readOnlyPaths ?? [])];
}

/** Mounts that lie in no directory of the sandbox have one of their own. */
function mountBinds(record: SandboxRecord): string[] {
  return record.mounts
    .filter(({ isBound }) => isBound)
    .flatMap(({ hostPath, mountPath }) => ['--bind', hostPath, mountPath]);
}

async function readOnlyBinds(record: SandboxRecord, files: SandboxFiles): Promise<string[]> {
  const args: string[] = [];
  for (const path of record.spec.readOnlyPaths ?? []) {
    const isShown =
      record.spec.rootfs === undefined && userlandPaths.some((covered) => relativeTo(path, covered) !== undefined);
    if (isShown) continue;
    // Where its mount point falls into a directory that the session writes to, no link may lead the maker out.
    const place = placeOf(path, files, record.mounts);
    if (place !== null) await makeDirectories(place.base, dirname(place.relative).replace(/^\.$/, ''), path);
    args.push('--ro-bind', path, path);
  }
  return args;
}

/** What package directories and checkouts keep credentials in: the service's own, and a harness's that was built there. */
const privateName = /^(\.git|\.env.*|\.npmrc|\.yarnrc.*|\.netrc)$/;

/**
 * Covers what lies in a directory that is shown and is for nobody inside: `hidden`, and such names beside a harness.
 * What is shown in turn below one of them is put there again.
 */
function covers(readOnlyPaths: readonly string[], hidden: readonly string[], isMachine: boolean): string[] {
  const shown = [...(isMachine ? userlandPaths : []), ...readOnlyPaths];
  const beside = readOnlyPaths
    .filter((path) => statSync(path).isDirectory())
    .flatMap((path) =>
      readdirSync(path)
        .filter((name) => privateName.test(name))
        .map((name) => join(path, name)),
    );
  const all = [...hidden, ...beside];
  // One that lies in another goes with it.
  const outer = all.filter((path) => !all.some((other) => other !== path && relativeTo(path, other) !== undefined));
  return outer.flatMap((path) => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || !shown.some((other) => relativeTo(path, other) !== undefined)) return [];
    if (!found.isDirectory()) return found.isFile() ? ['--ro-bind', '/dev/null', path] : [];
    const again = readOnlyPaths.filter((other) => other !== path && relativeTo(other, path) !== undefined);
    return ['--tmpfs', path, ...again.flatMap((other) => ['--ro-bind', other, other]), '--remount-ro', path];
  });
}

/** The host's network and the names it knows. */
function network(): string[] {
  return ['/etc/resolv.conf', '/etc/hosts'].flatMap((path) => ['--ro-bind-try', path, path]);
}

/** `rootfs`: its own Node, where it has one, runs the first program: this machine's may want libraries that it lacks. */
async function fence(files: SandboxFiles, rootfs: RootFileSystem | undefined): Promise<string[]> {
  return [
    '--unshare-net',
    ...['--ro-bind', files.run, fencedRun],
    ...(await trust(files, rootfs)),
    ...((await nodeOf(rootfs)) === null ? ['--ro-bind', process.execPath, `${fenceDir}/node`] : []),
  ];
}

/** The session's certificates in place of the system's. */
async function trust(files: SandboxFiles, rootfs: RootFileSystem | undefined): Promise<string[]> {
  if (!existsSync(files.trust.all)) return [];
  const shown = rootfs === undefined ? machineBundles() : await bundlesIn(rootfs.path);
  return shown.flatMap((path) => ['--ro-bind', files.trust.all, path]);
}

function machineBundles(): string[] {
  // A link among them is the same file by another name.
  const there = new Set(bundles.filter((path) => existsSync(path)).map((path) => realpathSync(path)));
  return [...there].filter((path) => etcFiles.some((name) => relativeTo(path, `/etc/${name}`) !== undefined));
}
