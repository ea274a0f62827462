// What a host reaches the outside through, made once per daemon with role `session` and handed on in the context.

import type { PassThrough, Readable } from 'node:stream';
import type {
  RootFileSystem,
  SandboxFacts,
  SandboxName,
  SandboxProvider,
  Mirrors,
  SetupCache,
} from '../adapters/sandbox/sandbox.ts';
import type { Fault } from '../domain/fault.ts';
import type { Harness } from '../domain/spec.ts';
import type { SealingPorts } from './ports.ts';

/** Where a service of this daemon is reached from this machine. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The program of a harness, or why there is none. */
export type HarnessProgram =
  | {
      readonly argv: readonly string[];
      /** Host paths that it needs to see in an isolated sandbox. */
      readonly readOnlyPaths: readonly string[];
      /** It is the public adapter. */
      readonly installed: boolean;
    }
  | { readonly missing: string };

/** What the operator says of an environment's preset, as this host has it now. */
export interface Preset {
  readonly name: string;
  /** The provider that its sessions run on; undefined: the default. */
  readonly provider: SandboxName | undefined;
  /** Of a container engine. */
  readonly image: string | undefined;
  readonly rootfs: RootFileSystem | undefined;
  readonly harnesses: { readonly [harness: string]: readonly string[] };
}

/** Which tools a harness has asked for the list of: its first prompt waits for all of them. */
export interface ToolListings {
  /** To be called before a harness of the session starts: from then on its listings are kept. The answer forgets them. */
  expect(sessionId: string): () => void;
  /** Said by the tool server when a session's harness has listed an alias. */
  listed(sessionId: string, alias: string): void;
  /** Said by the tool server when it could not reach what stands behind an alias. */
  refused(sessionId: string, alias: string, fault: Fault): void;
  /**
   * Resolves with the aliases that were not listed within the time, each with its reason where one is known; empty when all
   * were. Throws Fault `unprocessable` where one never will be, and the reason of the signal.
   */
  wait(
    sessionId: string,
    aliases: readonly string[],
    within: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<readonly string[]>;
  /** Said by the tool server before a session ends itself: what ends it has to answer the harness that asked. */
  parting(sessionId: string): void;
  /** Resolves when a harness that is parting has had the time to read its answer; else at once. */
  parted(sessionId: string): Promise<void>;
}

/** A piece of a program's output, in base64, or its end. */
export type ExecLine =
  | { readonly id: string }
  | { readonly fd: 1 | 2; readonly data: string }
  | { readonly exitCode: number; readonly message?: string };

export interface ExecRequest {
  readonly argv: readonly string[];
  readonly stdin: Readable;
  /** Ends the program. */
  readonly signal: AbortSignal;
}

/** Where a session works. */
export interface SandboxPlace {
  /** As its processes see it. */
  readonly cwd: string;
  /** Writes a file below it, and the folder that it is in. */
  write(path: string, content: Uint8Array): Promise<void>;
  /** Runs a program beside its harness. */
  exec(request: ExecRequest): AsyncIterable<ExecLine>;
  /** How long no program of a person has run in it, in milliseconds. */
  restsForMs(): number;
}

export interface HostPorts {
  /**
   * Names the place of this daemon's sandboxes: an id of its data directory, since others may have the same path, and that
   * path.
   */
  readonly home: string;
  /** Where other daemons of the installation reach this one: `http://host:port`. */
  readonly address: string;
  /**
   * Opens a provider of sandboxes, the one of SVC_SANDBOX without a name. It is tried once, when it is first needed, and
   * again only where an engine did not answer (EngineError).
   */
  sandboxes(name?: SandboxName): Promise<{ readonly provider: SandboxProvider; readonly facts: SandboxFacts }>;
  /** Providers that presets name, beside the default. */
  readonly providers: readonly SandboxName[];
  /** Throws Fault where its root file system is not there. */
  preset(name: string): Promise<Preset>;
  /** Where the tool servers are reached. */
  tools(): Address;
  /** What setup steps left, under the data directory, and what daemons share of it, sealed. */
  setupCache(sealing: SealingPorts): Promise<SetupCache>;
  /** Large repositories that were mounted, under the data directory; null where none are kept. */
  mirrors(): Promise<Mirrors | null>;
  /** Whether there may be sandboxes that an earlier life of this data directory has left, or one of its path that is gone. */
  hasLeftovers(): Promise<boolean>;
  readonly listings: ToolListings;
  /** Sandboxes of the sessions that run here, by session. */
  readonly places: Map<string, SandboxPlace>;
  /** Standard input of programs that people run in them, by session and program. */
  readonly inputs: Map<string, PassThrough>;
  /** A harness's program: the preset's, else the machine's. Without a preset, also one that only some preset has. */
  program(harness: Harness, preset?: Preset): Promise<HarnessProgram>;
  /** PATH in which programs of the host are found. */
  readonly path: string;
  /** Sessions that this daemon runs at a time. */
  readonly maxSessions: number;
  /** Sessions of one project that run at a time in the whole installation; undefined: any number. */
  readonly perProject: number | undefined;
  /** How long a session has to have rested before its place may be given to another. */
  readonly unloadAfterMs: number;
  /** A turn that takes longer is ended. */
  readonly turnMs: number;
  /** Harnesses that it starts at a time. */
  readonly startsAtOnce: number;
  /** Whether sandboxes reach nothing but their model and tools, where that is possible. */
  readonly fenced: boolean;
  /** Hosts that sandboxes reach at most; given, sandboxes are fenced too. */
  readonly allow: readonly string[] | undefined;
}
