// The git program as the daemon runs it for mounts: nothing of the machine's or a user's configuration, no hook, no
// prompt, no filter; the credential only in the environment of the one process that talks to the host.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path/posix';
import type { Readable } from 'node:stream';

export interface GitRun {
  readonly args: readonly string[];
  readonly cwd: string;
  /** Settings of git by name, handed over in the environment. */
  readonly config?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Of standard output, the last so many are kept; default a mebibyte. */
  readonly keptBytes?: number;
  /** Its standard input; default: none. */
  readonly input?: string | Buffer;
  /** Reads standard output as it comes, and nothing is kept. */
  readonly read?: (stdout: Readable) => Promise<void>;
}

export interface GitResult {
  readonly code: number | null;
  readonly stdout: string;
  /** The last lines, without what configuration held. */
  readonly stderr: string;
}

const keptBytes = 1024 * 1024;
const stderrBytes = 8 * 1024;

/** Holds for every run. Protocols are refused but for those that a run allows. */
const config: Readonly<Record<string, string>> = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.untrackedCache': 'false',
  'core.protectHFS': 'true',
  'core.protectNTFS': 'true',
  'core.askPass': '',
  'credential.helper': '',
  'protocol.allow': 'never',
  'submodule.recurse': 'false',
  'fetch.recurseSubmodules': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'advice.detachedHead': 'false',
};

/** Mistakes of old tools that real histories hold and that harm nobody. */
export const harmlessMistakes = [
  'badTimezone',
  'missingSpaceBeforeDate',
  'zeroPaddedFilemode',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeEmail',
  'badEmail',
  'badName',
  'badDate',
  'badDateOverflow',
  'zeroPaddedDate',
  'missingTaggerEntry',
  'badTagName',
];

/** Programs that were found new enough. */
const newEnough = new Set<string>();

/**
 * Null where the program is one that mounts can be made with, else what it says of its version. Settings in the environment
 * came with 2.31, and with 2.37 the one that pins the address that was judged.
 */
export async function tooOld(program: string, path: string, cwd: string): Promise<string | null> {
  if (newEnough.has(program)) return null;
  const { stdout } = await runGit(program, path, { args: ['--version'], cwd, signal: AbortSignal.timeout(10_000) });
  const [, major = '0', minor = '0'] = /version (\d+)\.(\d+)/.exec(stdout) ?? [];
  if (Number(major) < 2 || (Number(major) === 2 && Number(minor) < 37)) return stdout.trim();
  newEnough.add(program);
  return null;
}

/** Runs git to its end. Never rejects for what git says; rejects where it cannot be started or the signal aborts. */
export async function runGit(program: string, path: string, run: GitRun): Promise<GitResult> {
  const entries = Object.entries({ ...config, ...run.config });
  const child = spawn(program, run.args, {
    cwd: run.cwd,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      PATH: path,
      HOME: '/nonexistent',
      LC_ALL: 'C',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_TERMINAL_PROMPT: '0',
      GIT_ASKPASS: '',
      SSH_ASKPASS: '',
      GIT_LFS_SKIP_SMUDGE: '1',
      GIT_NO_LAZY_FETCH: '1',
      GIT_CEILING_DIRECTORIES: dirname(run.cwd),
      GIT_CONFIG_COUNT: String(entries.length),
      ...Object.fromEntries(
        entries.flatMap(([key, value], index) => [
          [`GIT_CONFIG_KEY_${index}`, key],
          [`GIT_CONFIG_VALUE_${index}`, value],
        ]),
      ),
    },
  });
  // Its helpers (git-remote-https, index-pack) are in its group.
  const end = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  run.signal.addEventListener('abort', end, { once: true });
  try {
    const closed = once(child, 'close') as Promise<[number | null]>;
    if (run.signal.aborted) end();
    // One that ends before it has read all says why by its code.
    child.stdin.on('error', () => undefined).end(run.input);
    const err = keepLast(child.stderr, stderrBytes);
    const out = run.read === undefined ? keepLast(child.stdout, run.keptBytes ?? keptBytes) : (): string => '';
    const read = run.read?.(child.stdout).catch((error: unknown) => {
      end();
      throw error;
    });
    const [[code]] = await Promise.all([closed, read]);
    run.signal.throwIfAborted();
    return { code, stdout: out(), stderr: without(err(), Object.values(run.config ?? {})) };
  } finally {
    run.signal.removeEventListener('abort', end);
  }
}

function keepLast(stream: Readable, bytes: number): () => string {
  let kept: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => (kept = Buffer.concat([kept, chunk]).subarray(-bytes)));
  return () => kept.toString('utf8');
}

function without(text: string, values: readonly string[]): string {
  return values
    .filter((value) => /^authorization:/i.test(value))
    .flatMap((value) => [value, value.replace(/^authorization:\s*(\w+\s+)?/i, '')])
    .reduce((masked, value) => (value === '' ? masked : masked.replaceAll(value, '***')), text);
}

/** The first line that git calls an error; its later ones are advice. */
export function lastLine({ stderr }: GitResult): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  return lines.find((line) => /^(fatal|error):/.test(line)) ?? lines.at(-1) ?? 'git ended without a word';
}
