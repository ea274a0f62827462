// Sandboxes in boxes of a container engine, whichever it is: all but the box itself goes over the wire. A sandbox's home,
// work and mounts lie on its volume; on this machine there are only its record and the sockets that its channels lead to.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { BoxRef, BoxSpec, Engine, EngineFacts } from '../engine/types.ts';
import { Fault } from '../../domain/fault.ts';
import { type EngineOwner, EngineSandbox } from './engine-sandbox.ts';
import { below, declaredHome, declaredWork, freePath, type Layout, type SandboxFiles } from './layout.ts';
import { changedSpec, checkSpec } from './local.ts';
import type {
  HeldSandbox,
  LastingProgram,
  Sandbox,
  SandboxCapabilities,
  SandboxChanges,
  SandboxName,
  SandboxProvider,
  SandboxSpec,
  SandboxWatch,
  TakenOver,
} from './types.ts';
import { initArgv } from './wire.ts';

export interface EngineProviderOptions {
  readonly engine: Engine;
  readonly facts: EngineFacts;
  readonly layout: Layout;
  /** `required`: a launch fails where anything but the channels is reached from inside. */
  readonly fence: 'preferred' | 'required';
  /** True where the engine sees this machine's files, so that a harness's program can be shown in a box. */
  readonly isLocal: boolean;
  /** After so much silence a box ends itself, and its wire is given up. Default 60. */
  readonly lostSeconds?: number;
  /** Files of the daemon that no sandbox may show, beside its data directory: keys. */
  readonly privateFiles: readonly string[];
}

export class EngineProvider implements SandboxProvider, EngineOwner {
  readonly name: SandboxName;
  readonly capabilities: SandboxCapabilities;
  readonly alwaysFenced = true;
  readonly engine: Engine;
  readonly fence: 'preferred' | 'required';
  readonly lostSeconds: number;
  readonly #options: EngineProviderOptions;
  readonly #open = new Map<string, EngineSandbox>();

  constructor(options: EngineProviderOptions) {
    const { engine, facts } = options;
    this.#options = options;
    this.engine = engine;
    this.fence = options.fence;
    this.lostSeconds = options.lostSeconds ?? 60;
    this.name = engine.name as SandboxName;
    this.capabilities = {
      isolation: facts.isolation,
      injectionEdge: true,
      snapshot: true,
      resources: facts.limits.memory === null && facts.limits.cpu === null,
      networkFence: true,
      images: true,
      commit: engine.commit !== undefined && facts.commit === null,
      warm: facts.warm,
      survivesRestart: true,
    };
  }

  /** Of this data directory. */
  get installation(): string {
    return this.#options.layout.tag;
  }

  async create(spec: SandboxSpec, watch: SandboxWatch = {}): Promise<Sandbox> {
    checkBox(spec);
    const files = this.#options.layout.at(spec.id);
    await this.#endStale(spec.id);
    await this.engine.removeVolume(this.installation, spec.id);
    await files.make();
    return this.#opened({ spec, files, isFresh: true, watch });
  }

  async reopen(id: string, changes: SandboxChanges = {}, watch: SandboxWatch = {}): Promise<Sandbox | null> {
    const files = this.#options.layout.at(id);
    const record = await files.read();
    await this.#endStale(id);
    if (record === null || !(await this.engine.hasVolume(this.installation, id))) return null;
    const before = record.spec.epoch ?? 0;
    const { epoch = before + 1, ...spec } = changedSpec(record.spec, changes);
    checkBox(spec);
    return this.#opened({ spec: { ...spec, epoch }, files, isFresh: false, watch });
  }

  async takeOver(
    id: string,
    { uid, secret }: HeldSandbox,
    program: LastingProgram & { prepare(sandbox: Sandbox): Promise<void> },
  ): Promise<TakenOver | null> {
    const files = this.#options.layout.at(id);
    const record = await files.read();
    const box = (await this.engine.list(this.installation, id)).find((one) => one.uid === uid && one.running);
    if (record === null || box === undefined) return null;
    // It has its image, and is not built again.
    const resolved = { reference: '', digest: '' };
    const sandbox = new EngineSandbox(this, { spec: record.spec, files, resolved, secret, isFresh: false });
    this.#open.set(id, sandbox);
    await program.prepare(sandbox);
    const process = await sandbox.takeOver(box, program);
    return process === null ? null : { sandbox, process };
  }

  async list(): Promise<{ id: string; running: boolean }[]> {
    const boxes = await this.engine.list(this.installation);
    const running = new Set(boxes.filter((box) => box.running).map(({ owner }) => owner.session));
    return (await this.#ids(boxes)).map((id) => ({ id, running: running.has(id) }));
  }

  async reap(owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<string[]> {
    const boxes = await this.engine.list(this.installation);
    const ids = (await this.#ids(boxes)).filter((id) => !this.#open.has(id));
    if (ids.length === 0) return [];
    const kept = await owned(ids);
    const removed = ids.filter((id) => !kept.has(id) && !this.#open.has(id));
    for (const id of removed) await this.remove(id);
    return removed;
  }

  /** Ends boxes of a sandbox, and removes its volume and its files. */
  async remove(id: string): Promise<void> {
    await this.#endStale(id);
    await this.engine.removeVolume(this.installation, id);
    await this.#options.layout.at(id).remove();
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    // What cannot be ended now ends itself without its daemon, and is removed by the next start.
    await Promise.all(open.map((sandbox) => sandbox.stop().catch(() => undefined)));
    await this.engine.close();
  }

  forget(sandbox: EngineSandbox): void {
    if (this.#open.get(sandbox.id) === sandbox) this.#open.delete(sandbox.id);
  }

  /** A box for a spec, from the image that its name is now, or from what was built of it. */
  async box(
    spec: SandboxSpec,
    image: BoxSpec['image'],
    purpose: BoxSpec['purpose'],
    { onStage }: SandboxWatch = {},
  ): Promise<BoxRef> {
    const { isLocal } = this.#options;
    const { id, epoch = 1, resources = {}, directories = [], readOnlyPaths = [] } = spec;
    const owner = { installation: this.installation, session: id, epoch };
    return this.engine.create({
      owner: purpose === 'build' ? { ...owner, session: `${id}-build` } : owner,
      image,
      argv: initArgv({ tag: this.installation, seconds: this.lostSeconds, stdio: this.engine.attach !== undefined }),
      purpose,
      directories: outermost([declaredHome, declaredWork, ...directories]).map((path) => ({ path })),
      readOnlyPaths: isLocal && purpose === 'session' ? readOnlyPaths.filter((path) => this.#maySee(path)) : [],
      resources,
      fenced: true,
      ...(onStage !== undefined && { onStage }),
    });
  }

  /** Whether a box is there and runs; true where the engine cannot be asked. */
  async runs(ref: BoxRef): Promise<boolean> {
    const boxes = await this.engine.list(this.installation, ref.owner.session).catch(() => null);
    return boxes === null || boxes.some(({ uid, running }) => uid === ref.uid && running);
  }

  /** None that is there, holds what is private, or lies in it, but for harnesses that are installed below it. */
  #maySee(path: string): boolean {
    const { layout, privateFiles } = this.#options;
    const hidden = [layout.root, ...privateFiles];
    const shows = hidden.some((one) => below(one, path) !== undefined || below(path, one) !== undefined);
    if (shows)
      throw new Fault(
        'unprocessable',
        'sandbox-path',
        `${path} cannot be shown in a sandbox: it holds files of the service`,
      );
    return existsSync(path);
  }

  async #ids(boxes: readonly BoxRef[]): Promise<string[]> {
    const { layout } = this.#options;
    const volumes = await this.engine.volumes(this.installation);
    const sessions = boxes.map(({ owner }) => owner.session);
    const own: string[] = [];
    for (const id of await layout.ids()) if ((await layout.at(id).read())?.spec.image !== undefined) own.push(id);
    return [...new Set([...own, ...volumes, ...sessions])].toSorted();
  }

  async #endStale(id: string): Promise<void> {
    this.#open.get(id)?.abandon();
    this.#open.delete(id);
    for (const box of await this.engine.list(this.installation, id)) await this.engine.destroy(box);
  }

  async #opened(of: {
    readonly spec: SandboxSpec;
    readonly files: SandboxFiles;
    readonly isFresh: boolean;
    readonly watch: SandboxWatch;
  }): Promise<Sandbox> {
    const { spec, files, isFresh, watch } = of;
    const { image } = spec;
    if (image === undefined) {
      throw new Fault('unprocessable', 'preset-image', 'The sandbox has no image: set sandboxes.presets.<name>.image');
    }
    for (const { name } of spec.channels ?? []) files.socket(name);
    await files.write({ version: 1, spec, mounts: [] });
    watch.onStage?.('pulling');
    const resolved = await this.engine.resolve(image);
    const secret = randomBytes(32).toString('base64url');
    const sandbox = new EngineSandbox(this, { spec, files, resolved, secret, isFresh });
    this.#open.set(spec.id, sandbox);
    try {
      await sandbox.start(watch);
      return sandbox;
    } catch (error) {
      await sandbox.stop().catch(() => undefined); // What went wrong first is told; the reaper finds what is left.
      throw error;
    }
  }
}

/** Throws Fault for what no box can be made with. */
function checkBox(spec: SandboxSpec): void {
  checkSpec(spec);
  for (const path of spec.directories ?? []) {
    freePath(path, 'Mount');
    // It stands between the two paths of a mount, in words that an engine takes for its own trouble.
    if (path.includes(':'))
      throw new Fault('unprocessable', 'mount-path', `Mount ${path}: engines take no path with a colon`);
  }
}

/** Without those that lie in another one. */
function outermost(paths: readonly string[]): string[] {
  const all = [...new Set(paths.map((path) => path.replace(/(?<=.)\/+$/, '')))];
  return all.filter((path) => !all.some((other) => other !== path && below(path, other) !== undefined));
}
