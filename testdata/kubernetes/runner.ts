// What runs the pods of the fake cluster for real: the programs of this machine in a file tree, a process tree and, where
// the pod is fenced, a network of their own, as the pod's user and without any capability.

import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readlink, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface PodToRun {
  readonly name: string;
  readonly image: string;
  readonly argv: readonly string[];
  readonly mounts: readonly string[];
  readonly isFenced: boolean;
}
export interface RunningPod {
  /** Resolves when its first process has ended. */
  readonly ended: Promise<{ readonly code: number }>;
  exec(argv: readonly string[]): ChildProcess;
  /** Ends it and removes its files. Safe to call again. */
  kill(): Promise<void>;
}
export type Runner = (pod: PodToRun) => Promise<RunningPod>;

const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib64', '/etc'];
const AS_USER = ['setpriv', '--reuid=1000', '--regid=1000', '--clear-groups', '--bounding-set=-all', '--no-new-privs'];
const PATH = '/opt/node/bin:/usr/local/bin:/usr/bin:/bin';

const above = (path: string): string[] =>
  path
    .split('/')
    .slice(1, -1)
    .map((_step, at, steps) => `/${steps.slice(0, at + 1).join('/')}`);
const visible = (path: string): string[] => ['--perms', '0755', '--dir', path];

/** Needs root, bubblewrap, nsenter and setpriv. `shown`: directories of this machine that are in every image. */
export const runnerOf =
  (shown: readonly string[]): Runner =>
  async (pod) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-pod-'));
    await chmod(folder, 0o755);
    const binds: string[] = [];
    for (const [index, path] of pod.mounts.entries()) {
      const place = join(folder, String(index));
      await mkdir(place);
      await chmod(place, 0o777);
      // What is above a mount is everybody's to see.
      binds.push(...above(path).flatMap(visible), '--bind', place, path);
    }
    const system = SYSTEM.filter((path) => existsSync(path)).flatMap((path) => ['--ro-bind', path, path]);
    const program = shown.flatMap((path) => [...above(path).flatMap(visible), '--ro-bind', path, path]);
    const args = [
      ...[
        '--tmpfs',
        '/',
        ...system,
        ...['--perms', '0755', '--dir', '/opt', '--perms', '0755', '--dir', '/opt/node'],
        '--ro-bind',
        dirname(process.execPath),
        '/opt/node/bin',
        '--proc',
        '/proc',
        '--dev',
        '/dev',
      ],
      // After the mounts: this tree may lie below one of them.
      ...[
        ...binds,
        ...program,
        '--remount-ro',
        '/',
        '--unshare-pid',
        '--unshare-ipc',
        '--unshare-uts',
        '--hostname',
        pod.name,
      ],
      ...[
        ...(pod.isFenced ? ['--unshare-net'] : []),
        '--as-pid-1',
        '--die-with-parent',
        '--clearenv',
        '--setenv',
        'PATH',
        PATH,
      ],
      ...['--setenv', 'HOSTNAME', pod.name, '--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID', '--info-fd', '3'],
      ...['--', ...AS_USER, ...pod.argv],
    ];
    const child = spawn('bwrap', args, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
    const ended = Promise.withResolvers<{ readonly code: number }>();
    child.once('error', () => ended.resolve({ code: 128 }));
    child.once('exit', (code, signal) => ended.resolve({ code: code ?? (signal === 'SIGKILL' ? 137 : 143) }));
    const pid = await firstPid(child);
    return {
      ended: ended.promise,
      exec: (argv) =>
        spawn(
          'nsenter',
          ['--target', String(pid), '--mount', '--pid', '--net', '--ipc', '--uts', '--', ...AS_USER, ...argv],
          {
            stdio: ['pipe', 'pipe', 'pipe'],
            env: { PATH },
          },
        ),
      async kill() {
        // Its first process takes all others of its process tree with it.
        try {
          if (pid !== 0 && child.exitCode === null && child.signalCode === null) process.kill(pid, 'SIGKILL');
        } catch (error) {
          // It has ended meanwhile, and is not waited for yet.
          if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
        }
        await ended.promise;
        await rm(folder, { recursive: true, force: true });
      },
    };
  };

/** Of the pod's first process, as this machine counts them, once it runs in its own file tree; 0 where it did not come so far. */
async function firstPid(child: ChildProcess): Promise<number> {
  let text = '';
  for await (const part of child.stdio[3] as AsyncIterable<Buffer>) text += part.toString();
  if (text === '') return 0;
  const pid = (JSON.parse(text) as { 'child-pid': number })['child-pid'];
  const program = (): Promise<string> => readlink(`/proc/${pid}/exe`).catch(() => '');
  while ((await program()).endsWith('/bwrap')) await sleep(5);
  return pid;
}
