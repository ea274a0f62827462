// The rows beneath an agent: one trigger per event key and heartbeat, one schedule per heartbeat (docs/reference/compile.md#triggers
// resource, Heartbeat schedule). Compared with the rows that are there, so that whatever drifted is put right.

import { noTick } from '../../domain/events.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import {
  asJson,
  type EndpointAuth,
  type EventTrigger,
  type HeartbeatTrigger,
  type Trigger,
} from '../../domain/spec.ts';
import { type Facts, type Report, rowKey, toldName } from './stored.ts';
import { checkEndpointSecret, checkIdleExpiry, resolveTrigger } from './required.ts';
import {
  type AgentsPlan,
  type Change,
  type CurrentAgent,
  type CurrentSchedule,
  type CurrentTrigger,
  type DesiredAgent,
  type DesiredResource,
  drifted,
  type PlannedReceipt,
  type PlanOptions,
  type ScheduleConsequence,
  type ScheduleWrite,
  type TriggerConsequence,
  type TriggerWrite,
  type Writes,
} from './types.ts';

/** How many next fire times a plan shows of a schedule. */
export const firesShown = 3;

export interface RowsPlan {
  readonly triggers: TriggerWrite[];
  readonly triggerDeletes: { agentId: string; ordinal: number }[];
  readonly schedules: ScheduleWrite[];
  readonly scheduleDeletes: string[];
  readonly webhooks: WebhookAt[];
  /** By agent name: row-level differences of agents that exist, for their actions. */
  readonly drift: Map<string, Change[]>;
  readonly gained: ScheduleConsequence[];
  readonly changed: ScheduleConsequence[];
  readonly lost: ScheduleConsequence[];
  readonly activated: TriggerConsequence[];
  readonly skipped: TriggerConsequence[];
  /** Endpoint names that a trigger uses after the apply. */
  readonly endpointsInUse: Set<string>;
}

interface Scope {
  readonly facts: Facts;
  readonly options: PlanOptions;
  readonly report: Report;
  readonly plan: RowsPlan;
}

/** `heartbeat.<agentResourceId>.<ordinal>` (docs/reference/events.md). */
export const heartbeatKey = (agentId: string, ordinal: number): string => `heartbeat.${agentId}.${ordinal}`;
/** `heartbeat-<agentResourceId>-<ordinal>` (docs/reference/schedules.md#ticks). */
export const scheduleId = (agentId: string, ordinal: number): string => `heartbeat-${agentId}-${ordinal}`;

/** Compares triggers and schedules of all desired agents with the stored rows. */
export function* planRows(
  agents: AgentsPlan,
  facts: Facts,
  options: PlanOptions,
  report: Report,
): Generator<void, RowsPlan> {
  const plan: RowsPlan = {
    triggers: [],
    triggerDeletes: [],
    schedules: [],
    scheduleDeletes: [],
    webhooks: [],
    drift: new Map(),
    gained: [],
    changed: [],
    lost: [],
    activated: [],
    skipped: [],
    endpointsInUse: new Set(),
  };
  const scope: Scope = { facts, options, report, plan };
  for (const agent of agents.desired) {
    planAgentRows(scope, agent);
    yield;
  }
  for (const agent of agents.deletes) {
    for (const row of facts.schedulesByAgent.get(agent.id) ?? []) plan.lost.push(lostSchedule(agent.name, row));
  }
  const settled = new Set([...agents.desired, ...agents.deletes].map((agent) => agent.name));
  for (const row of facts.current.triggers) {
    const agent = facts.agentById.get(row.agentId);
    if (agent === undefined || settled.has(agent.name)) continue;
    const endpoint = endpointName(facts, row);
    if (endpoint !== null) plan.endpointsInUse.add(endpoint);
  }
  return plan;
}

/** The endpoint of a trigger's row, or null. */
export const endpointName = (facts: Facts, row: CurrentTrigger): string | null =>
  row.endpointId === null ? null : (facts.endpointById.get(row.endpointId)?.name ?? null);

function planAgentRows(scope: Scope, agent: DesiredAgent): void {
  const { facts, plan } = scope;
  const stored = facts.agentByName.get(agent.name);
  const drift: Change[] = [];
  agent.spec.triggers.forEach((trigger, ordinal) => {
    const write = triggerWrite(scope, agent, ordinal, trigger);
    if (write.endpoint !== null) plan.endpointsInUse.add(write.endpoint);
    compareTrigger(scope, stored, write, drift, stored !== undefined && stored.hash === agent.hash);
    if (trigger.kind === 'heartbeat') compareSchedule(scope, agent, ordinal, trigger, drift);
  });
  if (stored === undefined) return;
  for (const row of facts.triggersByAgent.get(stored.id) ?? []) {
    if (row.ordinal < agent.spec.triggers.length) continue;
    plan.triggerDeletes.push({ agentId: stored.id, ordinal: row.ordinal });
    if (stored.hash === agent.hash) drift.push({ path: `triggers[${row.ordinal}].status`, from: row.status, to: null });
  }
  for (const row of facts.schedulesByAgent.get(stored.id) ?? []) {
    if (agent.spec.triggers[row.ordinal]?.kind === 'heartbeat') continue;
    plan.scheduleDeletes.push(row.id);
    plan.lost.push(lostSchedule(agent.name, row));
    if (stored.hash === agent.hash) drift.push({ path: `triggers[${row.ordinal}].schedule`, from: row.cron, to: null });
  }
  if (drift.length > 0) plan.drift.set(agent.name, drift);
}

/** Its hash is made only where the row does not tell it. */
type UnhashedWrite = Omit<TriggerWrite, 'hash'>;

function triggerWrite(scope: Scope, agent: DesiredAgent, ordinal: number, trigger: Trigger): UnhashedWrite {
  const base = { agent: agent.name, ordinal, spec: trigger };
  if (trigger.kind === 'heartbeat') {
    return { ...base, kind: 'heartbeat', event: null, endpoint: null, connectionId: null, status: 'active' };
  }
  const resolved = resolveTrigger(scope.facts, { agent, ordinal, trigger }, scope.report);
  const endpoint = trigger.endpoint ?? null;
  if (endpoint !== null) scope.plan.webhooks.push({ agent, ordinal, trigger: { ...trigger, endpoint } });
  return { ...base, kind: 'event', event: trigger.event, endpoint, ...resolved };
}

/** The row of an agent whose spec is unchanged holds that spec's trigger, unless drift is looked for (`verify`). */
function compareTrigger(
  scope: Scope,
  agent: CurrentAgent | undefined,
  write: UnhashedWrite,
  drift: Change[],
  sameSpec: boolean,
): void {
  const { facts, plan, options } = scope;
  const at = { agent: write.agent, ordinal: write.ordinal, event: write.event ?? 'heartbeat' };
  const row = agent === undefined ? undefined : facts.triggerByKey.get(rowKey(agent.id, write.ordinal));
  const trusted = sameSpec && row !== undefined && !options.verify && !row.hash.startsWith(drifted);
  const hash = trusted ? row.hash : sha256Of(options, write.spec);
  if (agent !== undefined && row !== undefined && isSameTrigger(facts, agent, row, { ...write, hash })) return;
  plan.triggers.push({ ...write, hash });
  if (write.status === 'skipped' && row?.status !== 'skipped') plan.skipped.push(at);
  if (write.status === 'active' && row?.status === 'skipped') plan.activated.push(at);
  if (!sameSpec) return;
  const path = `triggers[${write.ordinal}]`;
  if (row?.status !== write.status) drift.push({ path: `${path}.status`, from: row?.status ?? null, to: write.status });
  else drift.push({ path, from: null, to: asJson(write.spec) });
}

const sha256Of = (options: PlanOptions, trigger: Trigger): string => options.sha256(canonicalJson(asJson(trigger)));

function isSameTrigger(facts: Facts, agent: CurrentAgent, row: CurrentTrigger, write: TriggerWrite): boolean {
  return (
    row.event === (write.event ?? heartbeatKey(agent.id, write.ordinal)) &&
    row.status === write.status &&
    row.connectionId === write.connectionId &&
    endpointName(facts, row) === write.endpoint &&
    row.hash === write.hash
  );
}

function compareSchedule(
  scope: Scope,
  agent: DesiredAgent,
  ordinal: number,
  trigger: HeartbeatTrigger,
  drift: Change[],
): void {
  const { facts, options, plan } = scope;
  const { cron, timezone } = trigger;
  const stored = facts.agentByName.get(agent.name);
  const row = stored === undefined ? undefined : facts.scheduleByKey.get(rowKey(stored.id, ordinal));
  if (row?.cron === cron && row.timezone === timezone) return;
  const next = nextFires(options, trigger);
  // One that never fires has been warned of by the compiler: it is kept as what it is.
  const [first = noTick] = next;
  plan.schedules.push({ agent: agent.name, ordinal, cron, timezone, nextAt: first });
  const shown = { agent: agent.name, ordinal, cron, timezone, next: next.map((time) => time.toISOString()) };
  if (row === undefined) plan.gained.push(shown);
  else plan.changed.push({ ...shown, from: { cron: row.cron, timezone: row.timezone } });
  if (stored?.hash === agent.hash) {
    drift.push({ path: `triggers[${ordinal}].schedule`, from: row?.cron ?? null, to: cron });
  }
}

function nextFires(options: PlanOptions, trigger: HeartbeatTrigger): Date[] {
  const fires: Date[] = [];
  let after = options.now;
  while (fires.length < firesShown) {
    const next = options.nextTick(trigger.cron, trigger.timezone, after);
    if (next === null) break;
    fires.push(next);
    after = next;
  }
  return fires;
}

function lostSchedule(agent: string, row: CurrentSchedule): ScheduleConsequence {
  return { agent, ordinal: row.ordinal, cron: row.cron, timezone: row.timezone, next: [] };
}

// Webhook endpoints that an apply creates, promotes, adopts or inherits (docs/reference/webhook-endpoints.md#declaring).

export interface WebhookAt {
  readonly agent: DesiredResource;
  readonly ordinal: number;
  readonly trigger: EventTrigger & { readonly endpoint: string };
}

export interface EndpointPlan {
  readonly writes: Writes['endpoints'];
  readonly receipts: readonly PlannedReceipt[];
}

const authText = (auth: EndpointAuth): string => canonicalJson(auth as unknown as Json);
const describe = (auth: EndpointAuth): string =>
  auth.kind === 'none' ? 'none' : `${auth.kind} with secretRef ${toldName(auth.secretRef)}`;

/** The first auth that the tree declares for each endpoint; compile has refused two that differ. */
function declaredAuth(webhooks: readonly WebhookAt[]): Map<string, EndpointAuth> {
  const declared = new Map<string, EndpointAuth>();
  for (const { trigger } of webhooks) {
    if (trigger.auth !== undefined && !declared.has(trigger.endpoint)) declared.set(trigger.endpoint, trigger.auth);
  }
  return declared;
}

/** A reservation is not an endpoint yet: the apply that declares it with auth promotes it. */
export function planEndpoints(facts: Facts, webhooks: readonly WebhookAt[], report: Report): EndpointPlan {
  const declared = declaredAuth(webhooks);
  const writes = new Map<string, EndpointAuth>();
  const receipts: PlannedReceipt[] = [];
  for (const at of webhooks) {
    const { endpoint: name, auth, event } = at.trigger;
    const stored = facts.endpointByName.get(name)?.auth ?? null;
    const create = declared.get(name);
    if (stored !== null && auth !== undefined && authText(stored) !== authText(auth)) {
      report({
        resource: at.agent,
        path: ['triggers', at.ordinal, 'auth'],
        code: 'endpoint-auth-conflict',
        message: `Webhook endpoint ${name} exists with auth ${describe(stored)}; ${describe(auth)} differs from it`,
        hint: `Leave auth out to use the stored one, or name another endpoint; once no trigger uses this one: svc endpoint delete ${name}`,
      });
    } else if (stored === null && create === undefined) {
      report({
        resource: at.agent,
        path: ['triggers', at.ordinal, 'endpoint'],
        code: 'endpoint-missing',
        message: `Webhook endpoint ${name} does not exist; include auth to create it`,
      });
    } else if (stored === null && create !== undefined) writes.set(name, create);
    if (auth !== undefined && auth.kind !== 'none') {
      checkEndpointSecret(facts, at.agent, at.ordinal, auth.secretRef, report);
    }
    const proof = auth ?? stored ?? create;
    if (proof !== undefined && proof.kind !== 'none') {
      const behind = { ordinal: at.ordinal, endpoint: name, name: proof.secretRef, isOwn: auth !== undefined };
      checkIdleExpiry(facts, at.agent, behind, report);
    }
    receipts.push({ agent: at.agent.name, event, endpoint: name });
  }
  return {
    writes: [...writes].map(([name, auth]) => ({ name, auth })).sort((a, b) => (a.name < b.name ? -1 : 1)),
    receipts,
  };
}
