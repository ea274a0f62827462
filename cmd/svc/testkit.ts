// Runs the real program as its users do: a process of its own with a home that is empty.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { runCli } from '../../internal/edge/cli/cli.ts';

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: { readonly [name: string]: string };
  readonly cwd?: string;
  /** Closed without a byte when absent. */
  readonly stdin?: string;
  readonly signal?: AbortSignal;
  readonly onStdout?: (text: string) => void;
  readonly onStderr?: (text: string) => void;
}

const main = join(import.meta.dirname, 'main.mjs');

/** An empty home shared by the runs of one test file; modules are cached beside the installed packages. */
export async function emptyHome(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'svc-cli-'));
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }) };
}

/** Runs `svc ARGS`; resolves when it has ended. */
export function runSvc(home: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...args], {
      cwd: options.cwd ?? home,
      env: { PATH: process.env['PATH'] ?? '', HOME: home, ...options.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      options.onStdout?.(stdout);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      options.onStderr?.(stderr);
    });
    // A program that never reads its input may be gone by then.
    child.stdin.on('error', () => undefined);
    child.stdin.end(options.stdin ?? '');
    options.signal?.addEventListener('abort', () => child.kill('SIGINT'), { once: true });
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** Runs `svc ARGS` in this process: the same, in a hundredth of the time. Without a terminal, as from a script. */
export async function callSvc(home: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const collect = (): { readonly stream: NodeJS.WriteStream; text: () => string } => {
    const stream = new PassThrough();
    let text = '';
    stream.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      options.onStdout?.(text);
    });
    return { stream: stream as unknown as NodeJS.WriteStream, text: () => text };
  };
  const stdout = collect();
  const stderr = collect();
  const stdin = new PassThrough();
  stdin.end(options.stdin ?? '');
  const code = await runCli(args, {
    stdin: stdin as unknown as NodeJS.ReadStream,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { HOME: home, ...options.env },
    cwd: options.cwd ?? home,
    home,
    now: () => new Date(),
    signal: options.signal ?? new AbortController().signal,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}
