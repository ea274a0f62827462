// What the sandboxes on this machine have in common: directories, one marker per process, and the shell that runs a
// command. A provider says only how a program is started (`launch`) and what a declared path is called inside.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { basename } from 'node:path/posix';
import { Fault } from '../../domain/fault.ts';
import { type Launch, runToEnd, startChild, writeInside } from './child.ts';
import { eachRemoved } from './each-removed.ts';
import { Guard } from './guard.ts';
import {
  relativeTo,
  declaredHome,
  declaredWork,
  declaredPath,
  fencedRun,
  freePath,
  isSystemPath,
  type Layout,
  makeDirectories,
  mountOf,
  type PlacedMount,
  placeOf,
  type SandboxFiles,
  type SandboxRecord,
} from './layout.ts';
import { LocalBox } from './local-box.ts';
import { markerName } from './process-table.ts';
import { killAll, runningIds } from './processes.ts';
import type {
  NotEnforced,
  RunOptions,
  RunResult,
  Sandbox,
  SandboxCapabilities,
  SandboxChanges,
  SandboxName,
  SandboxProcess,
  SandboxProvider,
  SandboxSpec,
  SpawnOptions,
  TrustPaths,
} from './types.ts';
import type { StartRequest } from './wire.ts';

/** How one kind of sandbox starts a program. */
export interface Kind {
  readonly name: SandboxName;
  readonly capabilities: SandboxCapabilities;
  /** HOME and the work directory as processes see them. */
  dirs(files: SandboxFiles): { readonly home: string; readonly work: string; readonly tmp: string };
  /** True where the kernel ends its processes with this one. */
  readonly diesWithParent: boolean;
  /** True where a mount is seen at its declared path; else it lies under the work directory. */
  readonly bindsMounts: boolean;
  notEnforced(spec: SandboxSpec): NotEnforced[];
  launch(
    record: SandboxRecord,
    files: SandboxFiles,
    program: { readonly argv: readonly string[]; readonly env: Readonly<Record<string, string>>; readonly cwd: string },
  ): Promise<Launch> | Launch;
  /**
   * The program that a sandbox's others are started through, over the wire; null, or absent: each is started by itself.
   */
  firstProgram?(record: SandboxRecord): Promise<readonly string[] | null>;
  /** Whether one of its programs was ended for want of memory since this was asked last. */
  outOfMemory?(id: string): Promise<boolean>;
  /** Called when the processes of a sandbox were ended because the provider closes; the sandbox will be opened again. */
  released?(id: string): Promise<void>;
  /** Called when the processes of a sandbox were ended, and it is removed or opened anew. */
  removed?(id: string, files: SandboxFiles): Promise<void>;
}

const channelPattern = /^[a-z][a-z0-9-]{0,31}$/;
const variable = /^[A-Za-z_][A-Za-z0-9_]*$/;

export class LocalProvider implements SandboxProvider {
  readonly name: SandboxName;
  readonly capabilities: SandboxCapabilities;
  readonly layout: Layout;
  readonly kind: Kind;
  readonly boot = randomBytes(6).toString('hex');
  readonly #open = new Map<string, LocalSandbox>();
  readonly #guard: Guard;

  constructor(layout: Layout, kind: Kind) {
    this.layout = layout;
    this.#guard = new Guard(layout.tag, this.boot);
    this.kind = kind;
    this.name = kind.name;
    this.capabilities = kind.capabilities;
  }

  async create(spec: SandboxSpec): Promise<Sandbox> {
    checkSpec(spec);
    const files = this.layout.at(spec.id);
    // An id that was never used here has nothing to end.
    if (existsSync(files.dir)) await this.#endStale(spec.id, files);
    await files.make();
    return this.#opened({ version: 1, spec, mounts: [] }, files);
  }

  async reopen(id: string, changes: SandboxChanges = {}): Promise<Sandbox | null> {
    const files = this.layout.at(id);
    const record = await files.read();
    await this.#endStale(id, files);
    if (record === null) return null;
    const spec = changedSpec(record.spec, changes);
    checkSpec(spec);
    return this.#opened({ ...record, spec }, files);
  }

  async list(): Promise<{ id: string; running: boolean }[]> {
    const running = new Set(await runningIds(this.layout.tag));
    const ids = new Set([...(await this.layout.ids()), ...running]);
    return [...ids].sort().map((id) => ({ id, running: running.has(id) }));
  }

  async reap(...[owned, failed]: Parameters<SandboxProvider['reap']>): Promise<string[]> {
    const found = new Set([...(await this.layout.ids()), ...(await runningIds(this.layout.tag))]);
    const ids = [...found].filter((id) => !this.#open.has(id)).sort();
    if (ids.length === 0) return [];
    const kept = await owned(ids);
    const left = ids.filter((id) => !kept.has(id) && !this.#open.has(id));
    const remove = async (id: string) => {
      const files = this.layout.at(id);
      await this.#endStale(id, files);
      await files.remove();
    };
    return eachRemoved(left, 1, remove, failed);
  }

  async close(): Promise<void> {
    await killAll(({ tag, boot }) => tag === this.layout.tag && boot === this.boot);
    this.#guard.stop();
    for (const id of this.#open.keys()) await this.kind.released?.(id);
    this.#open.clear();
  }

  /** Before a program is started that would outlive this process. */
  guard(): void {
    if (!this.kind.diesWithParent) this.#guard.start();
  }

  forget(id: string): void {
    this.#open.delete(id);
  }

  async #endStale(id: string, files: SandboxFiles): Promise<void> {
    this.#open.delete(id);
    await killAll((marker) => marker.tag === this.layout.tag && marker.id === id);
    await this.kind.removed?.(id, files);
  }

  async #opened(record: SandboxRecord, files: SandboxFiles): Promise<Sandbox> {
    for (const { name } of record.spec.channels ?? []) files.socket(name);
    await files.write(record);
    const sandbox = new LocalSandbox(this, record, files);
    this.#open.set(record.spec.id, sandbox);
    return sandbox;
  }
}

/** What is not among the changes stays, but for what each launch says anew: the root file system. */
export function changedSpec(
  { rootfs: _before, ...spec }: SandboxSpec,
  { rootfs, ...changes }: SandboxChanges,
): SandboxSpec {
  return { ...spec, ...changes, ...(rootfs !== undefined && { rootfs }) };
}

/** A declared path; one that is not absolute is below the work directory. */
export const fromWork = (declared: string): string =>
  declared.startsWith('/') ? declared : `${declaredWork}/${declared}`;

const joined = (base: string, rest: string): string => (rest === '' ? base : `${base}/${rest}`);

/** Throws Fault `invalid` for a channel that cannot be one, and for a read-only path that is none. */
export function checkSpec(spec: SandboxSpec): void {
  for (const { name, port } of spec.channels ?? []) {
    if (!channelPattern.test(name) || !Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new Fault('invalid', 'sandbox-channel', `A channel cannot be ${JSON.stringify(name)} at port ${port}`);
    }
  }
  for (const path of spec.readOnlyPaths ?? []) declaredPath(path, 'The read-only path');
}

/** Throws Fault `unprocessable` for what no environment can hold, and what a program would be started with half of. */
export function checkEnvironment(env: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(env)) {
    if (!variable.test(name)) {
      throw new Fault('unprocessable', 'sandbox-env', `${JSON.stringify(name)} cannot name an environment variable`);
    }
    if (value.includes('\0')) {
      throw new Fault(
        'unprocessable',
        'sandbox-env',
        `The value of ${name} holds a NUL character, which no environment can`,
      );
    }
  }
}

export class LocalSandbox implements Sandbox {
  readonly id: string;
  readonly provider: SandboxName;
  readonly home: string;
  readonly workDir: string;
  readonly notEnforced: readonly NotEnforced[];
  readonly fenced: boolean;
  readonly files: SandboxFiles;
  readonly #owner: LocalProvider;
  readonly #tmp: string;
  #record: SandboxRecord;
  readonly #children = new Set<SandboxProcess>();
  readonly #boxes = new Set<LocalBox>();
  #box: LocalBox | null = null;
  #spawns = 0;
  #trusts = 0;
  #isStopped = false;

  constructor(owner: LocalProvider, record: SandboxRecord, files: SandboxFiles) {
    const { home, work, tmp } = owner.kind.dirs(files);
    this.#owner = owner;
    this.#record = record;
    this.#tmp = tmp;
    this.files = files;
    this.id = record.spec.id;
    this.provider = owner.name;
    this.home = home;
    this.workDir = work;
    this.fenced = record.spec.fenced === true && owner.capabilities.networkFence;
    this.notEnforced = owner.kind.notEnforced(record.spec);
  }

  get mounts(): readonly PlacedMount[] {
    return this.#record.mounts;
  }

  async setTrust(trust: { readonly ca: string; readonly all: string } | null): Promise<TrustPaths | null> {
    const { ca, all } = this.files.trust;
    // What is bound in a box is the file that was there when it was started.
    this.#trusts += 1;
    await Promise.all([ca, all].map((path) => rm(path, { force: true })));
    if (trust === null || !this.fenced) return null;
    await writeFile(ca, trust.ca, { mode: 0o644 });
    await writeFile(all, trust.all, { mode: 0o644 });
    return { ca: `${fencedRun}/${basename(ca)}`, all: `${fencedRun}/${basename(all)}` };
  }

  socketOf(channel: string): string {
    if (this.#record.spec.channels?.some(({ name }) => name === channel) !== true) {
      throw new Error(`the sandbox has no channel ${channel}`);
    }
    return this.files.socket(channel);
  }

  pathIn(declared: string): string {
    const path = declaredPath(fromWork(declared), 'The path');
    const mount = mountOf(path, this.#record.mounts);
    if (mount !== undefined) {
      return joined(this.mountIn(mount), relativeTo(path, mount.mountPath) ?? '');
    }
    const inHome = relativeTo(path, declaredHome);
    if (inHome !== undefined) return joined(this.home, inHome);
    const inWork = relativeTo(path, declaredWork);
    if (inWork !== undefined) return joined(this.workDir, inWork);
    const inTmp = relativeTo(path, '/tmp');
    if (inTmp !== undefined) return joined(this.#tmp, inTmp);
    return this.bindsMounts ? path : joined(this.workDir, path.slice(1));
  }

  async makeDirectory(declared: string): Promise<string> {
    const path = declaredPath(fromWork(declared), 'The directory');
    const seen = this.pathIn(path);
    if (this.bindsMounts && placeOf(path, this.files, this.mounts) === null) {
      if (isSystemPath(path) && (await this.#holdsDirectory(seen))) return seen;
      const mountPath = freePath(path, 'Directory');
      // Above a mount it is there, and to bind another over it would hide the mount.
      if (this.mounts.some((mount) => mount.isBound && relativeTo(mount.mountPath, path) !== undefined)) return seen;
      const hostPath = await makeDirectories(this.files.mounts, String(this.mounts.length), path);
      await this.recordMount({ mountPath, hostPath, isBound: true, url: '', ref: null, commit: '' });
      return seen;
    }
    const made = await this.run({ command: ['mkdir', '-p', '--', seen], cwd: this.home, timeoutMs: 30_000 });
    if (made.code === 0) return seen;
    throw new Fault('unprocessable', 'sandbox-file', `${path} cannot be made in the sandbox: ${made.output.trim()}`);
  }

  async #holdsDirectory(seen: string): Promise<boolean> {
    const looked = await this.run({ command: ['test', '-d', seen], cwd: this.home, timeoutMs: 30_000 });
    return looked.code === 0;
  }

  /** A mount's directory as processes see it. */
  mountIn(mount: PlacedMount): string {
    if (this.#owner.kind.bindsMounts) return mount.mountPath;
    const [host, seen] = (
      [
        [this.files.home, this.home],
        [this.files.work, this.workDir],
        [this.files.tmp, this.#tmp],
      ] as const
    ).find(([dir]) => relativeTo(mount.hostPath, dir) !== undefined) ?? [mount.hostPath, mount.hostPath];
    return joined(seen, relativeTo(mount.hostPath, host) ?? '');
  }

  get bindsMounts(): boolean {
    return this.#owner.kind.bindsMounts;
  }

  async recordMount(mount: PlacedMount): Promise<void> {
    this.#record = { ...this.#record, mounts: [...this.#record.mounts, mount] };
    await this.files.write(this.#record);
  }

  async spawn(options: SpawnOptions): Promise<SandboxProcess> {
    if (this.#isStopped) throw new Fault('unavailable', 'sandbox-stopped', 'The sandbox was stopped: open it again');
    checkEnvironment(options.env ?? {});
    if (options.argv.length === 0 || options.argv.some((word) => word.includes('\0'))) {
      throw new Fault(
        'unprocessable',
        'sandbox-spawn',
        'A program needs a name, and no argument can hold a NUL character',
      );
    }
    const base = { USER: 'user', LOGNAME: 'user', LANG: 'C.UTF-8', SHELL: '/bin/sh', TMPDIR: this.#tmp };
    const env: Record<string, string> = { ...base, ...options.env, HOME: this.home };
    delete env[markerName];
    const program = { argv: options.argv, env, cwd: options.cwd ?? this.workDir };
    const child = await this.#start(program);
    this.#children.add(child);
    if (this.#isStopped) await child.kill(); // Stopped while it was being started.
    void child.exited.then(() => this.#children.delete(child));
    return child;
  }

  async #start(program: StartRequest): Promise<SandboxProcess> {
    const { kind, layout, boot } = this.#owner;
    const marker = { tag: layout.tag, boot, id: this.id, spawn: String(this.#spawns++) };
    this.#owner.guard();
    const [record, trusts] = [this.#record, this.#trusts];
    const first = (await kind.firstProgram?.(record)) ?? null;
    if (first === null) return startChild(await kind.launch(record, this.files, program), marker);
    const key = JSON.stringify([record, trusts]);
    let box = this.#box;
    if (box === null || box.isOver || box.key !== key) {
      box?.retire();
      const channels = record.spec.channels ?? [];
      box = new LocalBox({
        key,
        marker,
        channels,
        launch: async () => kind.launch(record, this.files, { argv: first, env: {}, cwd: '/' }),
        socketOf: (name) => (channels.some((one) => one.name === name) ? this.files.socket(name) : null),
      });
      this.#box = box;
      this.#boxes.add(box);
    }
    return box.start(program);
  }

  async run(options: RunOptions): Promise<RunResult> {
    const { command } = options;
    const argv = typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
    const child = await this.spawn({
      argv,
      ...(options.env !== undefined && { env: options.env }),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    });
    return runToEnd(child, options);
  }

  writeFile(path: string, content: string | Uint8Array, mode = 0o600): Promise<void> {
    return writeInside(this, { path, content, mode });
  }

  async outOfMemory(): Promise<number | null> {
    const { memoryMB } = this.#record.spec.resources ?? {};
    const wasEnded = memoryMB !== undefined && (await this.#owner.kind.outOfMemory?.(this.id)) === true;
    return wasEnded ? memoryMB : null;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#owner.forget(this.id);
    await Promise.all([...this.#boxes].map((box) => box.stop()));
    await Promise.all([...this.#children].map((child) => child.kill()));
    if (!this.#owner.kind.diesWithParent) {
      await killAll((marker) => marker.tag === this.#owner.layout.tag && marker.id === this.id);
    }
    await this.#owner.kind.removed?.(this.id, this.files);
  }

  async destroy(): Promise<void> {
    await this.stop();
    await this.files.remove();
  }
}
