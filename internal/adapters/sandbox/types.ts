// What a session host asks of a sandbox, and what each kind of sandbox says of itself.

import type { Readable, Writable } from 'node:stream';
import type { SandboxProviderName } from '../../domain/sandbox.ts';

export type SandboxName = SandboxProviderName;

export interface SandboxCapabilities {
  /**
   * `namespace`: own processes, files and users on this kernel; `container`: the same of an engine, on its kernel; `gvisor`
   * and `vm`: another kernel; `external`: whatever the operator's program gives.
   */
  readonly isolation: 'none' | 'namespace' | 'container' | 'gvisor' | 'vm' | 'external';
  readonly injectionEdge: boolean;
  /** True where home and work can be kept and put back elsewhere. */
  readonly snapshot: boolean;
  /** True where `resources` of a spec become limits that hold for all its processes together. */
  readonly resources: boolean;
  /** True where a fenced sandbox has no network but its channels. */
  readonly networkFence: boolean;
  /** True where a preset is its image or root file system, and not the machine's own programs. */
  readonly images: boolean;
  /** True where build steps change the whole image, and not only home. */
  readonly commit: boolean;
  /** True where sandboxes stand ready before they are asked for. */
  readonly warm: boolean;
  /** True where a sandbox outlives the daemon that started it. */
  readonly survivesRestart: boolean;
}

/** A service of the daemon inside the sandbox: `127.0.0.1:<port>` there is the socket `<name>.sock` of its run directory. */
export interface Channel {
  /** `[a-z][a-z0-9-]*`, such as `model`, `tools`. */
  readonly name: string;
  readonly port: number;
}

export interface SandboxSpec {
  /** The session's id: `[A-Za-z0-9_-]{1,64}`. */
  readonly id: string;
  /** No network but `channels`. A provider without a fence runs it unfenced and lists `network` in `notEnforced`. */
  readonly fenced?: boolean;
  readonly channels?: readonly Channel[];
  /** Files and directories of the host that are seen at the same path, read-only: the harness's program. */
  readonly readOnlyPaths?: readonly string[];
  readonly resources?: { readonly cpuCount?: number; readonly memoryMB?: number };
  /** What stands in for the machine's programs, read-only; a provider without images does not use it. */
  readonly rootfs?: RootFileSystem;
  /** Of a container engine: the image that the preset names. */
  readonly image?: string;
  /** Build steps that change the whole image, where the provider can keep it (`commit`). */
  readonly build?: ImageBuild;
  /** Declared directories that must be writable: mounts and the working directory. An engine makes them with the box. */
  readonly directories?: readonly string[];
  /** Counts the starts of the session: part of an engine's names. */
  readonly epoch?: number;
}

/** Without secrets: what the steps make outlives the session. */
export interface ImageBuild {
  readonly steps: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** A root file system on this machine, which nobody changes while it is used. */
export interface RootFileSystem {
  readonly path: string;
  /** Of its content: `sha256:…`. */
  readonly digest: string;
}

/** What of a spec may differ when a sandbox is opened again. */
export type SandboxChanges = Partial<Omit<SandboxSpec, 'id'>>;

export interface SpawnOptions {
  readonly argv: readonly string[];
  /** Reaches the process's environment, and neither an argument list nor a file. HOME and the marker are the sandbox's. */
  readonly env?: Readonly<Record<string, string>>;
  /** As `pathIn` gives it. Default `workDir`. Must be there. */
  readonly cwd?: string;
  /** It goes on when its daemon is gone, where the provider can (`survivesRestart`). */
  readonly lasts?: boolean;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SandboxProcess {
  /** Of the host: the program itself, or what keeps its sandbox. */
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** When it and all that it started are gone. Never rejects. */
  readonly exited: Promise<Exit>;
  /** Ends it and all that it started, at once; resolves as `exited` does. Safe to call again. */
  kill(): Promise<Exit>;
  /** Of one that lasts. */
  readonly lasting?: {
    /** By which another daemon finds it. */
    readonly id: number;
    /** The first byte of its output that `stdout` gives. */
    readonly from: number;
    /** What comes before this byte of its output is not asked for again. */
    release(at: number): void;
  };
}

export interface RunOptions {
  /** A command line of the shell, or a program with its arguments. */
  readonly command: string | readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly timeoutMs: number;
  /** Written to its standard input, which is empty otherwise. */
  readonly input?: Readable | string | Uint8Array;
  /** Values that are replaced by `***` in `output`. */
  readonly masked?: readonly string[];
  readonly signal?: AbortSignal;
}

export interface RunResult extends Exit {
  /** The last 16 KiB of both outputs, in the order in which they came. */
  readonly output: string;
  readonly timedOut: boolean;
}

/** A program that lasts beyond the daemon that started it, as the next one finds it. */
export interface LastingProgram {
  readonly id: number;
  /** Of its output, what was taken for good. */
  readonly outBytes: number;
  /** Of its input, what it was given. */
  readonly inBytes: number;
}

/** What another life of this daemon, or another daemon, needs to take a sandbox over with what runs in it. The secret is one. */
export interface HeldSandbox {
  readonly uid: string;
  readonly secret: string;
  /** The label of its box, and what it was made from; absent in what an earlier version has left. */
  readonly installation?: string;
  readonly spec?: SandboxSpec;
}

export interface Sandbox {
  readonly id: string;
  readonly provider: SandboxName;
  /** HOME as its processes see it. */
  readonly home: string;
  /** Where sessions start unless told otherwise, as its processes see it. */
  readonly workDir: string;
  /** Asked for and not given, to be recorded on the session: `isolation`, `network`, `resources`. */
  readonly notEnforced: readonly NotEnforced[];
  /** True where it has no network but its channels: the daemon listens at `socketOf`. Else it reaches loopback itself. */
  readonly fenced: boolean;
  /**
   * Certificates that a fenced sandbox trusts, as PEM: `ca` is added where a program adds, `all` stands in for the system's.
   * Gives their paths as its processes see them; null takes earlier ones away. Programs that run already may not see it.
   */
  setTrust(trust: { readonly ca: string; readonly all: string } | null): Promise<TrustPaths | null>;
  /** Where the daemon listens for a channel of a fenced sandbox. */
  socketOf(channel: string): string;
  /**
   * A declared path (`/home/user/x`, `/workspace/x`, a mount's; a relative one is below the work directory) as its
   * processes see it. Where a sandbox cannot show a path, it is the one below the work directory.
   */
  pathIn(declared: string): string;
  /**
   * Makes a declared directory, writable, unless it is there, and gives it as processes see it: for `workingDirectory`.
   * Programs that run already may not see it. Throws Fault `unprocessable` where it would be new in the system's.
   */
  makeDirectory(declared: string): Promise<string>;
  spawn(options: SpawnOptions): Promise<SandboxProcess>;
  run(options: RunOptions): Promise<RunResult>;
  /** Writes a file as one of its processes would (so that no link inside leads out). Path as for `pathIn`. */
  writeFile(path: string, content: string | Uint8Array, mode?: number): Promise<void>;
  /** The limit in megabytes, where the kernel has ended one of its programs for it since this was asked last; else null. */
  outOfMemory(): Promise<number | null>;
  /** Where an engine has ended it, such as a node that was drained: why, in the engine's words; null where none has. */
  endedBy?(): Promise<string | null>;
  /** What it was made from; absent where it is the machine's own programs or a directory. */
  readonly image?: { readonly name: string; readonly digest: string };
  /**
   * Runs the build steps of its spec as root in a copy of its image, keeps that, and goes on from it; `hit` where it was
   * kept before. Absent where steps are run in home. Throws what `runStep` throws.
   */
  build?(options: BuildOptions): Promise<'hit' | 'miss'>;
  /** Hears when the way to its programs is cut and mended; absent where there is none that could be. */
  onWire?(listener: (state: 'ok' | 'lost') => void): void;
  /** What another life of this daemon takes it over with; null where there is nothing to take. Absent where none could. */
  held?(): HeldSandbox | null;
  /** Lets go of it, and leaves its programs running for that. */
  leave?(): Promise<void>;
  /** Ends its processes; its files stay for `reopen`. */
  stop(): Promise<void>;
  /** Ends its processes and removes its files. */
  destroy(): Promise<void>;
}

export interface BuildOptions {
  /** Leads the steps to the network, and changes nothing of what they make. */
  readonly networkEnv: Readonly<Record<string, string>>;
  /** Runs one of the steps with the given environment; throws where the step fails. */
  readonly runStep: (run: Sandbox['run'], step: number, env: Readonly<Record<string, string>>) => Promise<void>;
  readonly signal?: AbortSignal;
}

export interface TrustPaths {
  readonly ca: string;
  readonly all: string;
}

export interface TakenOver {
  readonly sandbox: Sandbox;
  readonly process: SandboxProcess;
}

/** What making a sandbox goes through on an engine; each begins where the one before ends. */
export type SandboxStage = 'pulling' | 'scheduling' | 'claiming' | 'starting';

export interface SandboxWatch {
  readonly onStage?: (stage: SandboxStage) => void;
  /** The launch was given up: nobody waits for what it is at, and what was made is ended. */
  readonly signal?: AbortSignal;
}

export type NotEnforced = 'isolation' | 'network' | 'resources';

export interface SandboxProvider {
  readonly name: SandboxName;
  readonly capabilities: SandboxCapabilities;
  /** True where sandboxes reach the daemon through their channels alone, and so have no other network either. */
  readonly alwaysFenced?: boolean;
  /** A new sandbox, or a fresh one in place of what an earlier launch of this id left. */
  create(spec: SandboxSpec, watch?: SandboxWatch): Promise<Sandbox>;
  /** The sandbox of this id as an earlier process left it, with nothing running in it; null when its files are gone. */
  reopen(id: string, changes?: SandboxChanges, watch?: SandboxWatch): Promise<Sandbox | null>;
  /**
   * A sandbox that an earlier process left with a program in it, and that program. Null where the box or the program is
   * gone, or where the program was given something else than that process has noted: then the box is ended. Only where
   * sandboxes outlive their daemon. `prepare` opens the channels, before anything of the box is heard; whoever has stopped the
   * sandbox since, and says so by the signal, waits for no engine.
   */
  takeOver?(
    id: string,
    held: HeldSandbox,
    program: LastingProgram & Pick<SandboxWatch, 'signal'> & { prepare(sandbox: Sandbox): Promise<void> },
  ): Promise<TakenOver | null>;
  /** Whether that sandbox runs here, so that it can be taken over. Throws EngineError. */
  holds?(id: string, held: HeldSandbox): Promise<boolean>;
  /** All of this data directory, whichever provider made them. */
  list(): Promise<readonly { readonly id: string; readonly running: boolean }[]>;
  /**
   * Ends and removes what sandboxes of this data directory left that nobody owns. `owned` is asked with the ids that
   * were found, so that a sandbox made meanwhile is not among them. Gives the ids that were removed. What cannot be is told
   * to `failed`, and keeps none of the others; without it the first such error is thrown in the end.
   */
  reap(
    owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>,
    failed?: (id: string, error: unknown) => void,
  ): Promise<string[]>;
  /** What keeps sandboxes from this daemon, as far as it can be told from here; null where nothing does. */
  trouble?(): Promise<string | null>;
  /** Ends all processes that this provider started. Safe to call twice. */
  close(): Promise<void>;
}

/** A repository that is to be in a sandbox. */
