// What an event does to agents: loads what core/match and core/route decide from, and hands their decisions on.
// It decides nothing itself, and explaining changes nothing (contract, section 3: triggers/explain).
// Skipped triggers take no part: they have no connection that an event could come through.

import { type ActiveTrigger, activeTriggersOn } from '../../adapters/store/triggers.ts';
import { type ExplainedClause, explain } from '../../core/match/match.ts';
import {
  type DecisionWord,
  route,
  type RoutableTrigger,
  type RoutingAgent,
  triggerKey,
} from '../../core/route/route.ts';
import { eventKeySpellings, targetOf } from '../../words/events.ts';
import type { JsonObject } from '../../words/json.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

export interface TriggerExplanation {
  readonly agent: string;
  readonly ordinal: number;
  readonly matched: boolean;
  readonly clauses: readonly ExplainedClause[];
  readonly fallback: boolean;
  /** What would follow were no session there; null where the trigger does not fire. */
  readonly decision: DecisionWord | null;
}

export interface Question {
  readonly event: string;
  /** As `readPayload` gives it. */
  readonly payload: JsonObject;
  /** Name of the webhook endpoint; absent: every endpoint, and every connection. */
  readonly endpoint?: string | undefined;
}

type Scoped = RoutableTrigger & { readonly row: ActiveTrigger };

const scoped = (row: ActiveTrigger): Scoped => ({
  row,
  agentId: row.agentId,
  agent: row.agent,
  ordinal: row.ordinal,
  event: row.event,
  scope: row.endpoint ?? row.connectionId,
  where: row.spec.where,
  fallback: row.spec.fallback,
  routing: row.spec.routing,
});

/** Every active trigger on the key, what each clause read, and what the trigger would do were no session there. */
export async function explainTriggers(
  ctx: FlowContext,
  project: ProjectRef,
  { event, payload, endpoint }: Question,
): Promise<TriggerExplanation[]> {
  const rows = await activeTriggersOn(ctx.db, project.id, eventKeySpellings(event));
  const explained = explain(rows.map(scoped), { key: event, scope: endpoint, payload });
  const firing = explained.filter((one) => one.matched).map((one) => one.trigger);
  const decisions = decideAlone(event, firing);
  return explained.map(({ trigger, matched, clauses }) => ({
    agent: trigger.agent,
    ordinal: trigger.ordinal,
    matched,
    clauses,
    fallback: trigger.fallback,
    decision: decisions.get(triggerKey(trigger)) ?? null,
  }));
}

/** Decisions in a world without sessions, by trigger. The target's key does not matter there, its type does. */
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
      agents: new Map(firing.map(({ row }) => [row.agentId, agentOf(row)])),
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
