// Why an event does what it does, or what one would do: every trigger on its key with what each clause read. Of a
// recorded event, the decisions are those that were recorded; what has none is told as it would go now.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import { eventById, type EventRoute } from '../../adapters/store/events/event-reads.ts';
import { type RoutingTx, held } from '../../adapters/store/routing/routing-lock.ts';
import { type ActiveTrigger, activeTriggersOn } from '../../adapters/store/resources/triggers.ts';
import { compileWhere, type Explained, type ExplainedClause, explain, readPath } from '../../core/match/match.ts';
import { type DecisionWord, route, type RoutingAgent, type Target, triggerKey } from '../../core/route/route.ts';
import { eventKeySpellings, targetOf } from '../../domain/events.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { Fault } from '../../domain/fault.ts';
import { utf8Size } from '../../domain/utf8.ts';
import { messageOf } from '../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { routedPayload } from '../ingest/ingest.ts';
import { observedIn } from './decide.ts';
import { type AskingTrigger, attributionsOn, load, openRoutingState, snapshotOf } from './routing-state.ts';

export interface TriggerExplanation {
  readonly agent: string;
  readonly ordinal: number;
  readonly matched: boolean;
  readonly clauses: readonly ExplainedClause[];
  readonly fallback: boolean;
  /** What would follow were no session there, or what was recorded; null where the trigger does not fire. */
  readonly decision: string | null;
  /** Of a fallback that stands back: the triggers that fire instead. */
  readonly standsBackFor?: readonly { readonly agent: string; readonly ordinal: number }[];
}
export interface EventExplanation extends TriggerExplanation {
  /** What was decided when the event was routed; absent: it was not routed by this trigger. */
  readonly recorded?: EventRoute;
}

/** An explanation within its bound; `more`: triggers that it has no room for were left out. */
export interface Explanation<T> {
  readonly triggers: readonly T[];
  readonly more?: true;
}

/** Bytes of JSON that an explanation has at most (docs/reference/routing.md#messages); its frame and `recorded` count with the rest. */
const answerMax = 4 * 1_048_576;
const frameMax = 64;

/** The first triggers whose explanations fit into the answer. */
function withinAnswer<T>(all: readonly T[]): Explanation<T> {
  let left = answerMax - frameMax;
  for (const [at, one] of all.entries()) {
    left -= utf8Size(JSON.stringify(one)) + frameMax;
    if (left < 0) return { triggers: all.slice(0, at), more: true };
  }
  return { triggers: all };
}

export interface Question {
  readonly event: string;
  /** As `readPayload` gives it. */
  readonly payload: JsonObject;
  /** Name of the webhook endpoint; absent: every endpoint, and every connection. */
  readonly endpoint?: string | undefined;
}

type Scoped = AskingTrigger;

/** `through`: how the place that a trigger listens through is named where the event is. */
const scoped = (row: ActiveTrigger, through: string | null): Scoped => ({
  owner: agentOf(row),
  agentId: row.agentId,
  agent: row.agent,
  ordinal: row.ordinal,
  event: row.event,
  scope: through,
  where: row.spec.where,
  fallback: row.spec.fallback,
  routing: row.spec.routing,
});

/** Every active trigger on the key, what each clause read, and what the trigger would do were no session there. */
export async function explainTriggers(
  ctx: FlowContext,
  project: ProjectRef,
  { event, payload, endpoint }: Question,
): Promise<Explanation<TriggerExplanation>> {
  const rows = await activeTriggersOn(ctx.db, project.id, eventKeySpellings(event));
  const triggers = rows.map((row) => scoped(row, row.endpoint ?? row.connectionId));
  const all = explain(triggers, { key: event, scope: endpoint, payload });
  const decisions = decideAlone(event, firingOf(all));
  return withinAnswer(all.map((one) => tell(one, decisions)));
}

/**
 * The same of a recorded event, through the endpoint or connection that it came by: what was decided, and of a trigger
 * that has not routed it what would follow now, with the sessions that are there. Throws Fault `not_found`.
 */
export async function explainEvent(
  ctx: FlowContext,
  project: ProjectRef,
  id: string,
): Promise<Explanation<EventExplanation>> {
  return ctx.db.tx(async (tx) => explainIn(held(tx, project.id), id), {
    isolation: 'repeatable read',
    readOnly: true,
  });
}

async function explainIn(tx: RoutingTx, id: string): Promise<Explanation<EventExplanation>> {
  const event = await eventById(tx, tx.projectId, id);
  if (event === undefined) throw new Fault('not_found', 'event-not-found', messageOf('noEvent', id));
  const rows = await activeTriggersOn(tx, tx.projectId, eventKeySpellings(event.key));
  const triggers = rows.map((row) => scoped(row, row.endpointId ?? row.connectionId));
  const target = event.target as Target | null;
  const observed = observedIn({ key: event.key, payload: routedPayload(event) });
  const state = await openRoutingState(
    tx,
    [target, observed].filter((one) => one !== null),
  );
  const attributions = attributionsOn(state, target);
  const isOpen = event.routerStatus === 'pending' || event.routerStatus === 'failed';
  const payload = routedPayload(
    isOpen ? { ...event, attributions: attributions.map((one): Json => ({ ...one })) } : event,
  );
  if (event.large !== undefined) await readAhead(payload, triggers);
  const scope = event.endpointId ?? event.connectionId;
  const all = explain(triggers, { key: event.key, scope, payload, isLarge: event.large !== undefined });
  const recorded = new Map(event.routes.map((one) => [triggerKey(one), one]));
  const firing = firingOf(all).filter((trigger) => !recorded.has(triggerKey(trigger)));
  await load(state, tx, firing);
  const input = { target, observed, attributions, matched: firing, agent: () => undefined };
  const { key, depth } = event;
  const { decisions } = route({ key, target, attributions, observed, depth }, firing, snapshotOf(state, input));
  const would = new Map(decisions.map((one) => [one.trigger, one.decision]));
  const told = all.map((one) => {
    const before = recorded.get(triggerKey(one.trigger));
    const now = tell(one, would);
    return before === undefined ? now : { ...now, decision: before.decision, recorded: before };
  });
  return withinAnswer(told);
}

/** Reads what clauses look at, each between two turns of the event loop: of a large payload every one may take a while. */
async function readAhead(payload: Json, triggers: readonly Scoped[]): Promise<void> {
  const clauses = triggers.flatMap(({ where }) => compileWhere(where));
  for (const { segments } of new Map(clauses.map((one) => [one.path, one])).values()) {
    readPath(payload, segments);
    await yieldToEventLoop();
  }
}

const firingOf = (all: readonly Explained<Scoped>[]): Scoped[] =>
  all.filter((one) => one.matched).map((one) => one.trigger);

const tell = (
  { trigger, matched, clauses, standsBackFor }: Explained<Scoped>,
  decisions: ReadonlyMap<string, DecisionWord>,
): TriggerExplanation => ({
  agent: trigger.agent,
  ordinal: trigger.ordinal,
  matched,
  clauses,
  fallback: trigger.fallback,
  decision: decisions.get(triggerKey(trigger)) ?? null,
  ...(standsBackFor !== undefined && {
    standsBackFor: standsBackFor.map(({ agent, ordinal }) => ({ agent, ordinal })),
  }),
});

/** Decisions in a state without sessions, by trigger. The target's key does not matter there, its type does. */
function decideAlone(event: string, firing: readonly Scoped[]): ReadonlyMap<string, DecisionWord> {
  const type = targetOf(event);
  const { decisions } = route(
    {
      key: event,
      target: type === null ? null : { type, key: '' },
      attributions: [],
      observed: null,
      depth: 0,
    },
    firing,
    {
      agents: new Map(firing.map(({ agentId, owner }) => [agentId, owner])),
      sessions: [],
      slots: new Map(),
      threads: new Map(),
      bindings: [],
      routed: new Set(),
    },
  );
  return new Map(decisions.map((one) => [one.trigger, one.decision]));
}

const agentOf = ({ agentId, agent, concurrency, bindings }: ActiveTrigger): RoutingAgent => ({
  id: agentId,
  name: agent,
  bindings,
  ...(concurrency !== null && { concurrency }),
});
