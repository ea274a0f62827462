// What runs the pods of the fake cluster for real: the programs of this machine in a file tree, a process tree and, where
// the pod is fenced, a network of their own, as the pod's user and without any capability.

import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readlink, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface PodToRun {
  readonly name: string;
  readonly image: string;
  readonly argv: readonly string[];
  readonly mounts: readonly string[];
  readonly isFenced: boolean;
  /** The policy of those that dial lets it out, to `ways`. */
  readonly isLetOut?: boolean;
}
/** An address that a policy lets pods reach, and the port of this machine that is behind it. */
export interface Way {
  readonly port: number;
  readonly to: number;
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

/** What is let out of pods, for tests to cut or to hold. */
export class PodWays {
  readonly all: Way[] = [];
  readonly #open = new Set<Socket>();
  /** No connection is made or mended. */
  isCut = false;
  /** How many came. */
  count = 0;

  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  /** Joins a connection that came out of a pod to this machine. */
  join(near: Socket, to: number): void {
    near.on('error', () => near.destroy());
    this.count += 1;
    if (this.isCut) return void near.destroy();
    // As the hops of a network, which hold nothing back.
    const far = connect({ port: to, host: '127.0.0.1', noDelay: true });
    far.on('error', () => near.destroy());
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#open.add(one);
      one.on('close', () => {
        this.#open.delete(one);
        other.destroy();
      });
    }
    near.pipe(far).pipe(near);
  }
}

/** Listens at 127.0.0.1 of a pod's network, and hands each connection to a socket that lies in a file. */
const gate = `const net = require('node:net'), [port, path] = JSON.parse(process.argv[1]);
process.stdin.on('end', () => process.exit(0)).resume();
net.createServer({ noDelay: true }, (near) => { const far = net.connect(path), end = () => (near.destroy(), far.destroy());
  for (const one of [near, far]) one.on('error', end).on('close', end);
  near.pipe(far).pipe(near); }).listen(port, '127.0.0.1', () => console.log('open'));`;

/** What ends the ways of a pod. */
export async function joinPod(pid: number, folder: string, ways: PodWays): Promise<() => void> {
  const ends = await Promise.all(
    ways.all.map(async ({ port, to }) => {
      const path = join(folder, `way-${port}.sock`);
      const server = createServer((near) => ways.join(near, to));
      await new Promise<void>((resolve) => server.listen(path, resolve));
      const argv = ['--target', String(pid), '--net', '--', process.execPath, '-e', gate, JSON.stringify([port, path])];
      const child = spawn('nsenter', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
      await new Promise((resolve) => child.stdout.once('data', resolve).once('close', resolve));
      return () => {
        child.stdin.end();
        server.close();
      };
    }),
  );
  return () => ends.forEach((end) => end());
}

/** Needs root, bubblewrap, nsenter and setpriv. `shown`: directories of this machine that are in every image. */
export const runnerOf =
  (shown: readonly string[], ways = new PodWays()): Runner =>
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
    const endWays = pod.isLetOut === true && pid !== 0 ? await joinPod(pid, folder, ways) : undefined;
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
        endWays?.();
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
