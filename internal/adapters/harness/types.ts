// The shapes of a harness connection: what a session host hands in, what it is told while a turn runs, and how a turn
// can end. All of them closed and bounded: whatever a harness says beyond them ends here.

import type { ReadingShare } from './shared-reading.ts';
import type { Readable, Writable } from 'node:stream';
import type { Logger } from 'pino';
import type { Harness, ModelProvider, ReasoningEffort } from '../../domain/spec.ts';

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** A running harness program; the sandbox that started it owns it and ends it. */
export interface HarnessProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<ProcessExit>;
  /** Of one that another process has started: the first byte of its output that is read here. */
  readonly lasting?: { readonly from: number };
}

/** What a harness is to be; from the agent's spec with the catalog's defaults filled in. */
export interface LaunchInput {
  readonly harness: Harness;
  readonly model: {
    readonly provider: ModelProvider;
    readonly id: string;
    /** The gateway's address of this session and provider, without `/v1` and without a trailing slash. A secret. */
    readonly baseUrl: string;
    /** The same by an address that is no secret and a key that is: for a harness that shows its settings as arguments. */
    readonly keyed?: { readonly baseUrl: string; readonly key: string };
  };
  /** Opens the session's tool servers. */
  readonly toolsToken: string;
  readonly effort: ReasoningEffort;
  readonly systemPrompt?: string;
  readonly approvals: 'bypass' | 'prompt';
  /** Home directory as the program sees it; its state lies beneath it. */
  readonly home: string;
  /** The program runs as uid 0. */
  readonly asRoot: boolean;
  /** It runs where it cannot reach the host's files. */
  readonly isolated: boolean;
  /** It is the public adapter, not a configured command, which may be any program that speaks the protocol. */
  readonly installed: boolean;
}

/** One call after a session is open. One that is not required may be refused without ending the launch. */
export interface SetupCall {
  readonly method: string;
  /** `sessionId` is added. */
  readonly params: { readonly [key: string]: unknown };
  /** Sent only where the agent advertises this session capability. */
  readonly capability?: string;
  /** Sent for a new session only. */
  readonly newOnly?: true;
  readonly required: boolean;
}

/** What a profile makes of a LaunchInput: data only, so that a host can start the program and talk to it. */
export interface LaunchPlan {
  readonly harness: Harness;
  /** Beside the agent's own environment; wins over it. */
  readonly env: { readonly [name: string]: string };
  /** Absolute directories that must exist before the program starts. */
  readonly directories: readonly string[];
  readonly clientMeta: { readonly [key: string]: unknown };
  readonly sessionMeta: { readonly [key: string]: unknown };
  readonly afterOpen: readonly SetupCall[];
  /** Every permission request is allowed without asking. */
  readonly autoApprove: boolean;
  /** The `authorization` header of its tool servers. */
  readonly toolsAuthorization: string;
  /** Strings that must not appear in a message or a log. */
  readonly secrets: readonly string[];
}

export interface McpEndpoint {
  /** As given by `mcpServerNames`. */
  readonly name: string;
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
}

/** What the connected program says of itself. */
export interface AgentInfo {
  readonly name: string;
  readonly version: string;
  readonly resume: 'resume' | 'load' | 'none';
}

export interface OpenRequest {
  /** Absolute, as the program sees it. */
  readonly cwd: string;
  readonly mcpServers: readonly McpEndpoint[];
}

export interface OpenedSession {
  readonly sessionId: string;
  readonly how: 'opened' | 'resumed' | 'loaded';
  /** Calls that were not required and were refused, as `method: reason`. */
  readonly refusedCalls: readonly string[];
}

/** Bytes of what only names something: a title, a kind, an id. */
export const nameBytesMax = 1_024;
/** An entry of a plan has this part of the bytes that a text has. */
export const planPart = 16;
/** Characters of why a turn failed. */
export const failureCharsMax = 2_000;

/** What a harness tells while it works. Texts are bounded (`Limits.maxTextBytes`); `truncated` says where one was cut. */
export type HarnessUpdate =
  | { readonly kind: 'text'; readonly text: string; readonly truncated?: true }
  | { readonly kind: 'thought'; readonly text: string; readonly truncated?: true }
  | {
      readonly kind: 'tool_started';
      readonly callId: string;
      readonly title: string;
      /** The harness's own word: read, edit, execute, … */
      readonly category: string;
      readonly status: 'pending' | 'in_progress';
      /** JSON text. */
      readonly input?: string;
      /** What it gives as it begins, such as the files that it is to change. */
      readonly text?: string;
      readonly truncated?: true;
    }
  | {
      readonly kind: 'tool_updated';
      readonly callId: string;
      readonly status?: 'pending' | 'in_progress';
      readonly title?: string;
      readonly input?: string;
      readonly text?: string;
      /** A piece of what it gives, behind those before. */
      readonly more?: string;
      readonly truncated?: true;
    }
  | {
      readonly kind: 'tool_finished';
      readonly callId: string;
      readonly status: 'completed' | 'failed';
      /** Where it is over as it is told of for the first time. */
      readonly category?: string;
      readonly title?: string;
      readonly input?: string;
      readonly text?: string;
      /** A piece of what it gives, behind those before. */
      readonly more?: string;
      readonly truncated?: true;
    }
  | { readonly kind: 'plan'; readonly entries: readonly { readonly text: string; readonly status: string }[] }
  | {
      readonly kind: 'usage';
      /** Tokens in the context window, and its size. */
      readonly usedTokens: number;
      readonly windowTokens: number;
      /** Cumulative list price as the harness sees it, a decimal; the ledger is the gateway's, never this. */
      readonly cost?: { readonly amount: string; readonly currency: string };
    }
  | { readonly kind: 'notice'; readonly severity: 'info' | 'warning' | 'error'; readonly text: string };

export interface PermissionRequest {
  readonly callId: string;
  readonly title: string;
  readonly category: string;
  /** JSON text of the tool's input. */
  readonly input?: string;
  /** What the harness offers. */
  readonly options: readonly { readonly id: string; readonly name: string; readonly kind: string }[];
}
/** `allow` and `reject` take the once-only option before the lasting one. */
export type PermissionDecision = 'allow' | 'allow_always' | 'reject' | 'cancelled';

export interface TokenUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
  readonly cachedReadTokens?: number;
  readonly cachedWriteTokens?: number;
  readonly thoughtTokens?: number;
}

/**
 * What the model gateway saw during one turn, of the calls that offered tools: the best witness there is. Side calls of a
 * harness, such as for a title, offer none, and one that failed says nothing of the turn.
 */
export interface ModelEvidence {
  readonly calls: number;
  /** HTTP status of the last finished call; 0 where its answer broke off, or told of a failure that may pass. */
  readonly lastStatus?: number;
  readonly lastError?: string;
}

export type FailureCause =
  | 'authentication'
  | 'spend_cap'
  | 'rate_limit'
  | 'overloaded'
  | 'server'
  | 'connection'
  | 'bad_request'
  | 'context'
  | 'silent'
  | 'unknown';

/** How a turn ended. Only `finished` is a good end. */
export type TurnOutcome =
  | { readonly kind: 'finished'; readonly usage?: TokenUsage }
  /** `byClient` is false where the harness cancelled by itself, as after a rejected permission. */
  | { readonly kind: 'cancelled'; readonly byClient: boolean; readonly usage?: TokenUsage }
  | { readonly kind: 'refused'; readonly usage?: TokenUsage }
  | { readonly kind: 'cut'; readonly limit: 'max_tokens' | 'max_turn_requests'; readonly usage?: TokenUsage }
  | {
      readonly kind: 'failed';
      readonly cause: FailureCause;
      /** The same prompt may succeed later. */
      readonly retryable: boolean;
      readonly message: string;
      readonly usage?: TokenUsage;
    }
  /** The program or its wire went away; whether the turn had effects is unknown. */
  | { readonly kind: 'lost'; readonly message: string; readonly failure: HarnessFailure };

export type HarnessFailureKind =
  | 'exited'
  | 'timeout'
  | 'garbage'
  | 'frame_too_large'
  | 'refused'
  | 'incompatible'
  | 'cannot_resume'
  | 'forgotten'
  | 'listener_failed'
  | 'closed';

/** The wire to a harness ended or never came up. After one the connection is of no more use. */
export class HarnessFailure extends Error {
  readonly kind: HarnessFailureKind;
  readonly exit: ProcessExit | undefined;
  /** The end of what the program wrote to stderr, without secrets. */
  readonly stderrTail: string;

  constructor(
    kind: HarnessFailureKind,
    message: string,
    more: { exit?: ProcessExit; stderrTail?: string; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = 'HarnessFailure';
    this.kind = kind;
    this.exit = more.exit;
    this.stderrTail = more.stderrTail ?? '';
  }
}

export interface Limits {
  readonly initializeMs: number;
  /** Each of open, resume and the calls after them. */
  readonly openMs: number;
  /** How long `cancel` waits for the turn's end before it says `overdue`. */
  readonly cancelGraceMs: number;
  /** After the program exited: how long its last output is waited for, since a child may hold the pipe open. */
  readonly drainMs: number;
  readonly maxFrameBytes: number;
  /**
   * Members, elements, objects and lists of one message: parsing one of that size, each under a name of its own, takes a
   * tenth of a second.
   */
  readonly maxFrameValues: number;
  /** Updates that the listener has not taken yet; more of them stop the reading of the program's output. */
  readonly maxPendingUpdates: number;
  /** Requests of the program whose answer has not gone out; more of them, or more than a message's bytes of them, stop the reading too. */
  readonly maxOpenRequests: number;
  readonly maxTextBytes: number;
  readonly maxStderrTailBytes: number;
}

export const defaultLimits: Limits = {
  initializeMs: 60_000,
  openMs: 60_000,
  cancelGraceMs: 5_000,
  drainMs: 1_000,
  maxFrameBytes: 16 * 1024 * 1024,
  maxFrameValues: 200_000,
  maxPendingUpdates: 64,
  maxOpenRequests: 64,
  maxTextBytes: 64 * 1024,
  maxStderrTailBytes: 8 * 1024,
};

/** What is about to be written to a harness. */
export interface HarnessWriting {
  /** Of a request: its id and method. */
  readonly id: number | undefined;
  readonly method: string | undefined;
  /** Of an answer: the byte of the output behind what it answers. */
  readonly answers: number | undefined;
  readonly bytes: number;
}

/** Hears how far a harness's output was taken, so that another process can go on from there. Bytes are of that output. */
export interface HarnessFollower {
  /** Nothing before this byte is of use any more, once the updates before it are kept. */
  passed(end: number): void;
  /** What ends at this byte is not done with: a question of the harness, or how its turn ends. */
  waits(end: number, what: 'question' | 'answer'): void;
  /** Waited for before each message that is written. */
  writing(message: HarnessWriting): Promise<void>;
}

/** A conversation that another process has opened, as this one goes on with it. */
interface AdoptedConversation {
  readonly sessionId: string;
  /** From which ids of requests are free. */
  readonly nextId: number;
  /** Of the prompt in flight. */
  readonly promptId: number | undefined;
  /** Its turn was seen to do something. */
  readonly isActive: boolean;
}

export interface ConnectOptions {
  readonly process: HarnessProcess;
  readonly plan: LaunchPlan;
  readonly listener: HarnessListener;
  readonly limits: Limits;
  readonly log: Logger;
  /** Strings beside the plan's and the tool servers' headers that must not appear in a message. */
  readonly secrets?: readonly string[];
  /** Nothing is opened then. */
  readonly adopted?: AdoptedConversation;
  /** What it has of the reading that all harnesses of the daemon share; absent: there are no others. */
  readonly share?: ReadingShare;
}

export interface PromptOptions {
  /** Asked once, when the turn has been answered. */
  readonly evidence?: () => ModelEvidence | undefined | Promise<ModelEvidence | undefined>;
}

/** Who listens to a connection. */
export interface HarnessListener {
  /**
   * Called in order, one at a time; a promise holds the program's output back. A rejection ends the connection. `end`: the
   * byte of the output behind it.
   */
  onUpdate(update: HarnessUpdate, end?: number): void | Promise<void>;
  readonly follower?: HarnessFollower;
  /** Only where the plan does not auto-approve. The signal aborts when the turn is cancelled or the wire ends. */
  onPermission(request: PermissionRequest, signal: AbortSignal): Promise<PermissionDecision>;
}
