// Programs that tests start beside themselves, as `git`: by the program server of the run where there is one, else as any child.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Asked, frames, readFrames } from './program-frames.ts';

/** Of the socket of the run's program server. */
export const programsVariable = 'SVC_TEST_PROGRAMS';

export interface Program {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** The code is null where a signal has ended it, or nobody waited for its end. Rejects where it cannot be started. */
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
  kill(): void;
}

export function startProgram(asked: Asked): Program {
  const path = process.env[programsVariable];
  return path === undefined ? startHere(asked) : startThere(path, asked);
}

function startHere({ file, args, cwd, env }: Asked): Program {
  const child = spawn(file, args, { cwd, env, stdio: 'pipe' });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<{ code: number | null; stderr: string }>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stderr }));
  });
  return { stdin: child.stdin, stdout: child.stdout, ended, kill: () => void child.kill() };
}

function startThere(path: string, asked: Asked): Program {
  const socket = connect({ path, allowHalfOpen: true });
  socket.write(`${JSON.stringify(asked)}\n`);
  let stderr = '';
  const stdout = new Readable({
    read: () => void socket.resume(),
    destroy(error, callback) {
      // Who reads no more of it wants no more of the program.
      if (!stdout.readableEnded) socket.destroy();
      callback(error);
    },
  });
  const stdin = new Writable({
    write: (bytes: Buffer, _encoding, callback) => void socket.write(bytes, () => callback()),
    final: (callback) => void socket.end(callback),
  });
  const ended = new Promise<{ code: number | null; stderr: string }>((resolve, reject) => {
    const read = readFrames((kind, bytes) => {
      if (kind === frames.stderr) stderr += bytes.toString('utf8');
      if (kind === frames.stdout && !stdout.push(bytes)) socket.pause();
      if (kind !== frames.ended) return;
      const { code, error } = JSON.parse(bytes.toString('utf8')) as { code: number | null; error?: string };
      stdout.push(null);
      socket.destroy();
      if (error === undefined) resolve({ code, stderr });
      else reject(new Error(`${asked.file} cannot be started: ${error}`));
    });
    socket.on('data', read);
    socket.on('error', reject);
    socket.once('close', () => {
      if (!stdout.destroyed && !stdout.readableEnded) stdout.push(null);
      resolve({ code: null, stderr });
    });
  });
  return { stdin, stdout, ended, kill: () => void socket.destroy() };
}

/** The program server of a run: its socket, and how it ends. */
export async function startProgramServer(): Promise<{ readonly path: string; stop(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-programs-'));
  const path = join(directory, 's');
  const program = fileURLToPath(new URL('program-server.ts', import.meta.url));
  const server = spawn(process.execPath, [program, path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(server, 'close');
  const [first] = (await Promise.race([once(server.stdout, 'data'), ended])) as [unknown];
  if (!Buffer.isBuffer(first)) throw new Error('the program server of the tests did not start');
  return {
    path,
    async stop() {
      server.stdin.end();
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
