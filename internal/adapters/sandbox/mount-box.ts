// A clone of this machine into a box: packed here, where it is the service's own, and unpacked inside by a program of the box.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { Fault } from '../../domain/fault.ts';
import type { Sandbox } from './types.ts';

const checkMs = 30_000;
const streamMs = 15 * 60_000;

const free = 'mkdir -p -- "$1" && [ -d "$1" ] && [ -w "$1" ] && [ -z "$(ls -A -- "$1")" ]';
/**
 * By way of a directory of its own: an archive begins with the directory itself, whose mode and times only its owner may set,
 * and the root of a volume is not always the user's.
 */
export const unpackText =
  'mkdir -- "$1/.svc-in" && tar -C "$1/.svc-in" -xpf - && find "$1/.svc-in" -mindepth 1 -maxdepth 1 -exec mv -- {} "$1/" \\; && rmdir -- "$1/.svc-in"';

/** Throws Fault `mount-path` where something else is at the path, or nothing can be put there. */
export async function checkFree(sandbox: Sandbox, mountPath: string): Promise<void> {
  const command = ['/bin/sh', '-c', free, 'sh', mountPath];
  const { code, output } = await sandbox.run({ command, cwd: '/', timeoutMs: checkMs });
  if (code === 0) return;
  const why = output.trim() === '' ? 'there is something else at this path already' : output.trim().slice(-200);
  throw new Fault('unprocessable', 'mount-path', `Mount ${mountPath}: ${why}`);
}

/** Throws Fault `mount-tree` where it cannot be unpacked. */
export async function streamIn(
  sandbox: Sandbox,
  of: {
    readonly stage: string;
    readonly mountPath: string;
    /** In which tar is found. */
    readonly path: string;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const pack = spawn('tar', ['-C', of.stage, '-cf', '-', '.'], {
    env: { PATH: of.path, LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const packed = once(pack, 'exit').catch(() => [1]);
  // Read from the first moment: of a program that has ended, what nobody reads yet is thrown away.
  const archive = pack.stdout.pipe(new PassThrough());
  try {
    const command = ['/bin/sh', '-c', unpackText, 'sh', of.mountPath];
    const options = { cwd: '/', timeoutMs: streamMs, input: archive };
    const done = await sandbox.run({ command, ...options, ...(of.signal !== undefined && { signal: of.signal }) });
    const [code] = (await packed) as [number | null];
    if (done.code === 0 && code === 0) return;
    const why = done.output.trim().slice(-400) || 'it could not be packed';
    throw new Fault(
      'unprocessable',
      'mount-tree',
      `Mount ${of.mountPath}: the clone cannot be put into the sandbox: ${why}`,
    );
  } finally {
    pack.kill('SIGKILL');
  }
}
