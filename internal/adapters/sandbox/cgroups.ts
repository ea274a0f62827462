// Limits through control groups of version 1, below the daemon's own: a group for each sandbox that asks for resources,
// which each of its programs joins before it becomes bubblewrap. The kernel counts all of them together, and tells when
// it ended one for want of memory.

import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path/posix';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ResourceLimiter } from './resources.ts';
import type { SandboxSpec } from './types.ts';

const probeMs = 5_000;
const periodUs = 100_000;
const megabyte = 1024 * 1024;
/** Joins each group that is named, then becomes the program. A group that cannot be joined is no sandbox within limits. */
const joinScript = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"';

interface Places {
  readonly memory: string;
  readonly cpu: string;
}

/** Where the groups of this process are; null where a controller is not mounted in version 1. */
export async function ownGroups(): Promise<Places | null> {
  const [groups, mounts] = await Promise.all(
    ['/proc/self/cgroup', '/proc/self/mountinfo'].map((file) => readFile(file, 'utf8').catch(() => '')),
  );
  const place = (controller: string): string | null => {
    const own = (groups ?? '')
      .split('\n')
      .map((line) => line.split(':'))
      .find(([, names = '']) => names.split(',').includes(controller))?.[2];
    for (const line of (mounts ?? '').split('\n')) {
      const [before = '', after = ''] = line.split(' - ');
      const [, , , root = '', point = ''] = before.split(' ');
      const [kind, , options = ''] = after.split(' ');
      if (kind !== 'cgroup' || !options.split(',').includes(controller) || own === undefined) continue;
      return join(point, root !== '/' && own.startsWith(root) ? own.slice(root.length) : own);
    }
    return null;
  };
  const [memory, cpu] = [place('memory'), place('cpu')];
  return memory === null || cpu === null ? null : { memory, cpu };
}

/** Tries a group with both limits; null where that does not work here. `tag`: of the data directory. */
export async function probeGroups(tag: string): Promise<ResourceLimiter | null> {
  const places = await ownGroups();
  if (places === null) return null;
  const groups = new Groups(places, tag);
  try {
    await groups.sweep();
    const probe = `probe${process.pid}`;
    const { argv } = await groups.wrap(['/bin/true'], { cpuCount: 1, memoryMB: 128 }, probe);
    const [file = '', ...args] = argv;
    const works = await new Promise<boolean>((resolve) => {
      execFile(file, args, { env: {}, timeout: probeMs }, (error) => resolve(error === null));
    });
    await groups.release(probe);
    return works ? groups : null;
  } catch {
    return null; // Not ours to write to, or without a setting that is needed: they cannot be used.
  }
}

class Groups implements ResourceLimiter {
  readonly works = true;
  readonly why = 'control groups';
  readonly #places: Places;
  readonly #prefix: string;
  /** How often the kernel has ended a program of a sandbox, as far as was told. */
  readonly #told = new Map<string, number>();

  constructor(places: Places, tag: string) {
    this.#places = places;
    this.#prefix = `svc-${tag}-`;
  }

  async wrap(argv: readonly string[], resources: SandboxSpec['resources'], id: string) {
    if (resources === undefined) return { argv, env: {} };
    const groups: string[] = [];
    if (resources.memoryMB !== undefined) {
      const group = await this.#make(this.#places.memory, id);
      await setMemory(group, resources.memoryMB * megabyte);
      groups.push(group);
    }
    if (resources.cpuCount !== undefined) {
      const group = await this.#make(this.#places.cpu, id);
      await writeFile(join(group, 'cpu.cfs_period_us'), String(periodUs));
      await writeFile(join(group, 'cpu.cfs_quota_us'), String(resources.cpuCount * periodUs));
      groups.push(group);
    }
    return { argv: ['/bin/sh', '-c', joinScript, 'sh', ...groups, '--', ...argv], env: {} };
  }

  async outOfMemory(id: string): Promise<boolean> {
    const file = join(this.#places.memory, this.#prefix + id, 'memory.oom_control');
    const text = await readFile(file, 'utf8').catch(() => '');
    const count = Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
    const before = this.#told.get(id) ?? 0;
    this.#told.set(id, count);
    return count > before;
  }

  async release(id: string): Promise<void> {
    this.#told.delete(id);
    for (const place of Object.values(this.#places)) await remove(join(place, this.#prefix + id));
  }

  /** Groups that an earlier life of this data directory left; one in which something runs stays. */
  async sweep(): Promise<void> {
    for (const place of Object.values(this.#places)) {
      const left = (await readdir(place)).filter((name) => name.startsWith(this.#prefix));
      for (const name of left) await rmdir(join(place, name)).catch(() => undefined); // It is in use, or gone.
    }
  }

  async #make(place: string, id: string): Promise<string> {
    const group = join(place, this.#prefix + id);
    await mkdir(group, { recursive: true });
    return group;
  }
}

/** With swap, where the kernel counts it: neither may be the lower one on the way. */
async function setMemory(group: string, bytes: number): Promise<void> {
  const [plain, swap] = [join(group, 'memory.limit_in_bytes'), join(group, 'memory.memsw.limit_in_bytes')];
  const now = await readFile(plain, 'utf8');
  const isSwapCounted = await readFile(swap, 'utf8').then(
    () => true,
    () => false,
  );
  const files = isSwapCounted ? (Number(now) >= bytes ? [plain, swap] : [swap, plain]) : [plain];
  for (const file of files) await writeFile(file, String(bytes));
}

/** Its last process may still be on its way out. */
async function remove(group: string): Promise<void> {
  for (let tries = 0; tries < 50; tries += 1) {
    const code = await rmdir(group).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    );
    if (code !== 'EBUSY') return;
    await sleep(20);
  }
}
