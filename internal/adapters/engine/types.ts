// What a container engine has to do for the service, and nothing more: make a box from an image, give one stream of bytes
// into it, end it, and list what is there by label. All else (programs, files, channels, trust) goes over the wire, once,
// in `adapters/sandbox`. Implemented by `docker.ts` (Docker and Podman) and `kubernetes.ts`.
// docs/reference/sessions.md#engines.

import type { Duplex } from 'node:stream';
import { engineReasons, type EngineReason } from '../../domain/sandbox.ts';

export type EngineName = 'docker' | 'kubernetes';

/**
 * These end a launch: trying again changes nothing. `image-missing`: the registry or the engine has no such image.
 * `image-refused`: the registry refuses it to this engine. `pod-rejected`: admission's own words are in the message.
 * `runtime-missing`: the runtime of the settings is not on the engine. `fence-leaks`: under `fence: required` something
 * but the channels answered.
 */
export type LaunchEndingCode = 'image-missing' | 'image-refused' | 'pod-rejected' | 'runtime-missing' | 'fence-leaks';

/**
 * With these a session waits in `queued` and is tried again. `engine-unreachable`: no answer, or one of 5xx.
 * `engine-refused`: 401 or 403. `unschedulable` and `quota-exceeded`: there is no room. `pull-failed`: the registry could
 * not be reached, or broke off.
 */
export type WaitingCode = EngineReason;

export type EngineErrorCode = LaunchEndingCode | WaitingCode;

const waiting: ReadonlySet<string> = new Set(engineReasons);

/** True for a code with which a session waits. */
export const isWaitingCode = (code: string): code is WaitingCode => waiting.has(code);

/** What an engine could not do. The message is shown to people: it names engine and object, and holds no secret. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;

  constructor(code: EngineErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
  }

  /** True where the session waits in `queued`; false where its launch has failed. */
  get isWaiting(): boolean {
    return isWaitingCode(this.code);
  }
}

/** `container`: shares the engine's kernel; `gvisor`: a kernel in user space; `vm`: a kernel of its own. */
export type EngineIsolation = 'container' | 'gvisor' | 'vm';

/** What an engine is and can do, as `probe` found it: shown by doctor and `GET /api/v1/sandbox`. */
export interface EngineFacts {
  /** As it calls itself: `Docker 20.10.24`, `Podman 4.3.1`, `Kubernetes v1.34.1`. */
  readonly version: string;
  /** The runtimes or runtime classes that may be named in the settings; empty where the engine does not tell. */
  readonly runtimes: readonly string[];
  /** The one in use; null where the engine chooses and does not tell. */
  readonly runtime: string | null;
  readonly isolation: EngineIsolation;
  /** Each with the reason why it is missing, else null. */
  readonly limits: { readonly memory: string | null; readonly cpu: string | null; readonly pids: string | null };
  /** Why a box cannot be kept from the network; null where it can. */
  readonly fence: string | null;
  /** Why a changed box cannot become an image; null where it can. */
  readonly commit: string | null;
  /** Whether boxes stand ready before they are asked for. */
  readonly warm: boolean;
}

/** An image as it was resolved once for a launch. */
export interface ResolvedImage {
  /** What `create` takes: pinned to the content where the engine can name it so. */
  readonly reference: string;
  /** Of the manifest, else the image's id: `sha256:<64 hex>`. */
  readonly digest: string;
}

/** Whose a box is: its labels `svc/installation`, `svc/session`, `svc/epoch`, and its name `svc-<session>-<epoch>`. */
export interface BoxOwner {
  /** Every object of another installation, or without this label, is never touched. */
  readonly installation: string;
  readonly session: string;
  /** Counts the starts of a session's box. */
  readonly epoch: number;
}

/** A directory inside that the user of the programs owns. */
export interface BoxDirectory {
  /** Absolute, as programs see it: `/home/user`, `/workspace`, a mount's path. */
  readonly path: string;
}

/** A box to be made. Nothing in it is secret: all of it may stand in an inspect, a manifest or an event. */
export interface BoxSpec {
  readonly owner: BoxOwner;
  readonly image: ResolvedImage;
  /** The first process, with its arguments; it listens for the wire. Nothing is added to it. */
  readonly argv: readonly string[];
  /**
   * `session`: user 1000, no capability, read-only root, and only `directories` and `/tmp` are writable. `build`: root in a
   * writable copy of the image, without volumes, to be committed.
   */
  readonly purpose: 'session' | 'build';
  /** Kept on the session's volume, over all epochs, where the engine has volumes. */
  readonly directories: readonly BoxDirectory[];
  /** Files and directories of the engine's own host that are seen at the same path, read-only; only a local engine can. */
  readonly readOnlyPaths: readonly string[];
  /** Limits of the whole box; requests are equal to them. */
  readonly resources: { readonly cpuCount?: number; readonly memoryMB?: number };
  /** No network but loopback. */
  readonly fenced: boolean;
  /** It reaches its daemon by itself: the one way that its fence lets through. */
  readonly dials?: boolean;
  /** The launch was given up: what was made so far is removed. */
  readonly signal?: AbortSignal;
  /** Hears of `pulling`, `scheduling`, `claiming`, `starting` as each begins. */
  readonly onStage?: (stage: BoxStage) => void;
}

export type BoxStage = 'pulling' | 'scheduling' | 'claiming' | 'starting';

/** One box that is there. */
export interface BoxRef {
  readonly owner: BoxOwner;
  /** `svc-<session>-<epoch>`; a claim's may be another. */
  readonly name: string;
  /** The engine's own id, so that a box of the same name that was made later is not taken for it. */
  readonly uid: string;
  readonly running: boolean;
  /** The machine that it runs on, where the engine has several. */
  readonly node?: string;
}

/** What became of a box, as its engine tells it. */
export type BoxEvent =
  | { readonly kind: 'running' }
  /** `oom`: it went past its memory. */
  | { readonly kind: 'ended'; readonly code: number | null; readonly oom: boolean; readonly reason: string }
  /** By the engine, for its own reasons: node gone, preempted, evicted, deleted by somebody. */
  | { readonly kind: 'evicted'; readonly reason: string }
  | { readonly kind: 'image-error'; readonly code: EngineErrorCode; readonly reason: string };

/** Every call throws EngineError for what is in its two lists, and nothing else that is expected. */
export interface Engine {
  readonly name: EngineName;
  /** Asks the engine; tries nothing that leaves a trace. Throws EngineError where it cannot be used at all. */
  probe(): Promise<EngineFacts>;
  /** Finds an image, by pulling it where the engine does so itself and has not got it. */
  resolve(image: string, signal?: AbortSignal): Promise<ResolvedImage>;
  /**
   * Makes a box and starts it. Idempotent by name and labels: one that is there already, of this owner and running, is
   * given back; one that has ended is replaced. Resolves when its first process runs.
   */
  create(box: BoxSpec): Promise<BoxRef>;
  /**
   * A stream to standard input and output of `bridge`, a program started in the box for it, any number of times: the
   * first process takes the newest. Ending or destroying the stream ends that program alone.
   */
  wire(ref: BoxRef, bridge: readonly string[]): Promise<Duplex>;
  /**
   * The standard streams of the first process of a box, once: a wire without another program. Absent where the engine has
   * none. What is said there before anybody listens is lost.
   */
  attach?(ref: BoxRef): Promise<Duplex>;
  /** Makes an image of a box as it is, under the tag, and gives its id. Absent where the engine cannot. */
  commit?(ref: BoxRef, tag: string): Promise<ResolvedImage>;
  /** Whether `commit` has made this tag before; null where it has not. */
  committed?(tag: string): Promise<ResolvedImage | null>;
  /** All boxes of an installation, running or not; with `session`, of that session alone. */
  list(installation: string, session?: string): Promise<BoxRef[]>;
  /** From now until the signal or the end of the box. */
  events(ref: BoxRef, signal: AbortSignal): AsyncIterable<BoxEvent>;
  /** Ends and removes a box of exactly this uid; absent is success. Volumes stay. */
  destroy(ref: BoxRef): Promise<void>;
  /** Whether the session has a volume: what was in its directories is still there. */
  hasVolume(installation: string, session: string): Promise<boolean>;
  /** Sessions of the installation that have a volume. */
  volumes(installation: string): Promise<readonly string[]>;
  /** Removes the volume of a session; absent is success. No box of it may be left. */
  removeVolume(installation: string, session: string): Promise<void>;
  /** Addresses of the engine itself that no box may reach. Absent where boxes have no network at all. */
  around?(): Promise<readonly { readonly host: string; readonly port: number }[]>;
  /** Closes connections that it keeps. Boxes go on. */
  close(): Promise<void>;
}
