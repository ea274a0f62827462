// The world while one event is routed: what was there, and what the decisions so far add. Bindings are kept by agent and
// target, because an agent has one at most on each.

import type { JsonObject } from '../../domain/json.ts';
import type { BindingPolicy, EventContext } from '../../domain/spec.ts';
import type { BindEffect, ReleaseEffect, RoutingAgent, SessionRef, Snapshot, Target } from './types.ts';

export interface Holding {
  /** Null: an agent's claim without a live holder. */
  readonly holder: SessionRef | null;
  readonly lifecycle: 'manual' | 'held';
  readonly context: JsonObject | null;
  readonly eventContext: EventContext | null;
}
export interface State {
  readonly slots: Map<string, SessionRef>;
  readonly threads: Map<string, SessionRef>;
  readonly bindings: Map<string, Holding>;
}

export const bindingKey = (agentId: string, target: Target): string => `${agentId}\n${target.type}\n${target.key}`;
export const sameRef = (a: SessionRef | null, b: SessionRef): boolean => {
  if (a === null) return false;
  return 'session' in a ? 'session' in b && a.session === b.session : 'spawnedBy' in b && a.spawnedBy === b.spawnedBy;
};

/** The holders of a project as they stand before an event is routed, in maps that routing may change; the snapshot stays as it is. */
export function openState(snapshot: Snapshot): State {
  const refs = (claims: ReadonlyMap<string, string>): Map<string, SessionRef> =>
    claims.size === 0 ? new Map() : new Map([...claims].map(([agentId, session]) => [agentId, { session }]));
  const bindings = snapshot.bindings.map(({ agentId, target, sessionId, lifecycle, context, eventContext }) => {
    const holder = sessionId === null ? null : { session: sessionId };
    return [bindingKey(agentId, target), { holder, lifecycle, context, eventContext }] as const;
  });
  return { slots: refs(snapshot.slots), threads: refs(snapshot.threads), bindings: new Map(bindings) };
}

/** Most events meet an empty world. */
const copyOf = <V>(of: ReadonlyMap<string, V>): Map<string, V> => (of.size === 0 ? new Map() : new Map(of));

export const copyState = (state: State): State => ({
  slots: copyOf(state.slots),
  threads: copyOf(state.threads),
  bindings: copyOf(state.bindings),
});

export interface Inline {
  readonly context?: JsonObject | undefined;
  readonly eventContext?: EventContext | undefined;
}
/** What a claim without a live holder holds, which passes on with it. */
export type Claim = Pick<Holding, 'context' | 'eventContext'>;

/**
 * What a binding says, merged key by key: the agent's policy for the target, over it what the claim that it takes over was
 * made with, and over both what is said inline.
 */
export function bindingTerms(policy: BindingPolicy | undefined, inline: Inline, claim?: Claim): BindingTerms {
  return {
    lifecycle: policy?.lifecycle ?? 'manual',
    continuity: policy?.continuity ?? 'session',
    context: merge(merge(policy?.context, claim?.context), inline.context),
    eventContext: mergeEventContexts(
      mergeEventContexts(policy?.eventContext, claim?.eventContext),
      inline.eventContext,
    ),
  };
}
export type BindingTerms = Pick<BindEffect, 'lifecycle' | 'continuity' | 'context' | 'eventContext'>;

/** Binds a session to a target (`bindingTerms`). Notes it in the state. */
export function bind(
  state: State,
  agent: RoutingAgent,
  target: Target,
  holder: SessionRef,
  inline: Inline,
): BindEffect {
  const standing = state.bindings.get(bindingKey(agent.id, target));
  const claim = standing?.holder === null ? standing : undefined;
  const terms = bindingTerms(agent.bindings[target.type], inline, claim);
  const { lifecycle, context, eventContext } = terms;
  state.bindings.set(bindingKey(agent.id, target), { holder, lifecycle, context, eventContext });
  return { kind: 'bind', agentId: agent.id, target, holder, ...terms, takesOver: standing !== undefined };
}

/** Releases an agent's binding; the transition's own context is merged over the declared one (docs/reference/routing.md#bindings). */
export function release(
  state: State,
  agentId: string,
  target: Target,
  declared: EventContext | null | undefined,
  context: JsonObject | null | undefined,
): ReleaseEffect {
  state.bindings.delete(bindingKey(agentId, target));
  return { kind: 'release', agentId, target, eventContext: merge(declared?.unbound, context) };
}

function merge(base: JsonObject | null | undefined, over: JsonObject | null | undefined): JsonObject | null {
  // Keys come from authors: a spread makes own properties of all of them, `__proto__` too.
  return base || over ? { ...base, ...over } : null;
}

type Some = EventContext | null | undefined;
function mergeEventContexts(base: Some, over: Some): EventContext | null {
  const merged: Record<string, JsonObject> = {};
  for (const phase of ['bound', 'updated', 'unbound'] as const) {
    const context = merge(base?.[phase], over?.[phase]);
    if (context !== null) merged[phase] = context;
  }
  return Object.keys(merged).length === 0 ? null : merged;
}
