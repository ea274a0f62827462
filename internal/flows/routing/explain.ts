// Why an event does what it does, or what one would do: every trigger on its key with what each clause read. Of a
// recorded event, the decisions are those that were recorded; what has none is told as it would go now.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import { findConnection } from '../../adapters/store/connections/connections.ts';
import { eventById, type EventRoute } from '../../adapters/store/events/event-reads.ts';
import { type RoutingTx, held } from '../../adapters/store/routing/routing-lock.ts';
import { type ActiveTrigger, activeTriggersOn } from '../../adapters/store/resources/triggers.ts';
import { compileWhere, type Explained, type ExplainedClause, explain, readPath } from '../../core/match/match.ts';
import {
  type Attribution,
  type DecisionWord,
  route,
  type RoutingAgent,
  type Target,
  triggerKey,
} from '../../core/route/route.ts';
import { eventKeySpellings, targetOf } from '../../domain/events.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { Fault } from '../../domain/fault.ts';
import { objectAt } from '../../domain/fields.ts';
import { targetTold } from '../../domain/payload-target.ts';
import { utf8Size } from '../../domain/utf8.ts';
import { messageOf } from '../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { attributed, routedPayload } from '../ingest/ingest.ts';
import { decideStartable, observedIn } from './decide.ts';
import { sessionsMarked } from './markers.ts';
import type { RenderInput } from './messages.ts';
import {
  addAttribution,
  type AskingTrigger,
  attributionsOn,
  load,
  openRoutingState,
  type RoutingState,
  snapshotOf,
} from './routing-state.ts';
import type { RoutedAgent } from './triggers.ts';

export interface TriggerExplanation {
  readonly agent: string;
  readonly ordinal: number;
  readonly matched: boolean;
  readonly clauses: readonly ExplainedClause[];
  readonly fallback: boolean;
  /** What would follow now, or what was recorded; null where the trigger does not fire. */
  readonly decision: string | null;
  /** Of what would follow now: why it would be that. */
  readonly because?: string;
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
  /** The same of a connection. */
  readonly connection?: string | undefined;
}

type Scoped = AskingTrigger & { readonly owner: RoutingAgent & Pick<RoutedAgent, 'mounts'> };

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

/**
 * Every active trigger on the key, what each clause read, and what the trigger would do now, with the sessions that are
 * there. Attributions that the payload brings along are believed: somebody asks what would be, were it so. Throws Fault
 * `not_found` for a connection.
 */
export async function explainTriggers(
  ctx: FlowContext,
  project: ProjectRef,
  question: Question,
): Promise<Explanation<TriggerExplanation>> {
  return ctx.db.tx(async (tx) => explainAsked(held(tx, project.id), question), {
    isolation: 'repeatable read',
    readOnly: true,
  });
}

async function explainAsked(
  tx: RoutingTx,
  { event: key, payload: asked, endpoint, connection }: Question,
): Promise<Explanation<TriggerExplanation>> {
  const connectionId = connection === undefined ? null : await connectionNamed(tx, connection);
  const scope = endpoint ?? connectionId ?? undefined;
  const rows = await activeTriggersOn(tx, tx.projectId, eventKeySpellings(key));
  const triggers = rows.map((row) => scoped(row, row.endpoint ?? row.connectionId));
  const target = targetTold(key, asked) ?? unnamedTarget(key);
  const standing = await standingOn(tx, { key, target, payload: asked, connectionId });
  const brought = objectAt(asked['svc'])['attributions'] !== undefined;
  const payload = brought ? asked : (attributed(asked, standing.attributions.map(asJson)) as JsonObject);
  const all = explain(triggers, { key, scope, payload });
  const would = await decideNow(tx, standing, { id: noEvent, key, depth: 0, payload }, firingOf(all));
  return withinAnswer(all.map((one) => tell(one, would)));
}

async function connectionNamed(tx: RoutingTx, name: string): Promise<string> {
  const found = await findConnection(tx, tx.projectId, name);
  if (found === undefined) throw new Fault('not_found', 'connection-not-found', messageOf('noConnection', name));
  return found.id;
}

/** Stands for the one that a payload does not name: nobody holds it, and its type is known all the same. */
function unnamedTarget(event: string): Target | null {
  const type = targetOf(event);
  return type === null ? null : { type, key: '' };
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
  const standing = await standingOn(tx, { ...event, target, payload: routedPayload(event) });
  const isOpen = event.routerStatus === 'pending' || event.routerStatus === 'failed';
  const payload = routedPayload(isOpen ? { ...event, attributions: standing.attributions.map(asJson) } : event);
  if (event.large !== undefined) await readAhead(payload, triggers);
  const scope = event.endpointId ?? event.connectionId;
  const all = explain(triggers, { key: event.key, scope, payload, isLarge: event.large !== undefined });
  const recorded = new Map(event.routes.map((one) => [triggerKey(one), one]));
  const firing = firingOf(all).filter((trigger) => !recorded.has(triggerKey(trigger)));
  const would = await decideNow(tx, standing, { ...event, payload }, firing);
  const told = all.map((one) => {
    const before = recorded.get(triggerKey(one.trigger));
    const now = tell(one, would);
    return before === undefined ? now : { ...now, decision: before.decision, recorded: before };
  });
  return withinAnswer(told);
}

/** Stands for the id of an event that was not recorded. */
const noEvent = '00000000-0000-0000-0000-000000000000';

/** What stands where an event is, as it is asked about. */
interface Surroundings {
  readonly target: Target | null;
  readonly observed: Target | null;
  readonly state: RoutingState;
  readonly attributions: readonly Attribution[];
}

interface Asked {
  readonly key: string;
  readonly target: Target | null;
  readonly payload: Json;
  readonly connectionId: string | null;
}

/** With the sessions that its own text ties to the target, as routing will do first. */
async function standingOn(tx: RoutingTx, { key, target, payload, connectionId }: Asked): Promise<Surroundings> {
  const observed = observedIn({ key, payload });
  const state = await openRoutingState(
    tx,
    [target, observed].filter((one) => one !== null),
  );
  if (target !== null) {
    const marked = await sessionsMarked(tx, [{ id: noEvent, connectionId, payload }]);
    for (const one of marked.get(noEvent) ?? []) addAttribution(state, target, one);
  }
  return { target, observed, state, attributions: attributionsOn(state, target) };
}

/** What would follow of a trigger, and why where that needs a word. */
interface Following {
  readonly decision: DecisionWord;
  readonly because: string | null;
}

/** What would follow now, by trigger. */
async function decideNow(
  tx: RoutingTx,
  { state, ...standing }: Surroundings,
  { depth, ...input }: RenderInput & { readonly depth: number },
  firing: readonly Scoped[],
): Promise<ReadonlyMap<string, Following>> {
  await load(state, tx, firing);
  const { result, refused } = decideStartable(firing, input, (open) => {
    const asked = { ...standing, matched: open, agent: () => undefined };
    return route({ ...standing, key: input.key, depth }, open, snapshotOf(state, asked));
  });
  return new Map([...result.decisions, ...refused].map((one) => [one.trigger, one]));
}

const asJson = (one: Attribution): Json => ({ ...one });

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

function tell(
  { trigger, matched, clauses, standsBackFor }: Explained<Scoped>,
  following: ReadonlyMap<string, Following>,
): TriggerExplanation {
  const { decision = null, because = null } = following.get(triggerKey(trigger)) ?? {};
  return {
    agent: trigger.agent,
    ordinal: trigger.ordinal,
    matched,
    clauses,
    fallback: trigger.fallback,
    decision,
    ...(because !== null && { because }),
    ...(standsBackFor !== undefined && {
      standsBackFor: standsBackFor.map(({ agent, ordinal }) => ({ agent, ordinal })),
    }),
  };
}

const agentOf = ({ agentId, agent, concurrency, bindings, mounts }: ActiveTrigger): Scoped['owner'] => ({
  id: agentId,
  name: agent,
  bindings,
  mounts,
  ...(concurrency !== null && { concurrency }),
});
