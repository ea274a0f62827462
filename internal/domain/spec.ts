// The stored, canonical shapes of resources (docs/reference/compile.md#output): what compile gives, plan compares and routing
// reads. What an author may write is wider and lives in schemas/.

import type { Json, JsonObject, JsonScalar } from './json.ts';

export const harnessNames = ['harness-a', 'harness-b'] as const;
export type Harness = (typeof harnessNames)[number];
export const providers = ['provider-a', 'provider-b', 'provider-c'] as const;
export type ModelProvider = (typeof providers)[number];
export const effortNames = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof effortNames)[number];

/** Target types that a binding may have (docs/reference/routing.md#bindings). */
export const bindingTargets = [
  'codehost.pull_request',
  'codehost.issue',
  'chat.thread',
  'tracker.issue',
  'svc.session',
] as const;
export type BindingTarget = (typeof bindingTargets)[number];
/** Targets of a bind route (docs/reference/compile.md#triggers): the binding targets and the agent's own slot. */
export const routeTargets = [...bindingTargets, 'agent.singleton'] as const;
export type RouteTarget = (typeof routeTargets)[number];
/** Chat-thread targets: those that `onMention` and `deliver.bind` accept. */
export const chatTargets = ['chat.thread'] as const satisfies readonly BindingTarget[];

export const onUnmatchedValues = ['drop', 'warn', 'error', 'spawn'] as const;
export type OnUnmatched = (typeof onUnmatchedValues)[number];
export type Lifecycle = 'manual' | 'held';
export type Continuity = 'session' | 'agent';

export interface SecretRef {
  readonly $secret: string;
  readonly optional?: true;
}
export type EnvMap = { readonly [name: string]: string | SecretRef };

export interface EventContext {
  readonly bound?: JsonObject;
  readonly updated?: JsonObject;
  readonly unbound?: JsonObject;
}

export type WhereClause =
  | JsonScalar
  | { readonly contains: JsonScalar }
  | { readonly exists: boolean }
  | { readonly in: readonly JsonScalar[] }
  | { readonly notIn: readonly JsonScalar[] }
  | { readonly changedTo: JsonScalar };
export type Where = { readonly [path: string]: WhereClause };

export interface SpawnRouting {
  readonly kind: 'spawn';
  readonly bind?: { readonly target: RouteTarget; readonly context?: JsonObject; readonly eventContext?: EventContext };
}
export interface DeliverRouting {
  readonly kind: 'deliver';
  readonly routeBy?: { readonly kind: 'attributedSessions' | 'allLiveSessions' };
  readonly onUnmatched: OnUnmatched;
  readonly bind?: { readonly target: BindingTarget };
}
export interface BindRouting {
  readonly kind: 'bind';
  readonly target: RouteTarget;
  readonly onUnmatched: OnUnmatched;
  readonly release: false | { readonly context: JsonObject | null };
  readonly observedTarget?:
    | { readonly action: 'bind'; readonly context?: JsonObject; readonly eventContext?: EventContext }
    | { readonly action: 'unbind'; readonly eventContext?: EventContext };
}
export type Routing = SpawnRouting | DeliverRouting | BindRouting;

export interface CheckDeadline {
  readonly seconds: number;
  readonly conclusion: 'success' | 'failure' | 'skipped';
}
export interface CheckSpec {
  readonly name: string;
  readonly displayName: string;
  readonly description: string;
  readonly instructions?: string;
  readonly beginTimeout?: CheckDeadline;
  readonly completeTimeout?: CheckDeadline;
}

export type EndpointAuth =
  | { readonly kind: 'hmac_sha256'; readonly secretRef: string }
  | { readonly kind: 'bearer_token'; readonly secretRef: string }
  | { readonly kind: 'none' };

export interface EventTrigger {
  readonly kind: 'event';
  readonly event: string;
  readonly connection?: string;
  readonly optional?: boolean;
  readonly endpoint?: string;
  readonly auth?: EndpointAuth;
  readonly where: Where;
  readonly message?: string;
  readonly attachedUserPrompt?: string;
  readonly checks?: readonly CheckSpec[];
  readonly fallback: boolean;
  readonly routing: Routing;
}
export interface HeartbeatTrigger {
  readonly kind: 'heartbeat';
  readonly cron: string;
  readonly timezone: string;
  readonly where: Where;
  readonly message?: string;
  readonly fallback: boolean;
  readonly routing: Routing;
}
/** A trigger's ordinal is its index in `AgentSpec.triggers`. */
export type Trigger = EventTrigger | HeartbeatTrigger;

export type CapabilityLevel = 'none' | 'read' | 'write';
export interface MountCapabilities {
  readonly contents: CapabilityLevel;
  readonly pullRequests: CapabilityLevel;
  readonly issues: CapabilityLevel;
  readonly checks: CapabilityLevel;
  readonly actions: CapabilityLevel;
  readonly workflows: CapabilityLevel;
  readonly secrets: CapabilityLevel;
  readonly merge: 'none' | 'write';
}
export type MountAuth =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'codehostApp';
      readonly installationId?: string;
      readonly commitAuthor?: { readonly name: string; readonly email: string };
      readonly capabilities: MountCapabilities;
    };
export interface Mount {
  readonly kind: 'git';
  readonly repository: string;
  readonly mountPath: string;
  readonly ref?: string;
  readonly depth?: number;
  readonly auth: MountAuth;
}

interface ToolCommon {
  readonly disabled?: boolean;
  readonly description?: string;
}
interface ConnectionPair {
  readonly provider: string;
  readonly connection: string;
}
export type RemoteAuth =
  | { readonly kind: 'none' }
  | { readonly kind: 'bearer'; readonly token: { readonly $secret: string } }
  | { readonly kind: 'mcp_oauth'; readonly connection: string; readonly optional?: boolean }
  | {
      readonly kind: 'provider_oauth';
      readonly provider: string;
      readonly connection: string;
      readonly optional?: boolean;
    };
export type ChatAuth =
  | (ConnectionPair & { readonly kind: 'connection'; readonly optional?: boolean })
  | { readonly kind: 'connections'; readonly connections: readonly ConnectionPair[]; readonly optional?: boolean };
export type Tool =
  | (ToolCommon & {
      readonly kind: 'mcp_remote';
      readonly url: string;
      readonly transport: 'streamable_http';
      readonly auth: RemoteAuth;
    })
  | (ToolCommon &
      ConnectionPair & { readonly kind: 'connection'; readonly tools?: readonly string[]; readonly optional?: boolean })
  | (ToolCommon & {
      readonly kind: 'local';
      readonly implementation: 'svc';
      readonly capabilities: { readonly billing: 'none' | 'read' | 'write' };
    })
  | (ToolCommon & { readonly kind: 'local'; readonly implementation: 'chat'; readonly auth: ChatAuth })
  | (ToolCommon & { readonly kind: 'local'; readonly implementation: 'ping' })
  | (ToolCommon & { readonly kind: 'codehost'; readonly tools?: readonly string[] });

export interface BindingPolicy {
  readonly lifecycle: Lifecycle;
  readonly continuity: Continuity;
  readonly bind?: 'onAttributedEvent' | 'onMention';
  readonly context?: JsonObject;
  readonly eventContext?: EventContext;
}

export interface ModelSpec {
  readonly provider: ModelProvider;
  readonly id: string;
  readonly gateway?: {
    readonly models: readonly string[];
    readonly provider?: {
      readonly allowFallbacks?: boolean;
      readonly order?: readonly string[];
      readonly sort?: 'price' | 'throughput' | 'latency';
      readonly only?: readonly string[];
      readonly ignore?: readonly string[];
    };
  };
  readonly fallbacks?: readonly { readonly id: string; readonly provider: ModelProvider }[];
}

export type StringMap = { readonly [key: string]: string };

export interface AgentSpec {
  readonly labels?: StringMap;
  readonly annotations?: StringMap;
  readonly harness: Harness;
  readonly model?: ModelSpec;
  readonly reasoningEffort?: ReasoningEffort;
  readonly systemPrompt?: string;
  readonly initialPrompt?: string;
  readonly displayTitle?: string;
  /** Name of a generated Environment resource. */
  readonly environment: string;
  readonly env: EnvMap;
  /** Name of an Identity resource. */
  readonly identity?: string;
  readonly mounts: readonly Mount[];
  readonly tools: { readonly [alias: string]: Tool };
  readonly triggers: readonly Trigger[];
  readonly session: {
    readonly archiveAfterInactive?: { readonly seconds: number };
    readonly observeSpawnedSessions?: boolean;
  };
  readonly spendCaps?: { readonly dailyUsd?: string; readonly monthlyUsd?: string; readonly maxPerSessionUsd?: string };
  readonly concurrency?: 1;
  readonly replace?: 'auto';
  readonly onReplace?: string;
  readonly manages?: readonly string[];
  readonly bindings: { readonly [target in BindingTarget]?: BindingPolicy };
  readonly workingDirectory?: string;
}

export interface EnvironmentSpec {
  readonly labels?: StringMap;
  readonly annotations?: StringMap;
  readonly image: { readonly kind: 'preset'; readonly name: string };
  readonly env: EnvMap;
  readonly resources?: { readonly cpuCount?: number; readonly memoryMB?: number };
  readonly steps: readonly string[];
  readonly setup: readonly {
    readonly name: string;
    readonly commands: readonly string[];
    readonly cache?: { readonly key?: string; readonly files?: readonly string[]; readonly paths?: readonly string[] };
  }[];
  readonly setupCache?: { readonly ttl: string };
  readonly approvals: 'bypass' | 'prompt';
}

export interface IdentitySpec {
  readonly displayName?: string;
  readonly username?: string;
  readonly avatar?: { readonly asset: string; readonly sha256?: string };
  readonly description?: string;
}

export type ResourceKind = 'Agent' | 'Environment' | 'Identity';
export interface SourceRef {
  /** Path from the tree root, of the agent document that made the resource. */
  readonly file: string;
  /** Index of the document within its file, from 0, counting documents that hold something. */
  readonly document: number;
}
export type Resource =
  | { readonly kind: 'Agent'; readonly name: string; readonly source: SourceRef; readonly spec: AgentSpec }
  | { readonly kind: 'Environment'; readonly name: string; readonly source?: SourceRef; readonly spec: EnvironmentSpec }
  | { readonly kind: 'Identity'; readonly name: string; readonly source?: SourceRef; readonly spec: IdentitySpec };

/** Resource names of every kind (docs/reference/compile.md#text-and-limits). */
export const resourceNamePattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** A spec is JSON by construction; this is the one place that says so to the type checker. */
export const asJson = (spec: AgentSpec | EnvironmentSpec | IdentitySpec | Trigger): Json => spec as unknown as Json;
