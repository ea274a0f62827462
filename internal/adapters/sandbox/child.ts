// One process of a sandbox, from its start until it and all that it started are gone; and a command run to its end.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../domain/fault.ts';
import { markerName } from './process-table.ts';
import { killAll, type Marker, markerText, whenDead } from './processes.ts';
import type { Exit, RunOptions, RunResult, Sandbox, SandboxProcess } from './types.ts';

/** A program of the host and how it is started. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Bubblewrap's: its settings, for descriptor 3; it tells of the sandbox's first process on descriptor 4. */
  readonly settings?: string;
  /** Bubblewrap's: the filter of system calls, for descriptor 5. */
  readonly filter?: Buffer;
}

const outputBytes = 16 * 1024;
/** How long output is still read after the end of a process. */
const lastWordsMs = 1000;

/** Starts it in a process group and session of its own. Throws Fault `unprocessable` where it cannot be started. */
export async function startChild(launch: Launch, marker: Marker): Promise<SandboxProcess> {
  const child = startRaw(launch, marker);
  const exit = new Promise<Exit>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  await once(child, 'spawn').catch((error: unknown) => {
    throw cannotStart(error);
  });
  const pid = child.pid as number;
  const [stdin, out, err, settings, info, filter] = child.stdio as unknown as [
    Writable,
    Readable,
    Readable,
    Writable?,
    Readable?,
    Writable?,
  ];
  const [stdout, stderr] = [kept(out), kept(err)];
  // A process may end before it has read all: how it ended is the news, not the broken pipe.
  stdin.on('error', () => undefined);
  settings?.on('error', () => undefined);
  settings?.end(launch.settings);
  filter?.on('error', () => undefined);
  filter?.end(launch.filter);
  const first = info === undefined ? Promise.resolve(null) : firstProcess(info);
  // Of a namespace the kernel ends the rest with its first process, and that one with bubblewrap; so nothing is searched.
  const sweep = async (): Promise<void> => {
    if (launch.settings !== undefined) child.kill('SIGKILL');
    const namespace = await first;
    if (namespace === null) return killAll((found) => markerText(found) === markerText(marker), pid);
    return whenDead(namespace);
  };
  // Once it is over, its number may be another's: nothing is looked for by it any more.
  let isOver = false;
  const exited = exit.then(async (ended) => {
    await sweep().catch(() => undefined); // Ending the sandbox sweeps again, and says so.
    isOver = true;
    return ended;
  });
  const kill = async (): Promise<Exit> => {
    if (!isOver) await sweep();
    return exited;
  };
  return { pid, stdin, stdout, stderr, exited, kill };
}

function startRaw(launch: Launch, marker: Marker): ChildProcess {
  try {
    return spawn(launch.file, launch.args, {
      cwd: launch.cwd,
      env: { ...launch.env, [markerName]: markerText(marker) },
      stdio: [
        ...(['pipe', 'pipe', 'pipe'] as const),
        ...(launch.settings === undefined ? [] : (['pipe', 'pipe'] as const)),
        ...(launch.filter === undefined ? [] : (['pipe'] as const)),
      ],
      detached: true,
    });
  } catch (error) {
    throw cannotStart(error);
  }
}

/** Node throws away what nobody reads when a process ends; this keeps it until somebody does. */
function kept(output: Readable): Readable {
  const through = new PassThrough();
  // A pipe that breaks ends the output: how the process ended is the news.
  pipeline(output, through).catch(() => through.end());
  return through;
}

/** The process with which a namespace of processes ends; null where bubblewrap came to its end before it made one. */
async function firstProcess(info: Readable): Promise<number | null> {
  let text = '';
  info.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  await finished(info).catch(() => undefined); // Cut off, it told nothing.
  const pid = /"child-pid":\s*(\d+)/.exec(text)?.[1];
  return pid === undefined ? null : Number(pid);
}

/** Only the code: Node's own message repeats the arguments. */
export function cannotStart(error: unknown): Fault {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  const hint = code === 'ENOENT' ? ': it or its working directory is not there' : '';
  const message = `The program cannot be started in the sandbox (${code})${hint}`;
  return new Fault('unprocessable', 'sandbox-spawn', message, { cause: Object.assign(new Error(code), { code }) });
}

const writeMs = 30_000;
const writeScript = 'umask 077; mkdir -p -- "$(dirname -- "$1")" && rm -rf -- "$1" && cat > "$1" && chmod "$2" "$1"';

/** Writes a file by a program of the sandbox, so that no link inside leads out. Throws Fault `sandbox-file`. */
export async function writeInside(
  sandbox: Pick<Sandbox, 'run' | 'pathIn'>,
  of: { readonly path: string; readonly content: string | Uint8Array; readonly mode: number; readonly cwd?: string },
): Promise<void> {
  const { path, content, mode, cwd } = of;
  const command = ['/bin/sh', '-c', writeScript, 'sh', sandbox.pathIn(path), mode.toString(8)];
  const options = { command, timeoutMs: writeMs, input: content, ...(cwd !== undefined && { cwd }) };
  const result = await sandbox.run(options);
  if (result.code === 0) return;
  const message = `${path} cannot be written in the sandbox: ${result.output.trim()}`;
  throw new Fault('unprocessable', 'sandbox-file', message);
}

/** Waits for a started process as `run` promises: bounded output, a limit of time, nothing left behind. */
export async function runToEnd(child: SandboxProcess, options: RunOptions): Promise<RunResult> {
  const tail = new Tail(outputBytes);
  const read = Promise.all(
    [child.stdout, child.stderr].map((stream) => {
      stream.on('data', (chunk: Buffer) => tail.push(chunk));
      return once(stream, 'close');
    }),
  );
  read.catch(() => undefined); // A broken pipe ends the reading, and how the process ended is told below.
  const limit = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal === undefined ? limit : AbortSignal.any([limit, options.signal]);
  const stop = (): void => void child.kill().catch(() => undefined); // `exited` stays pending where it does not end.
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  feed(child.stdin, options.input);
  const exit = await child.exited;
  signal.removeEventListener('abort', stop);
  // Its pipes close with it, except where a process that could not be told as its own still holds one.
  await Promise.race([read.catch(() => undefined), sleep(lastWordsMs, undefined, { ref: false })]);
  for (const stream of [child.stdout, child.stderr]) stream.destroy();
  options.signal?.throwIfAborted();
  const output = mask(tail.text(), options.masked ?? []).slice(-outputBytes);
  return { ...exit, timedOut: limit.aborted && exit.code === null, output };
}

function feed(stdin: Writable, input: RunOptions['input']): void {
  if (input === undefined || typeof input === 'string' || input instanceof Uint8Array) stdin.end(input);
  // What went wrong with the process is told by how it ended; a broken source ends its input early.
  else void pipeline(input, stdin).catch(() => stdin.destroy());
}

/** Replaces values; the longest first, so that one inside another leaves no rest. */
function mask(text: string, values: readonly string[]): string {
  return values
    .flatMap((value) => [value, ...value.split('\n')])
    .filter((value) => value.trim().length >= 4)
    .sort((a, b) => b.length - a.length)
    .reduce((masked, value) => masked.replaceAll(value, '***'), text);
}

/** The last bytes of what is pushed. */
class Tail {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    // Parts of a byte take hundreds each as long as they are kept.
    if (this.#bytes < 8 * this.#limit && this.#chunks.length < 1_024) return;
    this.#chunks = [Buffer.concat(this.#chunks).subarray(-4 * this.#limit)];
    this.#bytes = this.#chunks[0]?.length ?? 0;
  }

  /** Four times the limit, so that a masked value that begins before the limit is still whole when it is replaced. */
  text(): string {
    return Buffer.concat(this.#chunks)
      .subarray(-4 * this.#limit)
      .toString('utf8');
  }
}
