// One event after the other: match, decide, and move the world and the plan by what was decided. Everything here is
// memory but for what the world has not read yet. What a decision is, core/route knows; here it gets its rows.

import type { Binding } from '../../adapters/store/bindings.ts';
import type { PendingEvent, RoutingTx } from '../../adapters/store/routing.ts';
import type { RouteInsert } from '../../adapters/store/event-routes.ts';
import {
  type Attribution,
  type BindEffect,
  type Decision,
  route,
  type RoutingResult,
  type SessionRef,
  type SpawnClaims,
  summarize,
  type Target,
  triggerKey,
} from '../../core/route/route.ts';
import { deliveryMode } from '../../core/session/session.ts';
import { BINDING_EVENTS } from '../../words/events.ts';
import { objectAt, textAt } from '../../words/fields.ts';
import type { Json, JsonObject } from '../../words/json.ts';
import { BINDING_TARGETS } from '../../words/spec.ts';
import { attributed } from '../ingest/ingest.ts';
import type { Plan } from './plan.ts';
import { messageOf, refusedMount, startOf, type Told } from './say.ts';
import type { DispatchTrigger, ProjectTriggers } from './triggers.ts';
import { attributionsOn, hold, holdingText, settle, snapshotOf, targetText, tie, type World } from './world.ts';
import type { Standing } from '../../adapters/store/routing.ts';

/** An event of a batch: its payload where anybody could care, and the sessions that its text names. */
export interface BatchEvent extends PendingEvent {
  readonly payload: Json | undefined;
  readonly marked: readonly (Standing & { readonly relation: 'created' | 'posted' })[];
}

export interface Desk {
  readonly tx: RoutingTx;
  readonly triggers: ProjectTriggers;
  readonly world: World;
  readonly plan: Plan;
  /** Version 7, each later than the one before. */
  readonly nextId: () => string;
}

export const targetIn = ({ targetType, targetKey }: PendingEvent): Target | null =>
  targetType === null || targetKey === null ? null : { type: targetType, key: targetKey };

/** The target that a binding event speaks of. */
export function observedIn({
  key,
  payload,
}: {
  readonly key: string;
  readonly payload: Json | undefined;
}): Target | null {
  if (payload === undefined || !BINDING_EVENTS.includes(key)) return null;
  const told = objectAt(objectAt(objectAt(payload)['binding'])['target']);
  const type = BINDING_TARGETS.find((one) => one === told['type']);
  const name = textAt(told['key']);
  return type === undefined || name === undefined ? null : { type, key: name };
}

export interface Matched {
  readonly attributions: readonly Attribution[];
  readonly told: Told;
  readonly triggers: readonly DispatchTrigger[];
}

/** The triggers that fire for the event in the world as it stands; `before`: as it was matched earlier in the batch. */
export function matchIn(
  { triggers, world }: Pick<Desk, 'triggers' | 'world'>,
  event: BatchEvent,
  before?: Matched,
): Matched {
  const attributions = attributionsOn(world, targetIn(event));
  if (before !== undefined && attributions.length + before.attributions.length === 0) return before;
  const listed = attributions.map(({ sessionId, agent, relation }): JsonObject => ({ sessionId, agent, relation }));
  const payload = attributed(event.payload ?? null, listed) as Json;
  const { id, key, scope } = event;
  const found = event.payload === undefined ? [] : triggers.index.match({ key, scope, payload });
  return { attributions, told: { id, key, payload }, triggers: found };
}

/** What an event meets now: its own ties are made, and its triggers are those of the world as it stands. */
export function meet(desk: Desk, event: BatchEvent, before: Matched | undefined): Matched {
  tieMarked(desk, event, targetIn(event));
  return matchIn(desk, event, before);
}

/** Routes one event. What its triggers ask of the world is known. */
export function decideEvent(desk: Desk, event: BatchEvent, matched: Matched): void {
  const { plan } = desk;
  const { result, refused } = decide(desk, event, matched);
  const hands = new Hands(desk, event, matched);
  for (const effect of result.autoBinds) hands.bind(effect);
  const decisions: readonly Recorded[] =
    refused.length === 0 ? result.decisions : inOrder([...result.decisions, ...refused]);
  for (const decision of decisions) hands.carryOut(decision);
  const { routerStatus: status, severity } = summarize(decisions);
  const attributions =
    matched.attributions.length === 0 ? null : matched.attributions.map((one): JsonObject => ({ ...one }));
  plan.settled.push({ eventId: event.id, status, severity, attributions });
}

function tieMarked({ world, plan }: Desk, event: BatchEvent, target: Target | null): void {
  if (target === null) return;
  for (const { sessionId, agentId, agent, relation } of event.marked) {
    if (!tie(world, target, { sessionId, agentId, agent, relation })) continue;
    plan.ties.push({ targetType: target.type, targetKey: target.key, sessionId, agent, relation });
  }
}

/** A decision as it is recorded: the core's words, and ours where a spawn was refused. */
type Recorded = Omit<Decision, 'because'> & { readonly because: string | null };

/**
 * Decides, and again without those whose session could not start: nobody may be delivered to a session that is not
 * made. What is refused is recorded as an error.
 */
function decide(desk: Desk, event: BatchEvent, matched: Matched): { result: RoutingResult; refused: Recorded[] } {
  const { key, depth } = event;
  const { attributions, told } = matched;
  const target = targetIn(event);
  const observed = observedIn(event);
  const refused = new Map<string, Recorded>();
  for (;;) {
    const open =
      refused.size === 0 ? matched.triggers : matched.triggers.filter((one) => !refused.has(triggerKey(one)));
    const scene = { target, observed, attributions, matched: open, agent: desk.triggers.agent };
    const result = route({ key, target, attributions, observed, depth }, open, snapshotOf(desk.world, scene));
    const before = refused.size;
    for (const decision of result.decisions) {
      const trigger = decision.spawn === null ? undefined : triggerOf(open, decision);
      const because = trigger === undefined ? null : refusedMount(trigger, told);
      if (because !== null) refused.set(decision.trigger, refusal(decision, because));
    }
    if (refused.size === before) return { result, refused: [...refused.values()] };
  }
}

const triggerOf = (triggers: readonly DispatchTrigger[], { agentId, ordinal }: Recorded): DispatchTrigger | undefined =>
  triggers.find((one) => one.ordinal === ordinal && one.agentId === agentId);

const refusal = (decision: Decision, because: string): Recorded => ({
  ...decision,
  decision: 'unmatched-error',
  severity: 'error',
  spawn: null,
  deliverTo: [],
  effects: [],
  because,
});

const inOrder = (decisions: readonly Recorded[]): Recorded[] =>
  [...decisions].sort((a, b) => (a.agent === b.agent ? a.ordinal - b.ordinal : a.agent < b.agent ? -1 : 1));

/** Carries the decisions on one event out, in memory. */
class Hands {
  readonly #desk: Desk;
  readonly #event: BatchEvent;
  readonly #told: Told;
  readonly #triggers: readonly DispatchTrigger[];
  /** Session id by the trigger whose decision made it. */
  readonly #made = new Map<string, string>();

  constructor(desk: Desk, event: BatchEvent, matched: Matched) {
    this.#desk = desk;
    this.#event = event;
    this.#told = matched.told;
    this.#triggers = matched.triggers;
  }

  carryOut(decision: Recorded): void {
    const trigger = triggerOf(this.#triggers, decision);
    if (trigger === undefined) throw new Error('a decision of a trigger that did not match');
    const { spawn } = decision;
    if (spawn !== null) this.#spawn(trigger, decision, spawn);
    const sessionIds = decision.deliverTo.map((ref) => this.#idOf(ref));
    const own = this.#made.get(decision.trigger);
    const told = sessionIds.filter((id) => id !== own);
    if (told.length > 0) this.#tell(trigger, told, decision.decision === 'converted');
    for (const effect of decision.effects) {
      if (effect.kind === 'bind') this.bind(effect);
      else this.#release(effect.agentId, effect.target, effect.eventContext);
    }
    if (spawn === null) this.#desk.plan.routes.push(routeRow(this.#event.id, decision, sessionIds));
    const [first] = sessionIds;
    if (first !== undefined && trigger.checks.length > 0) this.#check(trigger, first);
  }

  /** What the decision makes, which holds the decision itself: a session that is made is the one that gets the event. */
  #spawn(
    trigger: DispatchTrigger,
    { trigger: decisionKey, decision, because, severity }: Recorded,
    claims: SpawnClaims,
  ): void {
    const { triggers, plan, world, nextId } = this.#desk;
    const id = nextId();
    const { owner, ordinal } = trigger;
    const start = startOf(triggers, trigger, this.#told);
    const { id: eventId, key } = this.#event;
    plan.spawned.push({
      id,
      agentId: owner.id,
      agent: owner.name,
      revision: owner.revision,
      eventId,
      eventKey: key,
      ordinal,
      decision,
      because,
      severity,
      displayTitle: start.title,
      hiddenContext: start.hiddenContext,
      mountRefs: start.mountRefs,
      slot: claims.slot,
      thread: claims.thread?.key ?? null,
      text: start.text,
      mode: deliveryMode(key),
    });
    this.#made.set(decisionKey, id);
    settle(world, { sessionId: id, agentId: owner.id, agent: owner.name }, claims);
  }

  #tell(trigger: DispatchTrigger, sessionIds: readonly string[], isConverted: boolean): void {
    const text = messageOf(this.#desk.triggers, trigger, this.#told, isConverted);
    for (const id of sessionIds) this.#say(trigger, id, text);
  }

  #say({ agentId, ordinal }: DispatchTrigger, sessionId: string, text: string): void {
    const { id: eventId, key } = this.#event;
    const mode = deliveryMode(key);
    this.#desk.plan.messages.push({
      sessionId,
      text,
      sender: 'event',
      mode,
      detail: { event: key },
      eventId,
      agentId,
      ordinal,
    });
  }

  #idOf(ref: SessionRef): string {
    const id = 'session' in ref ? ref.session : this.#made.get(ref.spawnedBy);
    if (id === undefined) throw new Error('a decision names a session that was not made');
    return id;
  }

  bind(effect: BindEffect): void {
    const { world, triggers, nextId } = this.#desk;
    const { agentId, target, lifecycle, continuity, context, eventContext } = effect;
    const sessionId = this.#idOf(effect.holder);
    const standing = world.bindings.get(holdingText(agentId, target));
    const held = { sessionId, lifecycle, continuity, context, eventContext };
    const binding: Binding =
      standing === undefined
        ? { id: nextId(), agentId, agent: triggers.agent(agentId)?.name ?? '', target, state: 'active', ...held }
        : { ...standing, ...held };
    this.#put(binding, standing === undefined);
    const kind = standing === undefined ? 'bound' : 'updated';
    this.#transition(kind, binding, eventContext?.[kind] ?? null);
    hold(world, binding);
  }

  #release(agentId: string, target: Target, eventContext: JsonObject | null): void {
    const { world } = this.#desk;
    const standing = world.bindings.get(holdingText(agentId, target));
    if (standing === undefined) throw new Error(`nothing is bound to ${targetText(target)} that could be released`);
    const binding: Binding = { ...standing, state: 'released' };
    this.#put(binding, false);
    this.#transition('unbound', binding, eventContext);
    hold(world, binding);
  }

  /** Keeps what a binding has become: made in this batch, or there before. */
  #put(binding: Binding, isNew: boolean): void {
    const { madeBindings, movedBindings } = this.#desk.plan;
    if (isNew || madeBindings.has(binding.id)) madeBindings.set(binding.id, binding);
    else movedBindings.set(binding.id, binding);
  }

  #transition(kind: 'bound' | 'updated' | 'unbound', binding: Binding, eventContext: JsonObject | null): void {
    this.#desk.plan.transitions.push({ kind, binding, eventContext, depth: this.#event.depth + 1 });
  }

  #check({ owner, ordinal, checks }: DispatchTrigger, sessionId: string): void {
    const { connectionId, targetKey, id } = this.#event;
    const pull = objectAt(objectAt(objectAt(this.#told.payload)['codehost'])['pullRequest']);
    const headSha = textAt(objectAt(pull['head'])['sha']);
    if (targetKey === null || headSha === undefined || !isCommitId(headSha)) return;
    const { plan, tx } = this.#desk;
    const agent = { projectId: tx.projectId, agentId: owner.id, agent: owner.name, ordinal };
    plan.checks.push({ ...agent, eventId: id, connectionId, targetKey, headSha, sessionId, checks });
  }
}

/** What no code host calls a commit has no check, and must not keep its event from being routed. */
const isCommitId = (text: string): boolean => /^[\w-]{1,64}$/.test(text);

const routeRow = (eventId: string, decision: Recorded, sessionIds: readonly string[]): RouteInsert => ({
  eventId,
  agentId: decision.agentId,
  ordinal: decision.ordinal,
  agent: decision.agent,
  decision: decision.decision,
  sessionIds,
  because: decision.because,
  severity: decision.severity,
});
