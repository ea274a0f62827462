// Setup of a sandbox before its session starts (docs/reference/compile.md#environments): the build steps of its image, whose result in HOME
// is kept by content, and the setup steps in order, each kept by its cache's key, files and commands.
// Everything runs inside the sandbox, also what packs and unpacks the kept paths.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path/posix';
import { finished } from 'node:stream/promises';
import type { EnvironmentSpec } from '../../domain/spec.ts';
import { Fault } from '../../domain/fault.ts';
import { sha256 } from '../../base/hash.ts';
import { timeLimit } from '../../base/waits.ts';
import { relativeTo, declaredHome, declaredPath } from './layout.ts';
import type { SetupCache } from './setup-cache.ts';
import type { RunResult, Sandbox } from './types.ts';

type SetupStep = EnvironmentSpec['setup'][number];

interface SetupContext {
  readonly cache: SetupCache;
  /** Who may share what is kept: the project and the environment. Nothing is shared beyond it. */
  readonly scope: string;
  readonly now: Date;
  /** Of one command. Default 30 minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Called before each step: its name, and whether what it made was found. */
  readonly onStep?: (step: StepReport) => void;
}

export interface ImageRequest extends SetupContext {
  /** Of the preset. */
  readonly image: string;
  readonly steps: readonly string[];
  /** Without secrets: what the steps make outlives the session. */
  readonly env?: Readonly<Record<string, string>>;
  /** Leads the steps to the network, and changes nothing of what they make. */
  readonly networkEnv?: Readonly<Record<string, string>>;
}

export interface SetupRequest extends SetupContext {
  readonly setup: EnvironmentSpec['setup'];
  readonly setupCache?: EnvironmentSpec['setupCache'];
  readonly env?: Readonly<Record<string, string>>;
  /** Values of `env` that no message may repeat. */
  readonly masked?: readonly string[];
  /** Where commands run, and what `cache.files` are relative to: as declared. Default the work directory. */
  readonly workingDirectory?: string;
  /** Paths of clones, as declared: each stands where its own session has it, whatever a step did there before. */
  readonly clones?: readonly string[];
}

export interface StepReport {
  readonly name: string;
  /** `none`: nothing of it is kept, so that it always runs. */
  readonly cache: 'hit' | 'miss' | 'none';
}

/** A command of a step that failed. `message` says the same, with the last lines of the output. */
export class SetupFailed extends Fault {
  readonly step: string;
  /** From 1. */
  readonly command: number;
  readonly exitCode: number | null;
  /** At most 20 lines and 2,000 characters, masked. */
  readonly output: string;

  constructor(step: string, command: number, count: number, result: RunResult) {
    const output = lastLines(result.output);
    const how = result.timedOut
      ? 'took too long and was ended'
      : `ended with ${result.code === null ? result.signal : `exit code ${result.code}`}`;
    const said = output === '' ? 'it printed nothing' : output;
    super('unprocessable', 'setup-failed', `Setup step ${step}: command ${command} of ${count} ${how}: ${said}`);
    this.step = step;
    this.command = command;
    this.exitCode = result.code;
    this.output = output;
  }
}

const setupTimeoutMs = 30 * 60_000;
const archiveMs = 15 * 60_000;
const unitsMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const imageStep = 'image';

const lastLines = (text: string): string => text.trimEnd().split('\n').slice(-20).join('\n').slice(-2000);
const hashOf = (value: unknown): string => sha256(JSON.stringify(value));

/**
 * Runs the image's build steps in a sandbox that has no mounts yet, or brings back what they made in HOME before. With a
 * local preset the image is the machine's own userland, read-only: a step can change HOME and nothing else.
 * Throws SetupFailed.
 */
export async function buildImage(sandbox: Sandbox, request: ImageRequest): Promise<void> {
  const { image, steps, env = {} } = request;
  if (steps.length === 0) return;
  const key = hashOf(['image', 1, sandbox.provider, request.scope, image, steps, env]);
  if (sandbox.build !== undefined) return buildWhole(sandbox, request, key);
  await cached(
    sandbox,
    request,
    { name: imageStep, key, parts: [{ key, root: sandbox.home, paths: ['.'], gitDirs: [] }], ttlMs: null },
    async () => {
      await runCommands(
        sandbox,
        request,
        { name: imageStep, commands: steps },
        { env: { ...env, ...request.networkEnv }, cwd: sandbox.home },
      );
    },
  );
}

/** The steps change the whole image, which the engine keeps. */
async function buildWhole(sandbox: Sandbox, request: ImageRequest, key: string): Promise<void> {
  const { cache, steps, networkEnv = {}, timeoutMs = setupTimeoutMs } = request;
  await cache.inTurn(
    key,
    async () => {
      let isTold = false;
      const tell = (found: 'hit' | 'miss'): void => {
        if (!isTold) request.onStep?.({ name: imageStep, cache: found });
        isTold = true;
      };
      const found = await sandbox.build?.({
        networkEnv,
        ...signalOf(request),
        runStep: async (run, index, env) => {
          tell('miss');
          const result = await run({ command: steps[index] ?? '', timeoutMs, env, ...signalOf(request) });
          if (result.code !== 0) throw new SetupFailed(imageStep, index + 1, steps.length, result);
        },
      });
      tell(found ?? 'miss');
    },
    request.signal,
  );
}

/**
 * Runs the setup steps in order. A step with a cache is not run where what it made was kept before under the same key,
 * commands and content of its files, within `setupCache.ttl`: it is put back. That is its `paths`, and without any what it
 * changed below home and the work directory. Throws SetupFailed.
 */
export async function runSetup(sandbox: Sandbox, request: SetupRequest): Promise<void> {
  const { env = {}, masked = [] } = request;
  const cwd = request.workingDirectory === undefined ? sandbox.workDir : sandbox.pathIn(request.workingDirectory);
  const ttlMs = request.setupCache === undefined ? null : ttlOf(request.setupCache.ttl);
  for (const step of request.setup) {
    const run = (): Promise<void> => runCommands(sandbox, request, step, { env, cwd, masked });
    if (step.cache === undefined) {
      request.onStep?.({ name: step.name, cache: 'none' });
      await run();
      continue;
    }
    const key = await keyOf(sandbox, request, step, cwd);
    const named = (step.cache.paths ?? []).map(homeRelative);
    const parts: readonly Part[] =
      named.length > 0
        ? [{ key, root: sandbox.home, paths: named, gitDirs: [] }]
        : wholeParts(sandbox, key, request.clones);
    await cached(sandbox, request, { name: step.name, key, parts, ttlMs }, run);
  }
}

/** `24h` in milliseconds. */
function ttlOf(text: string): number {
  const match = /^([1-9]\d*)([smhd])$/.exec(text);
  if (match === null)
    throw new Fault('unprocessable', 'setup-cache', `setupCache.ttl cannot be ${JSON.stringify(text)}`);
  return Number(match[1]) * unitsMs[match[2] as keyof typeof unitsMs];
}

/** `.` for HOME itself. */
function homeRelative(path: string): string {
  const relative = relativeTo(declaredPath(path, 'The cached path'), declaredHome);
  if (relative === undefined) throw new Fault('unprocessable', 'setup-cache', `${path} is not under ${declaredHome}`);
  return relative === '' ? '.' : `./${relative}`;
}

/** What is kept of one directory. */
interface Part {
  readonly key: string;
  /** As the sandbox sees it. */
  readonly root: string;
  /** Below it; null: what the step changed there. */
  readonly paths: readonly string[] | null;
  /** Below it: directories of git, of which the places that move with each commit are left out. */
  readonly gitDirs: readonly string[];
}

interface Entry {
  readonly name: string;
  readonly key: string;
  readonly parts: readonly Part[];
  readonly ttlMs: number | null;
}

/** Of a step that names no paths: what it changes below home and below the work directory. */
const wholeParts = (sandbox: Sandbox, key: string, clones: readonly string[] = []): readonly Part[] =>
  [sandbox.home, sandbox.workDir].map((root, index) => {
    const below = clones.flatMap((path) => relativeTo(sandbox.pathIn(path), root) ?? []);
    const gitDirs = below.map((path) => `./${join(path, '.git')}`);
    // 2: since an archive holds no index of a clone.
    return { key: hashOf([key, index, 2]), root, paths: null, gitDirs };
  });

/** Lies beside what a step changes, and tells what is newer. */
const stepMark = '/.svc-step';

async function cached(sandbox: Sandbox, context: SetupContext, entry: Entry, run: () => Promise<void>): Promise<void> {
  const { cache, onStep } = context;
  await cache.inTurn(
    entry.key,
    async () => {
      let isHit = true;
      for (const part of entry.parts) isHit &&= await restore(sandbox, context, entry, part);
      onStep?.({ name: entry.name, cache: isHit ? 'hit' : 'miss' });
      if (isHit) return;
      for (const part of entry.parts) if (part.paths === null) await mark(sandbox, context, part.root);
      await run();
      for (const part of entry.parts) await keep(sandbox, context, part);
    },
    context.signal,
  );
}

async function restore(sandbox: Sandbox, context: SetupContext, { ttlMs }: Entry, part: Part): Promise<boolean> {
  return context.cache.restore(part.key, { now: context.now, ttlMs }, async (archive) => {
    const command = ['/bin/sh', '-c', 'exec tar -C "$1" --no-same-owner -xpf -', 'sh', part.root];
    const result = await sandbox.run({ command, timeoutMs: archiveMs, input: archive, ...signalOf(context) });
    return result.code === 0;
  });
}

/** File times move by the tick of the clock: what a step changes in the tick of its mark would not be newer, and not be kept. */
const markAndWait = 'touch "$1" && { sleep 0.02 2>/dev/null || sleep 1; }';

async function mark(sandbox: Sandbox, context: SetupContext, root: string): Promise<void> {
  const command = ['/bin/sh', '-c', markAndWait, 'sh', root + stepMark];
  const made = await sandbox.run({ command, timeoutMs: archiveMs, ...signalOf(context) });
  if (made.code === 0) return;
  throw new Fault('unprocessable', 'setup-cache', `${root} cannot be written to: ${made.output.trim()}`);
}

const pack = `cd "$1" || exit 1; shift
for path; do shift; [ -e "$path" ] && set -- "$@" "$path"; done; exec tar -cf - -- "$@"`;
const packProgram = readFileSync(new URL('./pack-changed.cjs', import.meta.url), 'utf8');
/**
 * Files by the time of their change, since an archive that is unpacked sets the other; directories where they are empty.
 * Where find or tar are small ones, as those of busybox, by Node.
 */
const packChanged = `cd "$1" || exit 1
if ! find . -prune -cnewer . >/dev/null 2>&1 || ! tar --version 2>/dev/null | grep -q GNU; then
node -e "$2" .${stepMark} "$3"; ended=$?; rm -f .${stepMark}; exit $ended; fi
shift 3
find . -cnewer .${stepMark} "(" ! -type d -o -empty ")" ! -path .${stepMark} "$@" -print0 | tar --null --no-recursion -T - -cf -
ended=$?; rm -f .${stepMark}; exit $ended`;
/** Of a clone: which commit it is at, and how its files stand to that. pack-changed.cjs leaves out the same. */
const movingPlaces = ['HEAD', '*_HEAD', 'index', 'logs/*', 'packed-refs', 'refs/*', 'shallow'] as const;
const literally = (path: string): string => path.replace(/[\\*?[\]]/g, '\\$&');
const packChangedWords = (gitDirs: readonly string[]): string[] => [
  packProgram,
  JSON.stringify(gitDirs),
  ...gitDirs.flatMap((dir) => movingPlaces.flatMap((place) => ['!', '-path', `${literally(dir)}/${place}`])),
];

/** Packs those of the paths that are there. What cannot be packed is not kept, and the session starts all the same. */
async function keep(sandbox: Sandbox, context: SetupContext, part: Part): Promise<void> {
  const script = part.paths === null ? packChanged : pack;
  const child = await sandbox.spawn({
    argv: ['/bin/sh', '-c', script, 'sh', part.root, ...(part.paths ?? packChangedWords(part.gitDirs))],
  });
  child.stdin.end();
  child.stderr.resume();
  const archive = async function* (): AsyncGenerator<Buffer> {
    yield* child.stdout as AsyncIterable<Buffer>;
    // An archive is whole only when its maker says so.
    if ((await child.exited).code !== 0) throw new Incomplete();
  };
  try {
    await context.cache.save(part.key, context.now, archive());
  } catch (error) {
    if (!(error instanceof Incomplete)) throw error;
  } finally {
    await child.kill();
  }
}

class Incomplete extends Error {}

async function keyOf(sandbox: Sandbox, request: SetupRequest, step: SetupStep, cwd: string): Promise<string> {
  const { key = null, files = [], paths = [] } = step.cache ?? {};
  const content = files.length === 0 ? '' : await hashFiles(sandbox, request, files, cwd);
  return hashOf(['setup', 1, sandbox.provider, request.scope, step.name, key, step.commands, paths, files, content]);
}

/** One digest over names and contents; of a directory, of all files in it; of what is not there, that it is not. */
async function hashFiles(
  sandbox: Sandbox,
  request: SetupRequest,
  files: readonly string[],
  cwd: string,
): Promise<string> {
  const script = `sum=sha256sum
  command -v sha256sum >/dev/null || sum='shasum -a 256'
  for path; do
    printf '%s\\0' "$path"
    if [ -f "$path" ]; then $sum < "$path"
    elif [ -d "$path" ]; then find "$path" -type f -print0 | LC_ALL=C sort -z | xargs -0 -r $sum
    else echo absent; fi || exit 1
  done`;
  const child = await sandbox.spawn({
    argv: ['/bin/sh', '-c', script, 'sh', ...files.map((file) => `./${file}`)],
    cwd,
  });
  const stop = timeLimit(archiveMs, request.signal);
  const kill = (): void => void child.kill().catch(() => undefined); // Then it ends without a code, below.
  stop.addEventListener('abort', kill, { once: true });
  try {
    child.stdin.end();
    child.stderr.resume();
    const hash = createHash('sha256');
    child.stdout.on('data', (chunk: Buffer) => hash.update(chunk));
    await finished(child.stdout);
    if ((await child.exited).code === 0) return hash.digest('hex');
  } finally {
    stop.removeEventListener('abort', kill);
  }
  request.signal?.throwIfAborted();
  throw new Fault(
    'unprocessable',
    'setup-cache',
    `The files that key a setup cache cannot be read: ${files.join(', ')}`,
  );
}

async function runCommands(
  sandbox: Sandbox,
  context: SetupContext,
  step: Pick<SetupStep, 'name' | 'commands'>,
  options: {
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly masked?: readonly string[];
  },
): Promise<void> {
  for (const [index, command] of step.commands.entries()) {
    const timeoutMs = context.timeoutMs ?? setupTimeoutMs;
    const result = await sandbox.run({ command, timeoutMs, ...options, ...signalOf(context) });
    if (result.code !== 0) throw new SetupFailed(step.name, index + 1, step.commands.length, result);
  }
}

const signalOf = ({ signal }: SetupContext): { signal?: AbortSignal } => (signal === undefined ? {} : { signal });
