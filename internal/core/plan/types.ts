// The values that a plan is made from and the value that it is. Desired comes from compile, current from the
// store; a ChangeSet names everything an apply will write, so that writing needs no further decision.

import type { NetworkFacts, ResourceLimits } from '../../domain/catalog.ts';
import type { Diagnostic, Places } from '../../domain/diagnostic.ts';
import type { Json } from '../../domain/json.ts';
import type { EndpointAuth, Resource, SourceRef, Trigger } from '../../domain/spec.ts';

/** A compiled resource with the SHA-256 (hex) of its canonical spec. */
export type DesiredResource = Resource & { readonly hash: string };

export interface DesiredAsset {
  readonly sha256: string;
  readonly path: string;
  readonly mediaType: string;
}

export interface Desired {
  readonly resources: readonly DesiredResource[];
  readonly assets: readonly DesiredAsset[];
  readonly places?: Places;
  /** False where the tree has no `.svc/` directory at all. */
  readonly hasSvc: boolean;
}

/** Begins the hash of a row whose spec is not what was applied: it equals no other. */
export const drifted = 'drifted:';

export interface CurrentAgent {
  readonly id: string;
  readonly name: string;
  /** Null: owned by `manual`. */
  readonly repositoryId: string | null;
  readonly revision: number;
  readonly hash: string;
  readonly source: SourceRef;
  readonly environment: string | null;
  readonly identity: string | null;
  /** Needed only where the hash differs from the desired one (`specsNeeded`). */
  readonly spec?: Json;
}
export interface CurrentGenerated {
  readonly id: string;
  readonly kind: 'Environment' | 'Identity';
  readonly name: string;
  readonly hash: string;
  /** Where `hash` is that of a row that drifted: the hash of what its users agreed on. */
  readonly agreedHash?: string;
  /** Ids of the agents that generate it. */
  readonly users: readonly string[];
  readonly spec?: Json;
}
export interface CurrentTrigger {
  readonly agentId: string;
  readonly ordinal: number;
  readonly event: string;
  readonly endpointId: string | null;
  readonly connectionId: string | null;
  readonly status: TriggerStatus;
  readonly hash: string;
}
export interface CurrentEndpoint {
  readonly id: string;
  readonly name: string;
  /** Null while it is only reserved. */
  readonly auth: EndpointAuth | null;
  readonly status: 'ready' | 'reserved';
}
export interface CurrentSchedule {
  readonly id: string;
  readonly agentId: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly timezone: string;
}
export interface CurrentConnection {
  readonly id: string;
  readonly name: string;
  readonly provider: 'codehost' | 'tracker' | 'chat' | 'errtrack' | 'mcp';
  /** What an author writes as a tool's provider, such as the product behind a chat connection. */
  readonly product: string;
  readonly active: boolean;
}

/** The stored state of one project, as one transaction saw it. */
export interface Current {
  /** Repository id → name. */
  readonly repositories: ReadonlyMap<string, string>;
  readonly agents: readonly CurrentAgent[];
  readonly generated: readonly CurrentGenerated[];
  readonly triggers: readonly CurrentTrigger[];
  readonly endpoints: readonly CurrentEndpoint[];
  readonly schedules: readonly CurrentSchedule[];
  readonly connections: readonly CurrentConnection[];
  /** Names that resolve to a live value: project scope, then organization scope; an expired one is absent. */
  readonly liveSecrets: ReadonlySet<string>;
  /** Names that exist and have expired in every scope that has them, for a better message. */
  readonly expiredSecrets: ReadonlySet<string>;
  /** Names whose live value expires when it is idle. */
  readonly idleSecrets: ReadonlySet<string>;
  /** SHA-256 (hex) of stored avatars. */
  readonly assets: ReadonlySet<string>;
  /** The project's ceilings of what environments ask for. */
  readonly limits?: ResourceLimits | null;
  /** The hosts that the project's sessions may reach; null where it has no list. */
  readonly allow?: readonly string[] | null;
  /** Of names that resolve to a live value that is injected, where. */
  readonly injections?: ReadonlyMap<string, { readonly hosts: readonly string[]; readonly header: string }>;
}

export interface PlanOptions {
  /** Who applies: a repository's id, or null for `manual`. */
  readonly owner: string | null;
  readonly prune: boolean;
  readonly adopt: boolean;
  /** Look for drift: the hashes in `Current` were made from the rows as they are, and triggers are compared in full. */
  readonly verify: boolean;
  /** `off` for people's own applies and for approved runs. */
  readonly guard: 'off' | { readonly deleteMax?: number };
  readonly now: Date;
  /** Next fire time strictly after `after`, or null when there is none (core/schedule). */
  readonly nextTick: (cron: string, timezone: string, after: Date) => Date | null;
  readonly sha256: (text: string) => string;
  /** SHA-256 (hex) of avatars that the service ships. */
  readonly shippedAvatars: readonly string[];
  /** What the settings say of the network of sessions. */
  readonly network?: NetworkFacts | undefined;
}

export type TriggerStatus = 'active' | 'skipped';
export type Op = 'create' | 'update' | 'delete' | 'unchanged';

/** One field that differs. `path` is a JSON path into the spec; a side that has no such field is null. */
export interface Change {
  readonly path: string;
  readonly from: Json;
  readonly to: Json;
}
export interface Action {
  readonly op: Op;
  readonly kind: 'Agent' | 'Environment' | 'Identity';
  readonly name: string;
  /** Of an update; empty for the other ops, where the whole resource comes or goes or stays. */
  readonly changes: readonly Change[];
}

export interface ScheduleConsequence {
  readonly agent: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly timezone: string;
  /** ISO times of the next fires, soonest first; empty for a lost schedule. */
  readonly next: readonly string[];
  readonly from?: { readonly cron: string; readonly timezone: string };
}
export interface TriggerConsequence {
  readonly agent: string;
  readonly ordinal: number;
  readonly event: string;
}
/** Live sessions of one agent on one revision. */
export interface SessionConsequence {
  readonly agent: string;
  readonly revision: number;
  readonly count: number;
}
/** What an apply does beyond the resources that it writes. */
export interface Consequences {
  readonly schedules: {
    readonly gained: readonly ScheduleConsequence[];
    readonly changed: readonly ScheduleConsequence[];
    readonly lost: readonly ScheduleConsequence[];
  };
  readonly endpoints: { readonly gained: readonly string[]; readonly lost: readonly string[] };
  readonly triggers: {
    readonly activated: readonly TriggerConsequence[];
    readonly skipped: readonly TriggerConsequence[];
  };
  /** Of agents that change: those that go on with the revision that they have, and those that end. Absent: there are none. */
  readonly sessions?: {
    readonly kept: readonly SessionConsequence[];
    readonly archived: readonly SessionConsequence[];
  };
}

export interface AgentWrite {
  readonly name: string;
  /** Null: created by this apply. */
  readonly id: string | null;
  readonly spec: Json;
  readonly hash: string;
  readonly source: SourceRef;
  readonly revision: number;
  /** False where only the owner changes hands: the spec, hence the revision, stays. */
  readonly newRevision: boolean;
}
export interface GeneratedWrite {
  readonly kind: 'Environment' | 'Identity';
  readonly name: string;
  readonly spec: Json;
  readonly hash: string;
}
export interface UserWrite {
  readonly kind: 'Environment' | 'Identity';
  readonly name: string;
  readonly agent: string;
}
export interface TriggerWrite {
  readonly agent: string;
  readonly ordinal: number;
  readonly kind: 'event' | 'heartbeat';
  /** Null for a heartbeat: its key holds the agent's resource id, which a new agent does not have yet. */
  readonly event: string | null;
  readonly endpoint: string | null;
  readonly connectionId: string | null;
  readonly spec: Trigger;
  readonly hash: string;
  readonly status: TriggerStatus;
}
export interface ScheduleWrite {
  readonly agent: string;
  readonly ordinal: number;
  readonly cron: string;
  readonly timezone: string;
  readonly nextAt: Date;
}

/** Every row that differs, by table; nothing in it means that an apply writes nothing. */
export interface Writes {
  readonly agents: readonly AgentWrite[];
  readonly agentDeletes: readonly string[];
  /** A document that moved within the tree while its resource stayed the same: recorded, but not a change. */
  readonly sources: readonly { readonly id: string; readonly source: SourceRef }[];
  readonly generated: readonly GeneratedWrite[];
  readonly generatedDeletes: readonly string[];
  readonly users: readonly UserWrite[];
  readonly userDeletes: readonly { readonly resourceId: string; readonly agentId: string }[];
  /** Created, or promoted from a reservation. */
  readonly endpoints: readonly { readonly name: string; readonly auth: EndpointAuth }[];
  readonly triggers: readonly TriggerWrite[];
  readonly triggerDeletes: readonly { readonly agentId: string; readonly ordinal: number }[];
  readonly schedules: readonly ScheduleWrite[];
  readonly scheduleDeletes: readonly string[];
  readonly assets: readonly DesiredAsset[];
}

/** A webhook trigger's receipt before its endpoint has a URL (docs/reference/webhook-endpoints.md#declaring). */
export interface PlannedReceipt {
  readonly agent: string;
  readonly event: string;
  readonly endpoint: string;
}

export interface Held {
  readonly reason: 'too-many-deletes' | 'no-svc-directory';
  readonly message: string;
  readonly deletes: number;
  readonly owned: number;
}

export interface ChangeSet {
  /** No error among the diagnostics: `writes` may be written. */
  readonly ok: boolean;
  /** Some resource is created, updated or deleted. */
  readonly changed: boolean;
  readonly held?: Held;
  /** Sorted by kind, then name. */
  readonly actions: readonly Action[];
  readonly counts: { readonly [op in Op]: number };
  readonly consequences: Consequences;
  readonly receipts: readonly PlannedReceipt[];
  readonly diagnostics: readonly Diagnostic[];
  readonly writes: Writes;
}

export type DesiredAgent = Extract<DesiredResource, { readonly kind: 'Agent' }>;

export interface AgentsPlan {
  readonly desired: readonly DesiredAgent[];
  readonly writes: readonly AgentWrite[];
  readonly sources: Writes['sources'];
  /** Agents that leave with this apply. */
  readonly deletes: readonly CurrentAgent[];
  /** By agent name, of those that exist: what differs, empty for none. */
  readonly changes: ReadonlyMap<string, readonly Change[]>;
  /** Agents that the owner has before the apply. */
  readonly owned: number;
}
