// The adapters that flows reach the outside through, as flows see them: made once per daemon, handed on in the context.
// A test that must not wait for a network or a worker hands in its own.

import type { InstallationToken, MintRequest } from '../adapters/providers/codehost/codehost.ts';
import type { Json, JsonObject } from '../domain/json.ts';
import type { KeyObject } from 'node:crypto';
import type {
  BlobStore,
  Credentials,
  ProbeReport,
  RepoSource,
  RepoTarget,
  VerifyPolicy,
} from '../adapters/repo/types.ts';
import type { KeyRing, Sealer } from '../adapters/crypto/crypto.ts';
import type { IngestEndpoint } from '../adapters/store/resources/endpoints.ts';
import type { RecordedEvent, SecretGuard } from '../adapters/store/events/events.ts';
import type { NewEvent } from '../adapters/store/events/new-event.ts';
import type { Spender } from '../adapters/store/sessions/ledger.ts';
import type { CompileInput, CompileOutput } from '../core/compile/types.ts';
import type { MatchTrigger } from '../core/match/match.ts';
import type { CapRefusal, SpendCaps } from '../core/money/money.ts';
import type { ResolvedTemplate, TemplateLock, UnresolvedTemplate } from '../domain/bundle.ts';
import type { Catalog } from '../domain/catalog.ts';
import type { Fault } from '../domain/fault.ts';
import type { ProjectRef } from '../domain/project.ts';
import type { CheckDeadline, ModelSpec, AgentSpec } from '../domain/spec.ts';
import type { CompiledAnswers } from './compiled.ts';
import type { LargeReads } from './large-reads.ts';
import type { Limiter } from '../base/concurrency.ts';

export interface SourceOptions {
  readonly credentials?: Credentials;
  readonly blobs: BlobStore;
  readonly verify: VerifyPolicy | null;
  readonly reader: string;
  /** Rejects for a path of this machine that may not be read. */
  readonly within?: (path: string) => Promise<void>;
  /** Hears of bytes that a read is about to hold; what it throws ends the read. */
  readonly taking?: (bytes: number) => void;
}

/** What models, presets and tools there are: the configured catalog. */
export interface CatalogPorts {
  readonly catalog: Catalog;
  /** SHA-256 (hex) of the catalog: a changed one is a reason to compile again. */
  readonly catalogHash: string;
}

/** What seals and opens stored values. */
export interface SealingPorts {
  readonly sealer: Sealer;
  /** What the sealer seals with. */
  readonly keyRing: KeyRing;
  /** When this process last noted a use of a secret by the service itself, in milliseconds. */
  readonly noted: Map<string, number>;
}

/** What mints tokens of code hosts' installations. */
export interface TokenPorts {
  /** A token of a code host's installation, asked for under the network rules. */
  mintToken(request: Omit<MintRequest, 'allowPrivate'>): Promise<InstallationToken>;
  /** Installation tokens by connection id, with the installation that they are of, until four fifths of their life. */
  readonly tokens: Map<string, { readonly token: string; readonly until: Date; readonly of: string }>;
}

/** What reads sources, compiles what was read, and bounds both. */
export interface SyncPorts {
  openSource(target: RepoTarget, options: SourceOptions): RepoSource;
  /** What a server supports; throws `RepoCondition` where it cannot be asked. */
  probe(
    url: string,
    options: { readonly credentials?: Credentials; readonly taking: (bytes: number) => void },
  ): Promise<ProbeReport>;
  /** Compiles in a worker, within its time limit; never throws for what an author wrote. `projectId`: whose it is. */
  compile(
    input: Pick<CompileInput, 'bundle' | 'root' | 'context' | 'templates' | 'origins'>,
    projectId: string,
  ): Promise<CompileOutput & { readonly size?: number }>;
  /** Starts a compiler where none runs: whoever reads files now is about to compile them. */
  warmCompiler(): void;
  /** Last answers of `compile`, by repository. */
  readonly compiled: CompiledAnswers;
  /** A lock repeats an earlier resolution exactly; `secret` gives the value of a registry's token. */
  resolveTemplates(
    specifiers: readonly string[],
    options: { readonly lock?: TemplateLock; readonly secret: (name: string) => Promise<string | undefined> },
  ): Promise<ReadonlyMap<string, ResolvedTemplate | UnresolvedTemplate>>;
  /**
   * The vendor/model slugs that the provider lists which accepts any; undefined where it cannot be asked. Absent: it is not
   * asked.
   */
  readonly listedSlugs?: (() => Promise<ReadonlySet<string> | undefined>) | undefined;
  /** Runs a read of a source when there is room: in this process, and at the source's host. */
  readonly limited: Limiter;
  /** What syncs hold of what they have read. */
  readonly largeReads: LargeReads;
  /** Runs an apply when there is room: in this process, and for the project. */
  readonly applying: Limiter;
  /** One read of a source has so many seconds in all. */
  readonly readSeconds: number;
  /** Roots below which folders may be watched; absent: any, for who owns the installation. */
  readonly folders: readonly string[] | undefined;
  /** Period of the full comparison of a repository with what is stored. */
  readonly resyncSeconds: number;
}

/** The active triggers on the keys of those that change, as they were and as they are. */
export interface ImpactSides {
  readonly projectId: string;
  readonly keys: readonly string[];
  readonly before: readonly MatchTrigger[];
  readonly after: readonly MatchTrigger[];
  /** When the change was worked out. */
  readonly now: Date;
}

/** What a caller of a webhook endpoint has to prove that it knows. */
export interface Credential {
  /** For signatures; absent for an empty secret, which proves nothing. */
  readonly key: KeyObject | undefined;
  /** SHA-256, for tokens. */
  readonly digest: Buffer;
  readonly guard: SecretGuard;
  /**
   * Until when, in milliseconds of the clock, a use leaves no further entry in the audit. From then on the secret is read
   * anew, which leaves one.
   */
  readonly notedUntil: number;
}
export interface CredentialCache {
  /** What was read within the last seconds. To be believed only where its guard still holds. */
  known(key: string, now: Date): Credential | undefined;
  /** Reads anew: by a call of `load` that begins after this call. Calls for one key share it. */
  read(key: string, load: () => Promise<Credential | undefined>): Promise<Credential | undefined>;
}

/** The part of this process that routes, as intake tells it of new events. */
export interface RecordHearer {
  /** After the commit: a project has events to be routed. `ids`: which, where all of them are known. */
  recorded(projectId: string, ids?: readonly string[]): void;
  /** These are being recorded at this moment, and may fail to be; `recorded` follows where they were. */
  recording(projectId: string, ids: readonly string[]): void;
}

/** What takes events in: made once per daemon. */
export interface IngestPorts {
  /** True where this installation routes events: whoever records one asks for its routing too. */
  readonly routing: boolean;
  /** The endpoint that takes events under a slug, where it is in memory. */
  knownEndpoint(slug: string): IngestEndpoint | undefined;
  /** The same, looked up where it is not. */
  endpoint(slug: string): Promise<IngestEndpoint | undefined>;
  readonly secrets: CredentialCache;
  /**
   * Records an event together with those that arrive at the same time; resolves after the commit. Undefined: its guard
   * does not hold, and nothing was recorded.
   */
  record(event: NewEvent, guard?: SecretGuard): Promise<RecordedEvent | undefined>;
  /** True where intake has to add a job for its events: the installation routes, but this process does not. */
  needsJob(): boolean;
  /** Says after a commit that a project has events to be routed, and which, to whoever routes in this process. */
  recorded(projectId: string, ids?: readonly string[]): void;
  /** Has `recorded` told to this hearer, of which there is one at a time; the answer ends that. */
  onRecorded(hearer: RecordHearer): () => void;
  /** Whether parsed bodies are kept here: this process routes. */
  keepsBodies(): boolean;
  /** Keeps the parsed body of an event that is about to be recorded, where they are kept. */
  keepBody(eventId: string, body: Json, bytes: number): void;
  /** Hands a kept body over, once; undefined: it has to be read. */
  takeBody(eventId: string): Json | undefined;
  /**
   * Makes room for a body of so many bytes (undefined: not announced) before any of it is read; the answer gives the
   * room back. Where there is none, those that have been coming for longest are given up: `giveUp` ends the reading of one,
   * and answers false where there is nothing to end. Throws Fault `unavailable` where that makes no room either, or
   * where more of its project waits to be recorded than may; where that is not known yet, `record` does.
   */
  admit(bytes: number | undefined, giveUp?: (why: Fault) => boolean, projectId?: string): () => void;
  /**
   * Makes room for the rest of a body that announced no length, up to the ordinary size; `admit` counted only a part for it.
   */
  admitRest(): () => void;
  /**
   * Waits for room for a body over the ordinary size; otherwise as `admit`. Projects take turns. `giveUp` ends the reading of
   * a body that comes slowly while others wait; it answers false where the body has come already.
   */
  admitLarge(bytes: number, projectId?: string, giveUp?: (why: Fault) => boolean): Promise<() => void>;
  /**
   * Waits for its turn to be read: such bodies are read one at a time. The answer ends the turn. Throws Fault `unavailable`.
   */
  largeTurn(projectId: string): Promise<() => void>;
  stop(): Promise<void>;
}

/** How a session's call to its model ended, by what the provider answered. Why a turn failed is decided by this first. */
export interface ModelCallEnd {
  readonly at: Date;
  /** What the harness got; 200 also for an answer that broke off or told a failure in its stream. */
  readonly status: number;
  readonly ok: boolean;
  /** Of a failure: trying again may help. */
  readonly retryable: boolean;
  readonly model: string;
  /** Why it failed: the provider's words, or ours; holds no secret. */
  readonly message: string | null;
}
export type ModelEvent =
  | { readonly kind: 'ended'; readonly end: ModelCallEnd }
  /** A cap is reached: `refused` tells that a call was turned away by it, else the turn that runs passed it. */
  | { readonly kind: 'capped'; readonly refused: boolean; readonly refusal: CapRefusal };

export interface ModelRouteRequest {
  readonly spender: Spender;
  /** With the harness's defaults filled in. */
  readonly model: ModelSpec;
  /** Caps of the spec that the session was started with; where the agent is there, its present caps hold instead. */
  readonly caps?: SpendCaps;
  /** Also listens on a unix socket of this path, for a sandbox without a network; it takes this session's calls alone. */
  readonly socketPath?: string;
  /** The token that the sandbox was given by an earlier process (`keyed`); absent: a new one is made. */
  readonly token?: string | undefined;
  readonly onEvent?: (event: ModelEvent) => void;
}
/** A session's way to its model: addresses that nobody else knows, until `close`. */
export interface ModelRoute {
  /**
   * The base address for a provider, `http://127.0.0.1:<port>/s/<token>/<provider>`, below which the provider's own paths
   * begin (`/v1/…`). `port`: the one inside a sandbox that leads to the socket. A secret: it is never logged.
   */
  baseUrl(port?: number): string;
  /** The same by an address that is no secret, and a key that is, to be sent as a bearer token. */
  keyed(port?: number): { readonly baseUrl: string; readonly key: string };
  /** Takes the token out of a text: harnesses repeat the address in their errors. */
  scrub(text: string): string;
  /**
   * The last call of the conversation that ended by itself; one that the harness broke off does not count. Calls that
   * offer no tools are asked beside the conversation where any call offers some: how they end says nothing of a turn.
   */
  last(): ModelCallEnd | undefined;
  /** Resolves when every call that has ended is in the ledger. */
  settled(): Promise<void>;
  /** Revokes the token, breaks off what is in flight and waits until it is in the ledger. Safe twice. */
  close(): Promise<void>;
}
/** The gateway that sessions call their models through: made once per daemon that has the role `session`. */
export interface ModelRoutes {
  /** Opens a session's way. Calls that a host left in flight when it died are entered in the ledger first. */
  open(request: ModelRouteRequest): Promise<ModelRoute>;
  /** Why a session may not be launched or go on, null where it may; `refusal` is there where a cap is reached. */
  check(
    request: Pick<ModelRouteRequest, 'spender' | 'model' | 'caps'>,
  ): Promise<{ readonly message: string; readonly refusal?: CapRefusal } | null>;
  stop(): Promise<void>;
}

/** What the code host is told of a check. */
export interface CheckReport {
  /** Of the service's own; it stays the same over retries, so that a client can find what it has made. */
  readonly id: string;
  readonly connectionId: string;
  /** Key of the pull request. */
  readonly targetKey: string;
  readonly headSha: string;
  /** What the code host calls it; null: it does not know it yet. */
  readonly externalId: string | null;
  readonly displayName: string;
  readonly description: string;
  /** `superseded`: the next cycle has begun; only told where the code host knows it. */
  readonly state: 'queued' | 'in_progress' | 'concluded' | 'superseded';
  /** Of a concluded one. */
  readonly conclusion: CheckDeadline['conclusion'] | null;
  readonly title: string | null;
  readonly summary: string | null;
}

/**
 * `done` without an id: nobody there is to be told. `failed`: refused for good, or nobody knows whether it happened; it
 * waits for a person, or for the next change.
 */
export type Reported =
  | { readonly outcome: 'done'; readonly externalId: string | null }
  | { readonly outcome: 'later'; readonly afterMs: number }
  | { readonly outcome: 'failed'; readonly reason: string };

export interface CheckPort {
  /** Brings the code host to this state. Never throws; what it cannot know it says as `failed`. */
  report(report: CheckReport): Promise<Reported>;
}

/** A step of a write that was handed to the network, and whose outcome is not known. */
export interface SoughtStep {
  readonly id: string;
  readonly projectId: string;
  readonly sessionId: string | null;
  readonly connectionId: string | null;
  readonly tool: string;
  /** Not later than the step was sent. */
  readonly createdAt: Date;
  /** As the step was given. */
  readonly probe: JsonObject;
}
export type Found =
  | { readonly found: false }
  /** `answer`: what the caller would have been told. */
  | { readonly found: true; readonly answer: Json; readonly url?: string };

/** A session whose git is to reach its mounts. */
export interface GitRouteRequest {
  readonly sessionId: string;
  readonly agent: string;
  readonly project: ProjectRef;
  readonly spec: Pick<AgentSpec, 'mounts'>;
  /** Listens on a unix socket of this path instead of a port of this machine. */
  readonly socketPath?: string;
}
export interface GitRoute {
  /** `http://127.0.0.1:<port>/git`, below which `<owner>/<name>.git` are; `port`: the one inside a sandbox. */
  baseUrl(port?: number): string;
  /** Breaks off what is in flight. Safe twice. */
  close(): Promise<void>;
}
/** A fenced session's way to the hosts that it may reach. */
export interface EgressRouteRequest {
  readonly sessionId: string;
  /** Hosts as in docs/reference/sessions.md#network; nothing else is reached. */
  readonly allow: readonly string[];
  readonly injections: readonly EdgeInjection[];
  readonly socketPath: string;
  /** Of the sandbox's edge in an earlier process. */
  readonly authority?: EdgeAuthority | undefined;
}
interface EdgeKeys {
  readonly publicKey: string;
  readonly privateKey: string;
}
/** What ends TLS for the hosts of injections, as another process goes on with it. Secret. */
export interface EdgeAuthority {
  readonly certificate: string;
  readonly own: EdgeKeys;
  readonly leaf: EdgeKeys;
}
export interface EgressRoute {
  /** PEM: the certificate of the session's own authority, and that together with all that this process trusts. */
  readonly trust?: { readonly ca: string; readonly all: string };
  readonly authority?: EdgeAuthority;
  /** Breaks off what is in flight; what was denied is noted when it resolves. Safe twice. */
  close(): Promise<void>;
}
/** The edges of fenced sessions: made once per daemon that has the role `session`. */
export interface EgressRoutes {
  open(request: EgressRouteRequest): Promise<EgressRoute>;
  stop(): Promise<void>;
}
/** Of a secret that never enters the sandbox: HTTPS requests to these exact hosts get the header. */
export interface EdgeInjection {
  readonly name: string;
  readonly hosts: readonly string[];
  readonly header: string;
  /** The header's value, formatted. */
  readonly value: Buffer;
  /** The secret as it is. */
  readonly raw: Buffer;
}

/** The ways of sessions' git to the code host: made once per daemon that has the role `session`. */
export interface GitRoutes {
  open(request: GitRouteRequest): Promise<GitRoute>;
  stop(): Promise<void>;
}
