// What routing reads and gives: the loader's contract on one side, the writer's on the other.

import type { JsonObject } from '../../domain/json.ts';
import type { AgentSpec, BindingTarget, Continuity, EventContext, Lifecycle, Routing } from '../../domain/spec.ts';
import type { MatchTrigger } from '../match/match.ts';

/** A routing target: one pull request, one thread (docs/reference/events.md). */
export interface Target {
  readonly type: BindingTarget;
  readonly key: string;
}

export interface RoutableTrigger extends MatchTrigger {
  readonly agentId: string;
  readonly routing: Routing;
}

/** A session tied to the event's target (docs/reference/routing.md#attributions). */
export interface Attribution {
  readonly sessionId: string;
  readonly agent: string;
  readonly relation: string;
}

export interface RoutableEvent {
  readonly key: string;
  /** Null where none can be derived. */
  readonly target: Target | null;
  readonly attributions: readonly Attribution[];
  /** On a binding event the target that the event speaks of (`binding.target`); else null. */
  readonly observed: Target | null;
  /** Binding events that led to this one, one after another: 0 for what came from outside. */
  readonly depth: number;
}

export interface RoutingAgent {
  readonly id: string;
  readonly name: string;
  readonly concurrency?: 1;
  readonly bindings: AgentSpec['bindings'];
}

export interface LiveSession {
  readonly id: string;
  readonly agentId: string;
}

/** An active binding; one at most per agent and target. */
export interface ActiveBinding {
  readonly agentId: string;
  readonly target: Target;
  /** The live session that holds it; null: an agent's claim that waits for a replacement. */
  readonly sessionId: string | null;
  readonly lifecycle: Lifecycle;
  /** Relationship context, stamped on the binding. */
  readonly context: JsonObject | null;
  /** As the binding was made with; its `unbound` annotates a release. */
  readonly eventContext: EventContext | null;
}

/**
 * What the loader reads in the routing transaction, for the agents of the matched triggers and of the attributed sessions.
 * It may be older than what the writer meets: claims are unique rows, and one that conflicts makes the flow load and
 * decide again, which turns the spawn into a delivery to the winner.
 */
export interface Snapshot {
  readonly agents: ReadonlyMap<string, RoutingAgent>;
  /** Live sessions of those agents, in the order in which they were made. */
  readonly sessions: readonly LiveSession[];
  /** Agent id → live session that holds its slot. */
  readonly slots: ReadonlyMap<string, string>;
  /** Agent id → live session that was spawned for the event's chat thread. */
  readonly threads: ReadonlyMap<string, string>;
  /** Active bindings of those agents on the event's target and on the observed one. */
  readonly bindings: readonly ActiveBinding[];
  /** `triggerKey` of the triggers that this event has been routed by before. */
  readonly routed: ReadonlySet<string>;
}

/** A session that is there, or the one that the decision of this trigger makes. */
export type SessionRef = { readonly session: string } | { readonly spawnedBy: string };

export interface BindEffect {
  readonly kind: 'bind';
  readonly agentId: string;
  readonly target: Target;
  readonly holder: SessionRef;
  readonly lifecycle: Lifecycle;
  readonly continuity: Continuity;
  /** Relationship context, stamped on the binding. */
  readonly context: JsonObject | null;
  /** Kept with the binding; its `bound` is the emitted event's `binding.eventContext`. */
  readonly eventContext: EventContext | null;
  /** True where the agent's active binding on the target passes to the holder instead of a new one being made. */
  readonly takesOver: boolean;
}
export interface ReleaseEffect {
  readonly kind: 'release';
  readonly agentId: string;
  readonly target: Target;
  /** The emitted event's `binding.eventContext`. */
  readonly eventContext: JsonObject | null;
}
export type BindingEffect = BindEffect | ReleaseEffect;

/** The words of `routes` (docs/reference/routing.md#matching). */
export type DecisionWord =
  | 'spawn'
  | 'deliver'
  | 'converted'
  | 'released'
  | 'unmatched-drop'
  | 'unmatched-warn'
  | 'unmatched-error'
  | 'unmatched-spawn';

/** What a new session claims in the transaction that makes it; each claim is a unique row. */
export interface SpawnClaims {
  readonly slot: boolean;
  readonly thread: Target | null;
}

export interface Decision {
  /** `agentId#ordinal`: with the event, what makes a spawn happen once. */
  readonly trigger: string;
  readonly agentId: string;
  readonly agent: string;
  readonly ordinal: number;
  readonly decision: DecisionWord;
  readonly severity: 'warning' | 'error' | null;
  /** Where a session is made: its claims; a bind among `effects` belongs to the same transaction. */
  readonly spawn: SpawnClaims | null;
  /** Sessions that get the message, in order; the one that is spawned gets it as its start. */
  readonly deliverTo: readonly SessionRef[];
  /** In the order in which they are written, each with its own binding event. */
  readonly effects: readonly BindingEffect[];
  /** Of a conversion: what the winner had claimed before. Of an unmatched one: `loop` where the bound on loops ended it. */
  readonly because: 'target' | 'thread' | 'slot' | 'loop' | null;
}

export interface RoutingResult {
  /** Bindings by `onAttributedEvent`: made before any trigger is routed, and seen by all of them. */
  readonly autoBinds: readonly BindEffect[];
  /** One per matched trigger that was not routed before, in the triggers' order. */
  readonly decisions: readonly Decision[];
}
