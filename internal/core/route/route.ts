// What an event does to sessions (docs/reference/routing.md): matched triggers and a snapshot of sessions, slots, thread
// claims and bindings become decisions, each to be written in one transaction. Deliveries and bind routes look at the world
// as the event met it; spawns also at what the event's own earlier decisions claimed, so that of two spawns for one thread,
// slot or target the second is a delivery. It reads no table, renders no message and writes nothing. That a decision happens
// once is a unique row of its writer: a claim that conflicts there means loading and deciding again.

import type { BindRouting, DeliverRouting, OnUnmatched } from '../../domain/spec.ts';
import {
  bind,
  bindingKey,
  copyState,
  type Holding,
  type Inline,
  openState,
  release,
  sameRef,
  type State,
} from './state.ts';
import type {
  BindEffect,
  BindingEffect,
  Decision,
  DecisionWord,
  RoutableEvent,
  RoutableTrigger,
  RoutingAgent,
  RoutingResult,
  SessionRef,
  Snapshot,
  SpawnClaims,
  Target,
} from './types.ts';

export type * from './types.ts';
export { bindingTerms } from './state.ts';

/** Binding events may lead to binding events; a chain longer than this is a loop and is ended with an error. */
export const bindingEventDepthMax = 16;
/** Sessions beget sessions through binding events for so many generations: each may have several, so chains branch. */
const bindingSpawnDepthMax = 4;

export const triggerKey = (trigger: { readonly agentId: string; readonly ordinal: number }): string =>
  `${trigger.agentId}#${trigger.ordinal}`;

interface Scene {
  readonly event: RoutableEvent;
  readonly snapshot: Snapshot;
  /** As the event met it, with the bindings that it made by itself. */
  readonly met: State;
  /** With everything decided so far. */
  readonly now: State;
}
interface Turn {
  readonly trigger: RoutableTrigger;
  readonly agent: RoutingAgent;
}

/**
 * Decides what an event does. `matched` are the triggers that fire, in the order in which they are routed; those of an
 * agent that the snapshot does not know (it was deleted meanwhile) are left out, as are those routed before.
 */
export function route(event: RoutableEvent, matched: readonly RoutableTrigger[], snapshot: Snapshot): RoutingResult {
  const isLoop = event.depth > bindingEventDepthMax;
  const met = openState(snapshot);
  const autoBinds = isLoop ? [] : bindAttributed(event, snapshot, met);
  const scene: Scene = { event, snapshot, met, now: copyState(met) };
  const decisions: Decision[] = [];
  for (const trigger of matched) {
    const agent = snapshot.agents.get(trigger.agentId);
    if (agent === undefined || snapshot.routed.has(triggerKey(trigger))) continue;
    const turn = { trigger, agent };
    decisions.push(isLoop ? endLoop(turn) : decide(scene, turn));
  }
  return { autoBinds, decisions };
}

/**
 * `onAttributedEvent`: an event with a pull request that a live session of the agent is tied to binds it to that session,
 * unless a live one holds it already. Of several tied sessions the oldest is bound.
 */
function bindAttributed(event: RoutableEvent, snapshot: Snapshot, state: State): BindEffect[] {
  const { target } = event;
  if (target?.type !== 'codehost.pull_request') return [];
  const tied = new Set(event.attributions.map(({ sessionId }) => sessionId));
  const made: BindEffect[] = [];
  for (const { id, agentId } of snapshot.sessions) {
    const agent = snapshot.agents.get(agentId);
    if (!tied.has(id) || agent?.bindings[target.type]?.bind !== 'onAttributedEvent') continue;
    if (liveHolder(state, agent, target) !== null) continue;
    made.push(bind(state, agent, target, { session: id }, {}));
  }
  return made;
}

function decide(scene: Scene, turn: Turn): Decision {
  const { routing } = turn.trigger;
  const { target } = scene.event;
  let decision: Decision;
  if (routing.kind === 'spawn') {
    const isTarget = target !== null && routing.bind?.target === target.type;
    decision = spawn(scene, turn, {
      word: 'spawn',
      slot: false,
      bindTo: isTarget ? target : null,
      inline: routing.bind ?? {},
    });
  } else if (routing.kind === 'deliver') {
    decision = deliver(scene, turn, routing);
  } else {
    decision = routeBound(scene, turn, routing);
  }
  return withMention(scene, turn, decision);
}

interface Outcome {
  readonly decision: DecisionWord;
  readonly severity?: Decision['severity'];
  readonly spawn?: SpawnClaims;
  readonly deliverTo?: readonly SessionRef[];
  readonly effects?: readonly BindingEffect[];
  readonly because?: Decision['because'];
}

const outcome = ({ trigger, agent }: Turn, of: Outcome): Decision => ({
  trigger: triggerKey(trigger),
  agentId: agent.id,
  agent: agent.name,
  ordinal: trigger.ordinal,
  decision: of.decision,
  severity: of.severity ?? null,
  spawn: of.spawn ?? null,
  deliverTo: of.deliverTo ?? [],
  effects: of.effects ?? [],
  because: of.because ?? null,
});

const endLoop = (turn: Turn): Decision =>
  outcome(turn, { decision: 'unmatched-error', severity: 'error', because: 'loop' });

interface SpawnWish {
  readonly word: 'spawn' | 'unmatched-spawn';
  /** Whether the new session becomes the slot's member also where the agent is not capped. */
  readonly slot: boolean;
  readonly bindTo: Target | null;
  readonly inline: Inline;
}

/** Rule 1: a new session, or a delivery to the live one that claimed its target, thread or slot before. */
function spawn(scene: Scene, turn: Turn, wish: SpawnWish): Decision {
  const { event, now } = scene;
  const { agent } = turn;
  const slot = wish.slot || agent.concurrency === 1;
  const thread = event.target?.type === 'chat.thread' ? event.target : null;
  const held = wish.bindTo === null ? null : liveHolder(now, agent, wish.bindTo);
  const threadHolder = thread === null ? undefined : now.threads.get(agent.id);
  const slotHolder = slot ? now.slots.get(agent.id) : undefined;
  const winner = held ?? threadHolder ?? slotHolder;
  const effects: BindingEffect[] = [];
  const bindTo = (holder: SessionRef): void => {
    if (wish.bindTo !== null && held === null) effects.push(bind(now, agent, wish.bindTo, holder, wish.inline));
  };
  if (winner !== undefined) {
    // The winner takes over what the spawn was to hold, or the target's next events would find nobody.
    bindTo(winner);
    const because = held !== null ? 'target' : winner === threadHolder ? 'thread' : 'slot';
    return outcome(turn, { decision: 'converted', deliverTo: [winner], effects, because });
  }
  if (event.depth > bindingSpawnDepthMax) return endLoop(turn);
  const made: SessionRef = { spawnedBy: triggerKey(turn.trigger) };
  if (slot) now.slots.set(agent.id, made);
  if (thread !== null) now.threads.set(agent.id, made);
  bindTo(made);
  return outcome(turn, { decision: wish.word, spawn: { slot, thread }, deliverTo: [made], effects });
}

function deliver(scene: Scene, turn: Turn, routing: DeliverRouting): Decision {
  const bySlot = routing.routeBy === undefined;
  const found = bySlot ? slotMember(scene, turn) : recipients(scene, turn, routing.routeBy.kind);
  if (found.length > 0) return outcome(turn, { decision: 'deliver', deliverTo: found });
  return unmatched(scene, turn, routing.onUnmatched, { slot: bySlot, bindTo: null });
}

function slotMember({ met }: Scene, { agent }: Turn): SessionRef[] {
  const member = met.slots.get(agent.id);
  return member === undefined ? [] : [member];
}

/** The agent's own live sessions: all of them, or those tied to the event's target, oldest first. */
function recipients(scene: Scene, { agent }: Turn, kind: 'attributedSessions' | 'allLiveSessions'): SessionRef[] {
  const { event, snapshot, met } = scene;
  const own = snapshot.sessions.filter(({ agentId }) => agentId === agent.id).map(({ id }) => ({ session: id }));
  if (kind === 'allLiveSessions') return own;
  const { target } = event;
  if (target === null) return [];
  const holder = liveHolder(met, agent, target);
  const claimed = target.type === 'chat.thread' ? (met.threads.get(agent.id) ?? null) : null;
  return own.filter(
    (ref) =>
      sameRef(holder, ref) ||
      sameRef(claimed, ref) ||
      event.attributions.some(({ sessionId }) => sessionId === ref.session),
  );
}

/** Rule 2. A spawn under `bind` or by slot claims what its route looked for. */
function unmatched(scene: Scene, turn: Turn, policy: OnUnmatched, claim: Pick<SpawnWish, 'slot' | 'bindTo'>): Decision {
  if (policy === 'drop') return outcome(turn, { decision: 'unmatched-drop' });
  if (policy === 'warn') return outcome(turn, { decision: 'unmatched-warn', severity: 'warning' });
  if (policy === 'error') return outcome(turn, { decision: 'unmatched-error', severity: 'error' });
  return spawn(scene, turn, { word: 'unmatched-spawn', inline: {}, ...claim });
}

function routeBound(scene: Scene, turn: Turn, routing: BindRouting): Decision {
  const { event, met, now } = scene;
  const { agent } = turn;
  if (routing.target === 'agent.singleton') {
    const member = slotMember(scene, turn);
    if (member.length > 0) return outcome(turn, { decision: 'deliver', deliverTo: member });
    return unmatched(scene, turn, routing.onUnmatched, { slot: true, bindTo: null });
  }
  const target = event.target?.type === routing.target ? event.target : null;
  const holder = target === null ? null : liveHolder(met, agent, target);
  const reached =
    holder === null
      ? unmatched(scene, turn, routing.onUnmatched, { slot: false, bindTo: target })
      : outcome(turn, { decision: 'deliver', deliverTo: [holder] });
  const observed = observe(scene, turn, routing, reached);
  const released: BindingEffect[] = [];
  if (target !== null && routing.release !== false) {
    const holding = now.bindings.get(bindingKey(agent.id, target));
    if (holding !== undefined) {
      released.push(release(now, agent.id, target, holding.eventContext, routing.release.context));
    }
  }
  const isSpawn = reached.decision === 'unmatched-spawn' || reached.decision === 'converted';
  return {
    ...reached,
    decision: released.length > 0 && !isSpawn ? 'released' : reached.decision,
    effects: [...reached.effects, ...observed, ...released],
  };
}

/**
 * What an observer does about the target that a binding event speaks of, once the event has reached it: binds itself,
 * unless another session of its agent does already, or gives up its own claim and nobody else's.
 */
function observe(scene: Scene, turn: Turn, { observedTarget }: BindRouting, reached: Decision): BindingEffect[] {
  const { observed } = scene.event;
  const observer = reached.deliverTo[0];
  if (observedTarget === undefined || observed === null || observer === undefined) return [];
  const { now } = scene;
  const { agent } = turn;
  const holding = now.bindings.get(bindingKey(agent.id, observed));
  if (observedTarget.action === 'unbind') {
    if (!sameRef(holding?.holder ?? null, observer)) return [];
    const declared = observedTarget.eventContext?.unbound;
    return [release(now, agent.id, observed, holding?.eventContext, declared)];
  }
  if (holding !== undefined && holding.holder !== null) return [];
  return [bind(now, agent, observed, observer, observedTarget)];
}

/**
 * `onMention`: the session that a mention was delivered to owns the thread from then on. Of several the present owner
 * stays, else the oldest becomes it; a `held` binding of a live session is not taken away.
 */
function withMention(scene: Scene, { agent }: Turn, reached: Decision): Decision {
  const { event, now } = scene;
  const { target } = event;
  const first = reached.deliverTo[0];
  if (event.key !== 'chat.message.mentioned' || target?.type !== 'chat.thread' || first === undefined) return reached;
  if (agent.bindings[target.type]?.bind !== 'onMention') return reached;
  if (reached.effects.some((effect) => bindingKey(effect.agentId, effect.target) === bindingKey(agent.id, target))) {
    return reached;
  }
  const holding: Holding | undefined = now.bindings.get(bindingKey(agent.id, target));
  const holder = holding?.holder ?? null;
  if (reached.deliverTo.some((ref) => sameRef(holder, ref))) return reached;
  if (holder !== null && holding?.lifecycle === 'held') return reached;
  return { ...reached, effects: [...reached.effects, bind(now, agent, target, first, {})] };
}

const liveHolder = (state: State, agent: RoutingAgent, target: Target): SessionRef | null =>
  state.bindings.get(bindingKey(agent.id, target))?.holder ?? null;

/**
 * What stands on the event's record (docs/reference/routing.md#matching): `routed` where any decision reached a session or released a
 * binding, else `unmatched`; the gravest severity of all decisions, also beside one that reached a session.
 */
export function summarize(decisions: readonly Pick<Decision, 'decision' | 'deliverTo' | 'severity'>[]): {
  readonly routerStatus: 'routed' | 'unmatched';
  readonly severity: 'warning' | 'error' | null;
} {
  const hasRouted = decisions.some((one) => one.deliverTo.length > 0 || one.decision === 'released');
  const says = (severity: Decision['severity']): boolean => decisions.some((one) => one.severity === severity);
  const severity = says('error') ? 'error' : says('warning') ? 'warning' : null;
  return { routerStatus: hasRouted ? 'routed' : 'unmatched', severity };
}
