// What routing decides upon: bindings, claims, slots and live sessions, read set-wise under the routing lock, and moved
// in memory by each decision, so that the next event of the batch meets what the one before it did. What is not read yet
// is read when it is asked for; the lock keeps it true.

import type { Sql } from '../../adapters/store/store.ts';
import { agentsWithWaiting, type Binding } from '../../adapters/store/routing/bindings.ts';
import { bindingsOn, liveSessionsOf, type LiveSession, liveSessionsOn } from '../../adapters/store/routing/routing.ts';
import { slotsOf } from '../../adapters/store/sessions/slots.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import type { Attribution, RoutableTrigger, RoutingAgent, Snapshot, Target } from '../../core/route/route.ts';
import { compareText } from '../../domain/text.ts';

/** A trigger as the state is asked about it. */
export type AskingTrigger = RoutableTrigger & { readonly owner: RoutingAgent };

interface AttributedSession extends LiveSession {
  readonly relation: string;
}

export interface RoutingState {
  /** Active bindings by agent and target. */
  readonly bindings: Map<string, Binding>;
  /** Agents that have claims which wait for a holder: of these, those on targets of no event of the batch are not read. */
  readonly waiting: Set<string>;
  /** By target: the agents that have one there. */
  readonly bound: Map<string, Set<string>>;
  /** By target: live sessions that claim or are tied to it. */
  readonly attributed: Map<string, AttributedSession[]>;
  /** Agent → its slot's session; null: known to be free. */
  readonly slots: Map<string, string | null>;
  /** Agent → the session that failed in its free slot, and has left its messages and threads to the next one. */
  readonly failed: Map<string, { readonly id: string; readonly threads: readonly string[] }>;
  /** Agent → all its live sessions, oldest first. */
  readonly live: Map<string, LiveSession[]>;
  /** Sessions that this batch makes: not in the database before its end, and to be met by whoever asks late. */
  readonly made: LiveSession[];
}

export const targetText = (target: Target): string => `${target.type}\n${target.key}`;
export const holdingText = (agentId: string, target: Target): string => `${agentId}\n${targetText(target)}`;

/** A state in which nothing stands on any target. What is known of agents is shared with another project's state. */
export const stateBeside = (other?: RoutingState): RoutingState => ({
  bindings: other?.bindings ?? new Map(),
  waiting: other?.waiting ?? new Set(),
  bound: new Map(),
  attributed: new Map(),
  slots: other?.slots ?? new Map(),
  failed: other?.failed ?? new Map(),
  live: other?.live ?? new Map(),
  made: other?.made ?? [],
});

/** Reads what stands on the targets, of whichever agent. */
export async function openRoutingState(tx: RoutingTx, targets: readonly Target[]): Promise<RoutingState> {
  const distinct = [...new Map(targets.map((target) => [targetText(target), target])).values()];
  const state = stateBeside();
  for (const binding of await bindingsOn(tx, distinct)) hold(state, binding);
  for (const { targetType: type, targetKey: key, ...tied } of await liveSessionsOn(tx, distinct)) {
    addAttribution(state, { type, key }, tied);
  }
  return state;
}

/** Puts an active binding where it stands, or takes away one that is released. */
export function hold(state: RoutingState, binding: Binding): void {
  const place = targetText(binding.target);
  const agents = state.bound.get(place) ?? new Set();
  state.bound.set(place, agents);
  const key = holdingText(binding.agentId, binding.target);
  if (binding.state === 'active') {
    agents.add(binding.agentId);
    state.bindings.set(key, binding);
  } else {
    agents.delete(binding.agentId);
    state.bindings.delete(key);
  }
}

/** Ties a live session to a target; true where it was not. */
export function addAttribution(state: RoutingState, target: Target, tied: AttributedSession): boolean {
  const place = targetText(target);
  const known = state.attributed.get(place) ?? [];
  if (known.some((one) => one.sessionId === tied.sessionId && one.relation === tied.relation)) return false;
  known.push(tied);
  state.attributed.set(place, known);
  return true;
}

/** Claims of an agent that wait for a holder, on targets of the batch. */
export const waitingOf = (state: RoutingState, agentId: string): Binding[] =>
  [...state.bindings.values()].filter((one) => one.agentId === agentId && one.sessionId === null);

/** Puts a new session where its claims say that it stands. */
export function settle(state: RoutingState, made: LiveSession, claims: { slot: boolean; thread: Target | null }): void {
  if (claims.slot) {
    for (const key of state.failed.get(made.agentId)?.threads ?? [])
      addAttribution(state, { type: 'chat.thread', key }, { ...made, relation: 'thread' });
    state.slots.set(made.agentId, made.sessionId);
    state.failed.delete(made.agentId);
  }
  if (claims.thread !== null) addAttribution(state, claims.thread, { ...made, relation: 'thread' });
  state.live.get(made.agentId)?.push(made);
  state.made.push(made);
}

/**
 * Live sessions tied to a target, by id and relation (docs/reference/routing.md#attributions). Relations: `bound` holds an
 * active binding, `thread` was spawned for the chat thread, `created` made the thing itself, `posted` said something about
 * it, `authored` and `subscribed` as tools record them. An ended session is tied to nothing.
 */
export function attributionsOn(state: RoutingState, target: Target | null): Attribution[] {
  if (target === null) return [];
  const place = targetText(target);
  const found: Attribution[] = [];
  for (const agentId of state.bound.get(place) ?? []) {
    const binding = state.bindings.get(holdingText(agentId, target));
    if (binding === undefined || binding.sessionId === null) continue;
    found.push({ sessionId: binding.sessionId, agent: binding.agent, relation: 'bound' });
  }
  for (const { sessionId, agent, relation } of state.attributed.get(place) ?? [])
    found.push({ sessionId, agent, relation });
  return found.length > 1 ? found.sort(bySessionAndRelation) : found;
}

const bySessionAndRelation = (a: Attribution, b: Attribution): number =>
  compareText(a.sessionId, b.sessionId) || compareText(a.relation, b.relation);

const asksForSlot = ({ owner, routing }: AskingTrigger): boolean =>
  owner.concurrency === 1 ||
  (routing.kind === 'deliver' && routing.routeBy === undefined) ||
  (routing.kind === 'bind' && routing.target === 'agent.singleton');
const asksForAll = ({ routing }: AskingTrigger): boolean =>
  routing.kind === 'deliver' && routing.routeBy?.kind === 'allLiveSessions';

/** Reads what the triggers' decisions ask for and is not known yet: slots, and all live sessions of their agents. */
export async function load(state: RoutingState, tx: Sql, triggers: Iterable<AskingTrigger>): Promise<void> {
  const slots = new Map<string, boolean>();
  const live = new Set<string>();
  for (const trigger of triggers) {
    if (asksForSlot(trigger) && !state.slots.has(trigger.agentId)) {
      slots.set(trigger.agentId, trigger.owner.concurrency === 1);
    }
    if (asksForAll(trigger) && !state.live.has(trigger.agentId)) live.add(trigger.agentId);
  }
  if (slots.size > 0) {
    const held = await slotsOf(
      tx,
      [...slots].map(([agentId, isCapped]) => ({ agentId, isCapped })),
    );
    for (const [agentId, { sessionId, failedId, threads }] of held) {
      state.slots.set(agentId, sessionId);
      if (failedId !== null) state.failed.set(agentId, { id: failedId, threads });
    }
    const left = [...held].filter(([, { failedId }]) => failedId !== null).map(([agentId]) => agentId);
    for (const agentId of await agentsWithWaiting(tx, left)) state.waiting.add(agentId);
  }
  if (live.size > 0) {
    for (const agentId of live) state.live.set(agentId, []);
    const stored = await liveSessionsOf(tx, [...live]);
    const made = state.made.filter((one) => live.has(one.agentId));
    for (const one of [...stored, ...made]) state.live.get(one.agentId)?.push(one);
  }
}

/** Whether `learn` would read anything: then the event has to wait for it. */
export const isLoaded = (state: RoutingState, triggers: readonly AskingTrigger[]): boolean =>
  triggers.every(
    (trigger) =>
      (!asksForSlot(trigger) || state.slots.has(trigger.agentId)) &&
      (!asksForAll(trigger) || state.live.has(trigger.agentId)),
  );

export interface SnapshotInput {
  readonly target: Target | null;
  readonly observed: Target | null;
  readonly attributions: readonly Attribution[];
  readonly matched: readonly AskingTrigger[];
  readonly agent: (id: string) => RoutingAgent | undefined;
}

/** The lock and the event's status keep it from being routed twice. */
const noneRouted: ReadonlySet<string> = new Set();

/** What `route` decides one event from. */
export function snapshotOf(state: RoutingState, input: SnapshotInput): Snapshot {
  const { target, observed, attributions, matched } = input;
  const tied = attributedOn(state, target, attributions);
  const agents = new Map<string, RoutingAgent>();
  for (const trigger of matched) agents.set(trigger.agentId, trigger.owner);
  for (const { agentId } of tied) {
    const agent = agents.get(agentId) ?? input.agent(agentId);
    if (agent !== undefined) agents.set(agentId, agent);
  }
  const sessions = new Map<string, LiveSession>();
  for (const one of tied) sessions.set(one.sessionId, one);
  for (const trigger of matched) {
    if (asksForAll(trigger)) for (const one of state.live.get(trigger.agentId) ?? []) sessions.set(one.sessionId, one);
  }
  const slots = new Map<string, string>();
  const bindings: Snapshot['bindings'][number][] = [];
  for (const agentId of agents.keys()) {
    const slot = state.slots.get(agentId);
    if (slot !== undefined && slot !== null) slots.set(agentId, slot);
    for (const place of [target, observed]) {
      const binding = place === null ? undefined : state.bindings.get(holdingText(agentId, place));
      if (binding !== undefined) bindings.push(binding);
    }
  }
  const threads = new Map<string, string>();
  for (const one of tied) if (one.relation === 'thread') threads.set(one.agentId, one.sessionId);
  const standing = [...sessions.values()].map(({ sessionId, agentId }) => ({ id: sessionId, agentId }));
  if (standing.length > 1) standing.sort((a, b) => compareText(a.id, b.id));
  return { agents, sessions: standing, slots, threads, bindings, routed: noneRouted };
}

/** The attributed sessions with their agents' ids. */
function attributedOn(
  state: RoutingState,
  target: Target | null,
  attributions: readonly Attribution[],
): AttributedSession[] {
  if (target === null || attributions.length === 0) return [];
  const place = targetText(target);
  const bound = [...(state.bound.get(place) ?? [])].flatMap((agentId): AttributedSession[] => {
    const binding = state.bindings.get(holdingText(agentId, target));
    if (binding === undefined || binding.sessionId === null) return [];
    return [{ sessionId: binding.sessionId, agentId, agent: binding.agent, relation: 'bound' }];
  });
  return [...bound, ...(state.attributed.get(place) ?? [])];
}
