// Where a harness's program is: the configured command, else the public adapter under `<data-dir>/harnesses/<name>/` at
// its pinned version, else nowhere, and what to do about it (docs/reference/sessions.md#harnesses). Installing is npm's work in a
// directory beside it, checked and then put in place of what is there, so that neither half of an installation nor none is
// found at any moment.

import { spawn } from 'node:child_process';
import { lstat, mkdtemp, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import type { Harness } from '../../domain/spec.ts';
import { adapterOf } from './profiles.ts';
import { exists, makeDirectory } from '../../base/files.ts';
import { removeAbandoned } from '../../base/remove-tree.ts';

export interface ResolveOptions {
  readonly harness: Harness;
  readonly dataDir: string;
  /** `SVC_HARNESS_A_COMMAND`, …: goes before everything else. */
  readonly configured: readonly string[] | undefined;
  /** Runs the adapters; the daemon's own. */
  readonly nodePath: string;
  /** Words of `configured` that lie where the program will run, so that nothing has to be shown of them; default none. */
  readonly inside?: (index: number) => boolean;
}

export type ResolvedHarness =
  | {
      readonly state: 'configured' | 'installed';
      readonly argv: readonly string[];
      /** Of an installed adapter. */
      readonly version?: string;
      /** What a sandbox must let the program read, beside what every program reads. */
      readonly readOnlyPaths: readonly string[];
    }
  /** `message` says what is wrong and what to run. */
  | { readonly state: 'missing' | 'outdated'; readonly version?: string; readonly message: string };

export type InstallProblem =
  | 'npm-missing'
  | 'registry-unreachable'
  | 'not-published'
  | 'npm-failed'
  | 'not-usable'
  | 'interrupted';

export class HarnessInstallError extends Error {
  readonly problem: InstallProblem;
  constructor(problem: InstallProblem, message: string) {
    super(message);
    this.name = 'HarnessInstallError';
    this.problem = problem;
  }
}

export interface InstallOptions {
  readonly harness: Harness;
  readonly dataDir: string;
  /** npm's own: PATH, HOME, proxies, registry settings. */
  readonly env: { readonly [name: string]: string | undefined };
  readonly signal?: AbortSignal;
}

export interface InstalledHarness {
  readonly name: Harness;
  readonly package: string;
  readonly version: string;
  readonly directory: string;
  /** It was there already. */
  readonly already: boolean;
}

const stderrChars = 8_000;
/** Of npm's account of a failure: the stack, the error's fields once more, and where the log is. */
const noise = /^(?:at |[{}]|\w+: '|port: |requiredBy|.*complete log)/;
const reasonsMax = 4;
const unreachable =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|UNABLE_TO_GET_ISSUER_CERT\w*|ENOTCACHED)\b/;

const directoryOf = (dataDir: string, harness: Harness): string => join(dataDir, 'harnesses', harness);
/** Where an installation is while another one takes its place. */
const asideOf = (directory: string): string => join(dirname(directory), `.${basename(directory)}.before`);

/** What `svc harness install` brings, for lists and messages. */
export function harnessPackage(harness: Harness): { readonly name: string; readonly version: string } {
  const { name, version } = adapterOf(harness);
  return { name, version };
}

interface Found {
  readonly version: string;
  readonly entry: string;
}

/** What is installed, wherever it is while another one takes its place, or was when that was killed. */
async function findInstalled(
  dataDir: string,
  harness: Harness,
): Promise<(Found & { readonly directory: string }) | undefined> {
  const directory = directoryOf(dataDir, harness);
  // The last once more: it may have been put there between the two looks.
  for (const place of [directory, asideOf(directory), directory]) {
    const found = await findAdapter(place, harness).catch(() => undefined);
    if (found !== undefined) return { ...found, directory: place };
  }
  return undefined;
}

/** The adapter inside an installation; undefined where there is none that can be started. */
async function findAdapter(directory: string, harness: Harness): Promise<Found | undefined> {
  const adapter = adapterOf(harness);
  const root = join(directory, 'node_modules', adapter.name);
  const manifest = await readFile(join(root, 'package.json'), 'utf8').catch(() => undefined);
  if (manifest === undefined) return undefined;
  const entry = join(root, adapter.entry);
  const isFile = await stat(entry).then(
    (found) => found.isFile(),
    () => false,
  );
  const { version } = JSON.parse(manifest) as { version?: unknown };
  return isFile && typeof version === 'string' ? { version, entry } : undefined;
}

/**
 * Whether an installation holds the program for this machine. It comes as an optional dependency, which npm leaves out
 * without a word where it is told to omit those, where a mirror does not have it, or where there is none.
 */
async function hasEngine(directory: string, harness: Harness): Promise<boolean> {
  const { engine } = adapterOf(harness);
  const modules = join(directory, 'node_modules');
  const { optionalDependencies } = await manifestOf(join(modules, engine));
  for (const name of Object.keys((optionalDependencies ?? {}) as object)) {
    const { os, cpu } = await manifestOf(join(modules, name));
    if (includes(os, process.platform) && includes(cpu, process.arch)) return true;
  }
  return false;
}

const includes = (list: unknown, name: string): boolean => Array.isArray(list) && list.includes(name);

/** The manifest of a package; empty where there is none. */
async function manifestOf(root: string): Promise<{ readonly [key: string]: unknown }> {
  const text = await readFile(join(root, 'package.json'), 'utf8').catch(() => '{}');
  return JSON.parse(text) as { readonly [key: string]: unknown };
}

/** Where the program of a harness is. Never starts it. */
export async function resolveHarness(options: ResolveOptions): Promise<ResolvedHarness> {
  const { harness, configured, nodePath } = options;
  if (configured !== undefined) {
    const shown = configured.filter((_word, index) => options.inside?.(index) !== true);
    const paths = await Promise.all(shown.map((word) => readOnlyPathsOf(word)));
    return { state: 'configured', argv: configured, readOnlyPaths: [...new Set(paths.flat())] };
  }
  const install = `run \`svc harness install ${harness}\`, or set ${variableOf(harness)} to a command that speaks the Agent Client Protocol`;
  const found = await findInstalled(options.dataDir, harness);
  if (found === undefined) return { state: 'missing', message: `${harness} is not installed: ${install}` };
  const pinned = adapterOf(harness).version;
  if (found.version !== pinned) {
    const message = `${harness} is installed at ${found.version}, and this version of svc needs ${pinned}: ${install}`;
    return { state: 'outdated', version: found.version, message };
  }
  const paths = await readOnlyPathsOf(nodePath);
  return {
    state: 'installed',
    argv: [nodePath, found.entry],
    version: found.version,
    readOnlyPaths: [...new Set([found.directory, ...paths])],
  };
}

/** The setting that names a harness's command. */
export const variableOf = (harness: Harness): string => `SVC_${harness.toUpperCase().replace('-', '_')}_COMMAND`;

/**
 * What belongs to one word of a command: the package that a path lies in, with modules that are linked in from
 * elsewhere; a path outside of any package by itself. Programs that PATH finds are the sandbox's own.
 */
async function readOnlyPathsOf(word: string): Promise<string[]> {
  if (!isAbsolute(word)) return [];
  const path = await realpath(word).catch(() => undefined);
  if (path === undefined) return [];
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    if (!(await exists(join(at, 'package.json')))) continue;
    const modules = await lstat(join(at, 'node_modules')).catch(() => undefined);
    return modules?.isSymbolicLink() ? [at, await realpath(join(at, 'node_modules'))] : [at];
  }
  return [path];
}

/**
 * Installs the pinned adapter with npm from PATH. Nothing is changed where it is there already, or when it fails.
 * Throws HarnessInstallError.
 */
export async function installHarness(options: InstallOptions): Promise<InstalledHarness> {
  const { harness, dataDir } = options;
  const adapter = adapterOf(harness);
  const directory = directoryOf(dataDir, harness);
  const done = { name: harness, package: adapter.name, version: adapter.version, directory };
  // What one that was killed in between has left.
  const aside = asideOf(directory);
  if (await exists(directory)) await rm(aside, { recursive: true, force: true });
  else await renamed(aside, directory);
  const present = await findAdapter(directory, harness).catch(() => undefined);
  if (present?.version === adapter.version && (await hasEngine(directory, harness))) return { ...done, already: true };
  const parent = dirname(directory);
  await makeDirectory(parent);
  const prefix = `.${harness}-`;
  const staging = await mkdtemp(join(parent, prefix));
  try {
    await removeAbandoned(staging, prefix);
    await runNpm(staging, `${adapter.name}@${adapter.version}`, options);
    const found = await findAdapter(staging, harness);
    if (found?.version !== adapter.version) {
      throw new HarnessInstallError(
        'not-usable',
        `npm installed ${adapter.name}, but its program ${adapter.entry} at ${adapter.version} is not there`,
      );
    }
    if (!(await hasEngine(staging, harness))) {
      throw new HarnessInstallError(
        'not-usable',
        `npm installed ${adapter.name} without the program of ${adapter.engine} for ${process.platform} ${process.arch}: it is not published for this platform, or this registry does not have it`,
      );
    }
    await renamed(directory, aside);
    await rename(staging, directory);
    // Where a half of it is looked for by nobody.
    await renamed(aside, staging);
    return { ...done, already: false };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** Moves what is there; false where nothing is. */
const renamed = (from: string, to: string): Promise<boolean> =>
  rename(from, to).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );

const quiet = ['--ignore-scripts', '--no-audit', '--no-fund'];

/** No install scripts: the adapters need none, and what is not run cannot do harm. */
async function runNpm(directory: string, spec: string, { env, signal }: InstallOptions): Promise<void> {
  const args = ['install', '--prefix', directory, '--save-exact', '--include=optional', ...quiet, spec];
  const child = spawn('npm', args, {
    cwd: directory,
    env: { ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(signal !== undefined && { signal }),
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-stderrChars)));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  }).catch((error: NodeJS.ErrnoException) => {
    if (signal?.aborted)
      throw new HarnessInstallError('interrupted', 'the installation was interrupted; nothing was changed');
    if (error.code !== 'ENOENT') throw error;
    throw new HarnessInstallError('npm-missing', 'npm is not on PATH; it comes with Node.js');
  });
  if (code !== 0) throw npmFailure(stderr, spec);
}

function npmFailure(stderr: string, spec: string): HarnessInstallError {
  const lines = stderr.split('\n').flatMap((line) => /^npm (?:error|ERR!) +(\S.*)$/.exec(line)?.[1] ?? []);
  const said = lines
    .filter((line) => !noise.test(line))
    .slice(0, reasonsMax)
    .join('; ');
  if (unreachable.test(stderr)) {
    return new HarnessInstallError('registry-unreachable', `the package registry cannot be reached: ${said}`);
  }
  if (/\b(E404|ETARGET)\b/.test(stderr)) {
    return new HarnessInstallError('not-published', `the package registry does not have ${spec}: ${said}`);
  }
  return new HarnessInstallError('npm-failed', `npm could not install ${spec}: ${said || 'it gave no reason'}`);
}
