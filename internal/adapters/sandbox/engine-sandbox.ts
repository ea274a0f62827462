// One sandbox in a box of an engine, from the start of the box to its end. Its user is 1000, and what it may write to are
// home, work, its mounts and /tmp.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Duplex } from 'node:stream';
import { EngineError } from '../engine/engine.ts';
import type { BoxRef, BoxSpec, Engine, ResolvedImage } from '../engine/types.ts';
import { Fault } from '../../domain/fault.ts';
import { runToEnd, writeInside } from './child.ts';
import { runSteps, takeHome } from './engine-build.ts';
import { declaredHome, declaredWork, declaredPath, freePath, type SandboxFiles } from './layout.ts';
import { imageTag } from './image-tag.ts';
import { checkEnvironment, fromWork } from './local.ts';
import type {
  BuildOptions,
  HeldSandbox,
  LastingProgram,
  NotEnforced,
  RunOptions,
  RunResult,
  Sandbox,
  SandboxCapabilities,
  SandboxName,
  SandboxProcess,
  SandboxSpec,
  SandboxWatch,
  SpawnOptions,
  TrustPaths,
} from './types.ts';
import { bridgeArgv, Wire } from './wire.ts';
import { DialedWay } from './wire-dial.ts';
import type { Place, WireDoor } from './wire-door.ts';
import { BoxGone } from './wire-link.ts';

/** What a sandbox needs of its provider. */
export interface EngineOwner {
  readonly name: SandboxName;
  readonly capabilities: SandboxCapabilities;
  readonly engine: Engine;
  readonly fence: 'preferred' | 'required';
  /** After so much silence a box ends itself, and its wire is given up. */
  readonly lostSeconds: number;
  /** Where boxes come to; absent: the wire is a stream into them. */
  readonly door?: WireDoor | undefined;
  /** Addresses that no fence may let through. */
  outside(): Promise<readonly Place[]>;
  /** Makes a box. */
  box(of: EngineSandboxOf, image: ResolvedImage, purpose: BoxSpec['purpose'], watch?: SandboxWatch): Promise<BoxRef>;
  /** Whether a box is there and runs; true where the engine cannot be asked. */
  runs(ref: BoxRef): Promise<boolean>;
  /** It was stopped. */
  forget(sandbox: EngineSandbox): void;
  /** Ends boxes of a sandbox, and removes its volume and its files. */
  remove(id: string): Promise<void>;
}

export interface EngineSandboxOf {
  readonly spec: SandboxSpec;
  readonly files: SandboxFiles;
  /** The label of its box and volume. */
  readonly installation: string;
  readonly resolved: ResolvedImage;
  /** Nothing of it was there before. */
  readonly isFresh: boolean;
  /** Of its wire; on no disk. */
  readonly secret: string;
}

const trustFiles = { ca: '/tmp/.svc/ca.pem', all: '/tmp/.svc/trust.pem' };
const fileMs = 30_000;
const stopMs = 2_000;
export class EngineSandbox implements Sandbox {
  readonly id: string;
  readonly provider: SandboxName;
  readonly home = declaredHome;
  readonly workDir = declaredWork;
  readonly fenced = true;
  readonly files: SandboxFiles;
  readonly image: { readonly name: string; readonly digest: string };
  /** Absent where steps change home alone: without any, and where the engine keeps no changed box. */
  readonly build?: (options: BuildOptions) => Promise<'hit' | 'miss'>;
  readonly #owner: EngineOwner;
  readonly #of: EngineSandboxOf;
  readonly #children = new Set<SandboxProcess>();
  readonly #listeners = new Set<(state: 'ok' | 'lost') => void>();
  readonly #tag: string;
  readonly #watch = new AbortController();
  readonly #mounted = new Set<string>();
  /** Boxes whose own streams nobody has used: later they may hold half of a frame. */
  readonly #unheard = new Set<string>();
  #notEnforced: NotEnforced[];
  #box: BoxRef | null = null;
  #wire: Wire | null = null;
  #trust: { readonly ca: string; readonly all: string } | null = null;
  #isBuilt = false;
  #hasOwnHome: boolean;
  #oomSeen = 0;
  #endedForMemory = false;
  /** Why the box is gone, in the words of its engine. */
  #ended: string | null = null;
  #following: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(owner: EngineOwner, of: EngineSandboxOf) {
    this.#owner = owner;
    this.#of = of;
    this.id = of.spec.id;
    this.provider = owner.name;
    this.files = of.files;
    this.image = { name: of.spec.image ?? '', digest: of.resolved.digest };
    const asks = of.spec.resources !== undefined && !owner.capabilities.resources;
    this.#notEnforced = asks ? ['resources'] : [];
    this.#hasOwnHome = !of.isFresh;
    this.#tag = imageTag(of.resolved.digest, of.spec.build);
    if (of.spec.build !== undefined && owner.engine.commit !== undefined)
      this.build = (options) => this.#build(options);
  }

  get notEnforced(): readonly NotEnforced[] {
    return this.#notEnforced;
  }

  /** Makes the box and its wire, and tries its fence. Throws EngineError. */
  async start(watch: SandboxWatch): Promise<void> {
    const { engine } = this.#owner;
    const { spec, resolved } = this.#of;
    const kept = spec.build === undefined ? null : ((await engine.committed?.(this.#tag)) ?? null);
    await this.#begin(kept ?? resolved, watch);
    this.#isBuilt = kept !== null;
    const answered = (await this.#wire?.tryAll(await this.#owner.outside())) ?? [];
    if (answered.length === 0) return;
    if (this.#owner.fence === 'required') {
      throw new EngineError('fence-leaks', `From inside the fence ${answered.join(', ')} answered`);
    }
    this.#notEnforced = [...this.#notEnforced, 'network'];
  }

  async setTrust(trust: { readonly ca: string; readonly all: string } | null): Promise<TrustPaths | null> {
    this.#trust = trust;
    // One that is being taken over has it.
    if (trust === null || this.#wire === null) return trust && trustFiles;
    await this.writeFile(trustFiles.ca, trust.ca, 0o644);
    await this.writeFile(trustFiles.all, trust.all, 0o644);
    return trustFiles;
  }

  socketOf(channel: string): string {
    if (this.#of.spec.channels?.some(({ name }) => name === channel) !== true) {
      throw new Error(`the sandbox has no channel ${channel}`);
    }
    return this.files.socket(channel);
  }

  pathIn(declared: string): string {
    return declaredPath(fromWork(declared), 'The path');
  }

  async makeDirectory(declared: string): Promise<string> {
    const path = declaredPath(fromWork(declared), 'The directory');
    const options = { cwd: '/', timeoutMs: fileMs };
    if ((await this.run({ command: ['test', '-d', path], ...options })).code === 0) return path;
    freePath(path, 'Directory');
    const made = await this.run({ command: ['mkdir', '-p', '--', path], ...options });
    if (made.code === 0) return path;
    throw new Fault('unprocessable', 'sandbox-file', `${path} cannot be made in the sandbox: ${made.output.trim()}`);
  }

  async spawn(options: SpawnOptions): Promise<SandboxProcess> {
    const wire = this.#wire;
    if (!this.#isStopped && wire !== null) return this.#spawn(wire, options);
    throw new Fault('unavailable', 'sandbox-stopped', 'The sandbox was stopped: open it again');
  }

  async run(options: RunOptions): Promise<RunResult> {
    const { command, env, cwd } = options;
    const argv = typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
    const child = await this.spawn({ argv, ...(env !== undefined && { env }), ...(cwd !== undefined && { cwd }) });
    return runToEnd(child, options);
  }

  writeFile(path: string, content: string | Uint8Array, mode = 0o600): Promise<void> {
    return writeInside(this, { path, content, mode, cwd: '/' });
  }

  async outOfMemory(): Promise<number | null> {
    const { memoryMB } = this.#of.spec.resources ?? {};
    await this.#told();
    const kills = this.#wire?.oomKills ?? 0;
    const wasEnded = this.#endedForMemory || kills > this.#oomSeen;
    this.#oomSeen = kills;
    this.#endedForMemory = false;
    return wasEnded && memoryMB !== undefined ? memoryMB : null;
  }

  async endedBy(): Promise<string | null> {
    await this.#told();
    return this.#ended;
  }

  /** An end is told by the engine, after the streams into the box have broken. */
  async #told(): Promise<void> {
    if (this.#isStopped || this.#wire?.state !== 'dead') return;
    await Promise.race([this.#following, sleep(stopMs, undefined, { ref: false })]);
  }

  onWire(listener: (state: 'ok' | 'lost') => void): void {
    this.#listeners.add(listener);
  }

  /** Paths at which a repository is already. */
  get mounted(): Set<string> {
    return this.#mounted;
  }

  /** Directories outside of home and work that it has on its volume. */
  get directories(): readonly string[] {
    return this.#of.spec.directories ?? [];
  }

  /** What is in its home is the session's own from now on, also in a box that is made from a changed image. */
  ownHome(): void {
    this.#hasOwnHome = true;
  }

  async #build(options: BuildOptions): Promise<'hit' | 'miss'> {
    const { spec, resolved } = this.#of;
    const { engine } = this.#owner;
    if (this.#isBuilt || engine.commit === undefined) return 'hit';
    // Another session may have built it since this one was started.
    const kept = await engine.committed?.(this.#tag);
    if (kept !== undefined && kept !== null) {
      await this.#begin(kept);
      return 'hit';
    }
    const box = await this.#owner.box(this.#of, resolved, 'build');
    this.#unheard.add(box.uid);
    let made: ResolvedImage;
    let wire: Wire | undefined;
    try {
      wire = await this.#connect(box);
      wire.listen(spec.channels ?? []);
      await runSteps(wire, spec.build, options);
      made = await engine.commit(box, this.#tag);
    } finally {
      wire?.end('the image was built');
      await engine.destroy(box);
    }
    await this.#begin(made);
    return 'miss';
  }

  /** Nothing has run in the box of the session yet: it is made anew from what was built. */
  async #begin(image: ResolvedImage, watch: SandboxWatch = {}): Promise<void> {
    await this.#endBox();
    this.#isBuilt = true;
    watch.onStage?.('starting');
    this.#box = await this.#owner.box(this.#of, image, 'session', watch);
    this.#unheard.add(this.#box.uid);
    watch.onStage?.('starting');
    this.#wire = await this.#connect(this.#box, watch.signal);
    this.#wire.listen(this.#of.spec.channels ?? []);
    this.#following = this.#follow(this.#box, this.#wire);
    // What the steps left in home, of which the volume of a new sandbox has nothing yet.
    if (!this.#hasOwnHome && this.#of.spec.build !== undefined)
      await this.run({ command: takeHome, cwd: '/', timeoutMs: 10 * fileMs });
    if (this.#trust !== null) await this.setTrust(this.#trust);
  }

  /** Nothing of it is to be used any more; its box is ended by another. */
  abandon(): void {
    this.#isStopped = true;
    this.#watch.abort();
    this.#wire?.end('the sandbox was opened again');
  }

  held(): HeldSandbox | null {
    const { secret, installation, spec } = this.#of;
    return this.#box === null ? null : { uid: this.#box.uid, secret, installation, spec };
  }

  /** The way into a box that another daemon has left, and the program in it; null where that is not as it was left. */
  async takeOver(box: BoxRef, program: LastingProgram): Promise<SandboxProcess | null> {
    this.#box = box;
    const wire = (this.#wire = this.#wireTo(box, true));
    const found = await wire.takeOver(program);
    if (found === null || this.#isStopped) return null;
    this.#oomSeen = wire.oomKills;
    wire.listen(this.#of.spec.channels ?? []);
    this.#following = this.#follow(box, wire);
    this.#children.add(found);
    void found.exited.then(() => this.#children.delete(found));
    return found;
  }

  async leave(): Promise<void> {
    const wire = this.#wire;
    [this.#box, this.#wire] = [null, null];
    await wire?.leave(stopMs);
    await this.stop();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watch.abort();
    this.#owner.forget(this);
    await this.#endBox();
  }

  async destroy(): Promise<void> {
    await this.stop();
    await this.#owner.remove(this.id);
  }

  async #endBox(): Promise<void> {
    const [box, wire] = [this.#box, this.#wire];
    this.#box = null;
    await wire?.stop(stopMs);
    if (box !== null) await this.#owner.engine.destroy(box);
    await Promise.all([...this.#children].map((child) => child.exited));
  }

  /** Throws the signal's reason where it is given up. */
  async #connect(box: BoxRef, signal?: AbortSignal): Promise<Wire> {
    const wire = this.#wireTo(box);
    const giveUp = (): void => wire.end('the launch was given up');
    signal?.addEventListener('abort', giveUp, { once: true });
    await wire.open().finally(() => signal?.removeEventListener('abort', giveUp));
    signal?.throwIfAborted();
    return wire;
  }

  /** `isTakenOver`: the box may know the way to this daemon. */
  #wireTo(box: BoxRef, isTakenOver = false): Wire {
    const { engine, door } = this.#owner;
    const way = door && new DialedWay(door, this.#of.secret, isTakenOver);
    const into = async (): Promise<Duplex> => {
      const attached = this.#unheard.delete(box.uid) ? await engine.attach?.(box) : undefined;
      return attached ?? (await engine.wire(box, bridgeArgv()));
    };
    const dial = async (): Promise<Duplex> => {
      try {
        return await (way?.dial(into) ?? into());
      } catch (error) {
        if (await this.#owner.runs(box)) throw error;
        throw new BoxGone('the box of the sandbox has ended');
      }
    };
    return new Wire({
      dial,
      secret: this.#of.secret,
      lostMs: this.#owner.lostSeconds * 1_000,
      // Some signs of life within that time, so that one which is late ends nothing.
      pingMs: Math.min(5_000, (this.#owner.lostSeconds * 1_000) / 6),
      socketOf: (name) =>
        this.#of.spec.channels?.some((one) => one.name === name) === true ? this.files.socket(name) : null,
      onState: (state) => {
        if (state === 'dead') way?.end();
        if (state === 'dead' || this.#isStopped) return;
        for (const listener of this.#listeners) listener(state);
      },
    });
  }

  /** Hears from the engine when the box ends: then nobody waits for the wire to be mended. */
  async #follow(box: BoxRef, wire: Wire): Promise<void> {
    const { engine } = this.#owner;
    try {
      for await (const event of engine.events(box, this.#watch.signal)) {
        if (event.kind === 'running') continue;
        if (event.kind === 'ended' && (event.oom || event.code === 137)) this.#endedForMemory ||= event.oom;
        if (this.#box === box) this.#ended = event.reason;
        wire.end(event.reason);
        return;
      }
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      // The wire itself tells.
    }
  }

  async #spawn(wire: Wire, options: SpawnOptions): Promise<SandboxProcess> {
    checkEnvironment(options.env ?? {});
    if (options.argv.length === 0 || options.argv.some((word) => word.includes('\0'))) {
      const message = 'A program needs a name, and no argument can hold a NUL character';
      throw new Fault('unprocessable', 'sandbox-spawn', message);
    }
    const base = { USER: 'user', LOGNAME: 'user', LANG: 'C.UTF-8', SHELL: '/bin/sh', TMPDIR: '/tmp' };
    const env: Record<string, string> = { ...base, ...options.env, HOME: this.home };
    const request = { argv: options.argv, env, cwd: options.cwd ?? this.workDir };
    const child = await wire.start(request, options.lasts === true);
    this.#children.add(child);
    if (this.#isStopped) await child.kill(); // Stopped while it was being started.
    void child.exited.then(() => this.#children.delete(child));
    return child;
  }
}
