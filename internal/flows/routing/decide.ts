// One event after the other: match, decide, and move state and plan by what was decided. Everything here is
// memory but for what the state has not read yet. What a decision is, core/route knows; here it gets its rows.

import type { Binding } from '../../adapters/store/routing/bindings.ts';
import type { LiveSession, PendingEvent } from '../../adapters/store/routing/routing.ts';
import {
  type Attribution,
  type BindEffect,
  type Decision,
  route,
  type RoutableTrigger,
  type RoutingResult,
  type SessionRef,
  type SpawnClaims,
  summarize,
  type Target,
  triggerKey,
} from '../../core/route/route.ts';
import { deliveryMode } from '../../core/session/session.ts';
import { bindingEvents } from '../../domain/events.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { bindingTargets } from '../../domain/spec.ts';
import { attributed } from '../ingest/ingest.ts';
import type { Transition } from '../sessions/sessions.ts';
import { isFull, type Plan, routeRow } from './plan.ts';
import { messageOf, refusedMount, startOf, type RenderInput } from './messages.ts';
import type { ProjectTriggers, RoutedAgent, RoutedTrigger } from './triggers.ts';
import {
  attributionsOn,
  hold,
  holdingText,
  settle,
  snapshotOf,
  targetText,
  addAttribution,
  waitingOf,
  type RoutingState,
} from './routing-state.ts';

/** An event of a batch: its payload where a trigger may read it, and the sessions that markers in its text name. */
export interface BatchEvent extends PendingEvent {
  readonly payload: Json | undefined;
  readonly marked: readonly (LiveSession & { readonly relation: 'created' | 'posted' })[];
}

export interface RoutingContext {
  readonly projectId: string;
  readonly triggers: ProjectTriggers;
  readonly state: RoutingState;
  readonly plan: Plan;
  /** Bytes of UTF-8 of one message (docs/reference/routing.md#messages). */
  readonly messageMaxBytes: number;
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
  if (payload === undefined || !bindingEvents.includes(key)) return null;
  const told = objectAt(objectAt(objectAt(payload)['binding'])['target']);
  const type = bindingTargets.find((one) => one === told['type']);
  const name = textAt(told['key']);
  return type === undefined || name === undefined ? null : { type, key: name };
}

export interface Matched {
  readonly attributions: readonly Attribution[];
  readonly input: RenderInput;
  readonly triggers: readonly RoutedTrigger[];
}

/** The triggers that fire for the event in the state as it stands; `before`: as it was matched earlier in the batch. */
export function matchIn(
  { triggers, state }: Pick<RoutingContext, 'triggers' | 'state'>,
  event: BatchEvent,
  before?: Matched,
): Matched {
  const attributions = attributionsOn(state, targetIn(event));
  if (before !== undefined && attributions.length + before.attributions.length === 0) return before;
  const listed = attributions.map(({ sessionId, agent, relation }): JsonObject => ({ sessionId, agent, relation }));
  const payload = attributed(event.payload ?? null, listed) as Json;
  const { id, key, scope } = event;
  const found = event.payload === undefined ? [] : triggers.index.match({ key, scope, payload });
  return { attributions, input: { id, key, payload }, triggers: found };
}

/** Matches an event anew in the state that the events before it have left, with its own ties made. */
export function rematch(context: RoutingContext, event: BatchEvent, before: Matched | undefined): Matched {
  tieMarked(context, event, targetIn(event));
  return matchIn(context, event, before);
}

/** How long an event is decided before others get a turn of the event loop: hundreds of triggers may each look through it. */
const turnMs = 25;

/**
 * Decides one event and enters in the plan what follows from it; all that its triggers ask of the state has to be loaded.
 * Yields where the plan holds as many texts as it may, or others are due a turn of the event loop: the caller writes the
 * plan, or lets them run, and goes on.
 */
export function* decideEvent(context: RoutingContext, event: BatchEvent, matched: Matched): Generator<undefined> {
  const { plan } = context;
  const { result, refused } = decide(context, event, matched);
  const applier = new DecisionApplier(context, event, matched);
  for (const effect of result.autoBinds) applier.bind(effect);
  const decisions: readonly Recorded[] =
    refused.length === 0 ? result.decisions : inOrder([...result.decisions, ...refused]);
  let since = performance.now();
  for (const decision of decisions) {
    applier.apply(decision);
    if (!isFull(plan) && performance.now() - since < turnMs) continue;
    yield;
    since = performance.now();
  }
  applier.inherit();
  const { routerStatus: status, severity } = summarize(decisions);
  const attributions =
    matched.attributions.length === 0 ? null : matched.attributions.map((one): JsonObject => ({ ...one }));
  plan.settled.push({ eventId: event.id, status, severity, attributions });
}

function tieMarked({ state, plan }: RoutingContext, event: BatchEvent, target: Target | null): void {
  if (target === null) return;
  for (const { sessionId, agentId, agent, relation } of event.marked) {
    if (!addAttribution(state, target, { sessionId, agentId, agent, relation })) continue;
    plan.ties.push({ targetType: target.type, targetKey: target.key, sessionId, agent, relation });
  }
}

/** A decision as it is recorded: the core's words, and ours where a spawn was refused. */
type Recorded = Omit<Decision, 'because'> & { readonly because: string | null };

/** Decides one event on the state as it stands. */
function decide(
  context: RoutingContext,
  event: BatchEvent,
  matched: Matched,
): { result: RoutingResult; refused: Recorded[] } {
  const { key, depth } = event;
  const { attributions, input } = matched;
  const target = targetIn(event);
  const observed = observedIn(event);
  return decideStartable(matched.triggers, input, (open) => {
    const asked = { target, observed, attributions, matched: open, agent: context.triggers.agent };
    return route({ key, target, attributions, observed, depth }, open, snapshotOf(context.state, asked));
  });
}

/** A trigger that may start a session of its agent. */
type Starting = RoutableTrigger & { readonly owner: Pick<RoutedAgent, 'mounts'> };

/**
 * Decides, and again without those whose session could not start: nobody may be delivered to a session that is not
 * made. What is refused is recorded as an error.
 */
export function decideStartable<T extends Starting>(
  triggers: readonly T[],
  input: RenderInput,
  decideOn: (open: readonly T[]) => RoutingResult,
): { result: RoutingResult; refused: Recorded[] } {
  const refused = new Map<string, Recorded>();
  const mounts = new Map<Starting['owner'], string | null>();
  const refusedOnce = (owner: Starting['owner']): string | null => {
    const known = mounts.get(owner);
    const because = known === undefined ? refusedMount(owner, input) : known;
    mounts.set(owner, because);
    return because;
  };
  for (;;) {
    const open = refused.size === 0 ? triggers : triggers.filter((one) => !refused.has(triggerKey(one)));
    const result = decideOn(open);
    const before = refused.size;
    const triggerOf = finderOf(open);
    for (const decision of result.decisions) {
      const trigger = decision.spawn === null ? undefined : triggerOf(decision);
      const because = trigger === undefined ? null : refusedOnce(trigger.owner);
      if (because !== null) refused.set(decision.trigger, refusal(decision, because));
    }
    if (refused.size === before) return { result, refused: [...refused.values()] };
  }
}

type Finder<T> = (decision: Pick<Recorded, 'trigger' | 'agentId' | 'ordinal'>) => T | undefined;

/** The trigger that a decision is of; thousands may fire for one event. */
function finderOf<T extends RoutableTrigger>(triggers: readonly T[]): Finder<T> {
  if (triggers.length <= 8) {
    return ({ agentId, ordinal }) => triggers.find((one) => one.ordinal === ordinal && one.agentId === agentId);
  }
  const byKey = new Map(triggers.map((one) => [triggerKey(one), one]));
  return ({ trigger }) => byKey.get(trigger);
}

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

/**
 * Characters of all the texts that one event leads to: a hundred triggers that each repeat it cannot make more of it than
 * the database takes in a moment. Texts beyond have at most `textLeast` bytes, and say that they are cut.
 */
const eventTextMax = 64 * 1_048_576;
const textLeast = 16_384;

/** Carries the decisions on one event out, in memory. */
class DecisionApplier {
  readonly #context: RoutingContext;
  readonly #event: BatchEvent;
  readonly #input: RenderInput;
  readonly #triggerOf: Finder<RoutedTrigger>;
  /** Bytes of text that this event may still lead to. */
  #textLeft = eventTextMax;
  /** Session id by the trigger whose decision made it. */
  readonly #made = new Map<string, string>();
  /** Agent → the session that takes the slot in which one failed. */
  readonly #heirs = new Map<string, string>();

  constructor(context: RoutingContext, event: BatchEvent, matched: Matched) {
    this.#context = context;
    this.#event = event;
    this.#input = matched.input;
    this.#triggerOf = finderOf(matched.triggers);
  }

  apply(decision: Recorded): void {
    const trigger = this.#triggerOf(decision);
    if (trigger === undefined) throw new Error('a decision of a trigger that did not match');
    const { spawn } = decision;
    if (spawn !== null) this.#spawn(trigger, decision, spawn);
    const sessionIds = decision.deliverTo.map((ref) => this.#idOf(ref));
    const own = this.#made.get(decision.trigger);
    const told = sessionIds.filter((id) => id !== own);
    // Of the others a spawn that found a winner is a delivery like any: what a session begins with is nothing to a live one.
    const isStart = decision.decision === 'converted' && trigger.routing.kind === 'spawn';
    if (told.length > 0) this.#tell(trigger, told, isStart);
    for (const effect of decision.effects) {
      if (effect.kind === 'bind') this.bind(effect);
      else this.#release(effect.agentId, effect.target, effect.eventContext);
    }
    if (spawn === null) this.#context.plan.routes.push(routeRow(this.#event.id, decision, sessionIds));
    const [first] = sessionIds;
    if (first !== undefined && trigger.checks.length > 0) this.#check(trigger, first);
  }

  /** What the decision makes, which holds the decision itself: a session that is made is the one that gets the event. */
  #spawn(
    trigger: RoutedTrigger,
    { trigger: decisionKey, decision, because, severity }: Recorded,
    claims: SpawnClaims,
  ): void {
    const { triggers, plan, state, nextId, messageMaxBytes: bytesMax } = this.#context;
    const id = nextId();
    const { owner, ordinal } = trigger;
    const start = startOf({ render: triggers.render, bytesMax: this.#share(1) }, trigger, this.#input);
    this.#count(start.text.length + (start.hiddenContext?.length ?? 0));
    const { id: eventId, key } = this.#event;
    plan.spawned.push({
      id,
      projectId: this.#context.projectId,
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
      // No session is there yet whose idleness it could wait for; deferring, it would go in behind whatever comes before the launch.
      mode: 'interrupt',
    });
    this.#made.set(decisionKey, id);
    const failed = claims.slot ? state.failed.get(owner.id) : undefined;
    if (failed !== undefined) {
      plan.heirs.push({ sessionId: id, agentId: owner.id, failedId: failed.id, threads: failed.threads, bytesMax });
      this.#heirs.set(owner.id, id);
    }
    settle(state, { sessionId: id, agentId: owner.id, agent: owner.name }, claims);
  }

  #tell(trigger: RoutedTrigger, sessionIds: readonly string[], isStart: boolean): void {
    const { render } = this.#context.triggers;
    const bytesMax = this.#share(sessionIds.length);
    const text = messageOf({ render, bytesMax }, trigger, this.#input, isStart);
    this.#count(text.length * sessionIds.length);
    for (const id of sessionIds) this.#say(trigger, id, text);
  }

  #say({ agentId, ordinal }: RoutedTrigger, sessionId: string, text: string): void {
    const { id: eventId, key } = this.#event;
    const mode = deliveryMode(key);
    this.#context.plan.messages.push({
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

  /** What each of so many texts may have, of what is left to the event. */
  #share(count: number): number {
    const share = Math.max(textLeast, Math.floor(Math.max(0, this.#textLeft) / count));
    return Math.min(this.#context.messageMaxBytes, share);
  }

  #count(size: number): void {
    this.#textLeft -= size;
    this.#context.plan.textSize += size;
  }

  #idOf(ref: SessionRef): string {
    const id = 'session' in ref ? ref.session : this.#made.get(ref.spawnedBy);
    if (id === undefined) throw new Error('a decision names a session that was not made');
    return id;
  }

  bind(effect: BindEffect): void {
    const { state, triggers, nextId } = this.#context;
    const { agentId, target, lifecycle, continuity, context, eventContext } = effect;
    const sessionId = this.#idOf(effect.holder);
    const standing = state.bindings.get(holdingText(agentId, target));
    const held = { sessionId, lifecycle, continuity, context, eventContext };
    const binding: Binding =
      standing === undefined
        ? { id: nextId(), agentId, agent: triggers.agent(agentId)?.name ?? '', target, state: 'active', ...held }
        : { ...standing, ...held };
    const kind = standing === undefined ? 'bound' : 'updated';
    this.#become(kind, binding, eventContext?.[kind] ?? null);
  }

  /** What a session held that failed in its slot passes to the one that has the slot now, but for what was taken over or released. */
  inherit(): void {
    const { state, plan } = this.#context;
    for (const [agentId, sessionId] of this.#heirs) {
      for (const claim of waitingOf(state, agentId))
        this.#become('updated', { ...claim, sessionId }, claim.eventContext?.updated ?? null);
      // No event of this batch meets the others, of which there may be thousands.
      if (state.waiting.delete(agentId)) plan.inherited.set(agentId, { sessionId, depth: this.#event.depth + 1 });
    }
  }

  #release(agentId: string, target: Target, eventContext: JsonObject | null): void {
    const standing = this.#context.state.bindings.get(holdingText(agentId, target));
    if (standing === undefined) throw new Error(`nothing is bound to ${targetText(target)} that could be released`);
    this.#become('unbound', { ...standing, state: 'released' }, eventContext);
  }

  /** Keeps what a binding has become, made in this batch or there before, with its event. */
  #become(kind: Transition['kind'], binding: Binding, eventContext: JsonObject | null): void {
    const { state, plan } = this.#context;
    const { madeBindings, movedBindings } = plan;
    (kind === 'bound' || madeBindings.has(binding.id) ? madeBindings : movedBindings).set(binding.id, binding);
    plan.transitions.push({ kind, binding, eventContext, depth: this.#event.depth + 1 });
    hold(state, binding);
  }

  #check({ owner, ordinal, checks }: RoutedTrigger, sessionId: string): void {
    const { connectionId, targetKey, id } = this.#event;
    const pull = objectAt(objectAt(objectAt(this.#input.payload)['codehost'])['pullRequest']);
    const headSha = textAt(objectAt(pull['head'])['sha']);
    if (targetKey === null || headSha === undefined || !isCommitId(headSha)) return;
    const { plan, projectId } = this.#context;
    const agent = { projectId, agentId: owner.id, agent: owner.name, ordinal };
    plan.checks.push({ ...agent, eventId: id, connectionId, targetKey, headSha, sessionId, checks });
  }
}

/** What no code host calls a commit has no check, and must not keep its event from being routed. */
const isCommitId = (text: string): boolean => /^[\w-]{1,64}$/.test(text);
