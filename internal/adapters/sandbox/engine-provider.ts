// Sandboxes in boxes of a container engine, whichever it is: all but the box itself goes over the wire. A sandbox's home,
// work and mounts lie on its volume; on this machine there are only its record and the sockets that its channels lead to.

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { BoxRef, BoxSpec, Engine, EngineFacts } from '../engine/types.ts';
import { sha256 } from '../../base/hash.ts';
import { unlessAborted, within } from '../../base/waits.ts';
import { Fault } from '../../domain/fault.ts';
import { eachRemoved } from './each-removed.ts';
import { type EngineOwner, EngineSandbox, type EngineSandboxOf } from './engine-sandbox.ts';
import {
  relativeTo,
  declaredHome,
  declaredWork,
  freePath,
  type Layout,
  type SandboxFiles,
  type SandboxRecord,
} from './layout.ts';
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
import { type Place, textOf, type WireDoor } from './wire-door.ts';

/** What no fence may let through in any place: the metadata service of clouds, and two public addresses. */
const outside = [
  { host: '169.254.169.254', port: 80 },
  { host: '1.1.1.1', port: 443 },
  { host: '8.8.8.8', port: 53 },
];

/** An engine that takes its time over one box has others to do meanwhile. */
const removalsAtOnce = 4;
/** How long the end of a box is waited for whose launch was given up. */
const givenUpMs = 2_000;

export interface EngineProviderOptions {
  readonly engine: Engine;
  readonly facts: EngineFacts;
  readonly layout: Layout;
  /** The id of the daemon's database; absent: there is none, and labels are made of the data directory's path alone. */
  readonly installation?: string;
  /** `required`: a launch fails where anything but the channels is reached from inside. */
  readonly fence: 'preferred' | 'required';
  /** True where the engine sees this machine's files, so that a harness's program can be shown in a box. */
  readonly isLocal: boolean;
  /** After so much silence a box ends itself, and its wire is given up. Default 60. */
  readonly lostSeconds?: number;
  /** Where boxes come to (`wire: dial`); absent: the wire is a stream into them. */
  readonly door?: WireDoor;
  /** Addresses of this daemon that no box may reach. */
  readonly around?: readonly Place[];
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
  readonly door: WireDoor | undefined;
  /**
   * Of this data directory and its database: installations of several databases may share an engine, and paths with it, as
   * containers do. What an earlier version has left has a label of the path alone (`#former`), which another database's may have too.
   */
  readonly installation: string;
  readonly #former: string;
  readonly #options: EngineProviderOptions;
  readonly #open = new Map<string, EngineSandbox>();

  constructor(options: EngineProviderOptions) {
    const { engine, facts, layout, installation } = options;
    this.#options = options;
    this.#former = layout.tag;
    this.installation = installation === undefined ? layout.tag : sha256(`${installation} ${layout.root}`).slice(0, 16);
    this.engine = engine;
    this.fence = options.fence;
    this.lostSeconds = options.lostSeconds ?? 60;
    this.door = options.door;
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

  async create(spec: SandboxSpec, watch: SandboxWatch = {}): Promise<Sandbox> {
    checkBox(spec);
    const files = this.#options.layout.at(spec.id);
    await this.#removeBoxes(spec.id, await files.read(), watch);
    await files.make();
    return this.#opened({ spec, files, installation: this.installation, isFresh: true, watch });
  }

  async reopen(id: string, changes: SandboxChanges = {}, watch: SandboxWatch = {}): Promise<Sandbox | null> {
    const files = this.#options.layout.at(id);
    const record = await files.read();
    await this.#endStale(id, record, watch);
    const { installation = this.#former } = record ?? {};
    if (record === null || !(await wanted(this.engine.hasVolume(installation, id), watch))) return null;
    const before = record.spec.epoch ?? 0;
    const { epoch = before + 1, ...spec } = changedSpec(record.spec, changes);
    checkBox(spec);
    return this.#opened({ spec: { ...spec, epoch }, files, installation, isFresh: false, watch });
  }

  async holds(id: string, held: HeldSandbox): Promise<boolean> {
    return (await this.#boxOf(id, held)) !== undefined;
  }

  async takeOver(
    id: string,
    held: HeldSandbox,
    program: LastingProgram & Pick<SandboxWatch, 'signal'> & { prepare(sandbox: Sandbox): Promise<void> },
  ): Promise<TakenOver | null> {
    const { secret, installation = this.#former } = held;
    const files = this.#options.layout.at(id);
    let record = await files.read();
    const box = await wanted(this.#boxOf(id, held), program);
    if (
      held.spec !== undefined &&
      box !== undefined &&
      (record === null || installation !== this.#installationOf(record))
    ) {
      record = { version: 1, spec: held.spec, mounts: [], installation };
      await files.make();
      await files.write(record);
    }
    if (record === null || box === undefined) return null;
    // It has its image, and is not built again.
    const resolved = { reference: '', digest: '' };
    const { spec } = record;
    const sandbox = new EngineSandbox(this, { spec, files, installation, resolved, secret, isFresh: false });
    this.#open.set(id, sandbox);
    await program.prepare(sandbox);
    const process = await sandbox.takeOver(box, program);
    return process === null ? null : { sandbox, process };
  }

  async list(): Promise<{ id: string; running: boolean }[]> {
    const boxes = await this.#boxes();
    const running = new Set(boxes.filter((box) => box.running).map(({ owner }) => owner.session));
    return (await this.#ids(boxes)).map((id) => ({ id, running: running.has(id) }));
  }

  async reap(...[owned, failed]: Parameters<SandboxProvider['reap']>): Promise<string[]> {
    const boxes = await this.#boxes();
    const ids = (await this.#ids(boxes)).filter((id) => !this.#open.has(id));
    if (ids.length === 0) return [];
    const kept = await owned(ids);
    const left = ids.filter((id) => !kept.has(id) && !this.#open.has(id));
    return eachRemoved(left, removalsAtOnce, (id) => this.remove(id), failed);
  }

  /** Ends boxes of a sandbox, and removes its volume and its files. */
  async remove(id: string): Promise<void> {
    const files = this.#options.layout.at(id);
    await this.#removeBoxes(id, await files.read());
    await files.remove();
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
    { spec, installation }: Pick<EngineSandboxOf, 'spec' | 'installation'>,
    image: BoxSpec['image'],
    purpose: BoxSpec['purpose'],
    { onStage, signal }: SandboxWatch = {},
  ): Promise<BoxRef> {
    const { isLocal } = this.#options;
    const { id, epoch = 1, resources = {}, directories = [], readOnlyPaths = [] } = spec;
    const owner = { installation, session: id, epoch };
    return this.engine.create({
      owner: purpose === 'build' ? { ...owner, session: `${id}-build` } : owner,
      image,
      argv: initArgv({ tag: this.installation, seconds: this.lostSeconds, stdio: this.engine.attach !== undefined }),
      purpose,
      directories: outermost([declaredHome, declaredWork, ...directories]).map((path) => ({ path })),
      readOnlyPaths: isLocal && purpose === 'session' ? readOnlyPaths.filter((path) => this.#maySee(path)) : [],
      resources,
      fenced: true,
      dials: this.door !== undefined,
      ...(onStage !== undefined && { onStage }),
      ...(signal !== undefined && { signal }),
    });
  }

  async outside(): Promise<readonly Place[]> {
    return [...outside, ...(this.#options.around ?? []), ...((await this.engine.around?.()) ?? [])];
  }

  async trouble(): Promise<string | null> {
    const { door } = this;
    const why = door === undefined ? null : await door.trouble();
    return why && `pods are told to dial ${textOf(door?.place)}, which does not lead to this daemon: ${why}`;
  }

  /** Whether a box is there and runs; true where the engine cannot be asked. */
  async runs(ref: BoxRef): Promise<boolean> {
    const { installation, session } = ref.owner;
    const boxes = await this.engine.list(installation, session).catch(() => null);
    return boxes === null || boxes.some(({ uid, running }) => uid === ref.uid && running);
  }

  /** None that is there, holds what is private, or lies in it, but for harnesses that are installed below it. */
  #maySee(path: string): boolean {
    const { layout, privateFiles } = this.#options;
    const hidden = [layout.root, ...privateFiles];
    const shows = hidden.some((one) => relativeTo(one, path) !== undefined || relativeTo(path, one) !== undefined);
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

  /** Those of this data directory and its database, and those of sandboxes that have another label: taken over, or of an earlier version. */
  async #boxes(): Promise<BoxRef[]> {
    const { layout } = this.#options;
    const boxes = [...(await this.engine.list(this.installation))];
    for (const id of await layout.ids()) {
      const record = await layout.at(id).read();
      const installation = record === null ? this.installation : this.#installationOf(record);
      if (installation !== this.installation) boxes.push(...(await this.engine.list(installation, id)));
    }
    return boxes;
  }

  async #boxOf(id: string, { uid, installation = this.#former }: HeldSandbox): Promise<BoxRef | undefined> {
    return (await this.engine.list(installation, id)).find((one) => one.uid === uid && one.running);
  }

  /** The labels under which a sandbox may have boxes and a volume. */
  #installations(record: SandboxRecord | null): readonly string[] {
    return [...new Set([this.installation, ...(record === null ? [] : [this.#installationOf(record)])])];
  }

  #installationOf({ installation = this.#former }: SandboxRecord): string {
    return installation;
  }

  async #endStale(id: string, record: SandboxRecord | null, watch: SandboxWatch = {}): Promise<void> {
    this.#open.get(id)?.abandon();
    this.#open.delete(id);
    for (const installation of this.#installations(record)) {
      const boxes = await wanted(this.engine.list(installation, id), watch);
      for (const box of boxes) await wanted(this.engine.destroy(box), watch);
    }
  }

  async #removeBoxes(id: string, record: SandboxRecord | null, watch: SandboxWatch = {}): Promise<void> {
    await this.#endStale(id, record, watch);
    for (const installation of this.#installations(record))
      await wanted(this.engine.removeVolume(installation, id), watch);
  }

  async #opened(of: {
    readonly spec: SandboxSpec;
    readonly files: SandboxFiles;
    readonly installation: string;
    readonly isFresh: boolean;
    readonly watch: SandboxWatch;
  }): Promise<Sandbox> {
    const { spec, files, installation, isFresh, watch } = of;
    const { image } = spec;
    if (image === undefined) {
      throw new Fault('unprocessable', 'preset-image', 'The sandbox has no image: set sandboxes.presets.<name>.image');
    }
    for (const { name } of spec.channels ?? []) files.socket(name);
    await files.write({ version: 1, spec, mounts: [], installation });
    watch.onStage?.('pulling');
    const resolved = await this.engine.resolve(image, watch.signal);
    const secret = randomBytes(32).toString('base64url');
    const sandbox = new EngineSandbox(this, { spec, files, installation, resolved, secret, isFresh });
    this.#open.set(spec.id, sandbox);
    try {
      await sandbox.start(watch);
      return sandbox;
    } catch (error) {
      // What went wrong first is told; the reaper finds what is left. Who gave it up waits for no engine that says nothing.
      const stopping = sandbox.stop().catch(() => undefined);
      await (watch.signal?.aborted === true ? within(stopping, givenUpMs) : stopping);
      throw error;
    }
  }
}

/** What the engine answers, as long as the launch is wanted that asks: one that fell silent takes a minute for each call. */
const wanted = <T>(work: Promise<T>, { signal }: SandboxWatch): Promise<T> =>
  signal === undefined ? work : unlessAborted(work, signal);

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
  return all.filter((path) => !all.some((other) => other !== path && relativeTo(path, other) !== undefined));
}
