// The stage that judges a plan: whether it is applied, held until somebody approves, or refused. Where people look before
// they leap, and where a plan is held, it also says what the change of triggers would have done to the last days' events;
// of one that is applied it reads what is to be matched again once that has committed.

import { liveSessionsByRevision } from '../../adapters/store/resources/agents.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { ChangeSet, Consequences } from '../../core/plan/types.ts';
import { impactOf, sidesOf } from './impact.ts';
import type { ApplyRequest, ApplyResult, ApplyStatus, JudgedPlan, Plan, Receipt } from './plan.ts';

const nothing: Consequences = {
  schedules: { gained: [], changed: [], lost: [] },
  endpoints: { gained: [], lost: [] },
  triggers: { activated: [], skipped: [] },
};

/** A result that says nothing but how it ended. */
export function emptyResult(status: ApplyStatus, diagnostics: ApplyResult['diagnostics']): ApplyResult {
  return { status, actions: [], consequences: nothing, webhooks: [], diagnostics };
}

/** Reads only. */
export async function judge(tx: Sql, plan: Plan): Promise<JudgedPlan> {
  const { diagnostics } = plan;
  switch (plan.outcome) {
    case 'stale':
      return { plan, result: emptyResult('superseded', []) };
    case 'broken':
      return { plan, result: emptyResult('failed', diagnostics) };
    case 'known': {
      const { actions } = plan.kept;
      const webhooks = plan.kept.webhooks as readonly Receipt[];
      return { plan, result: { ...emptyResult('unchanged', diagnostics), actions, webhooks } };
    }
    case 'computed':
      return { plan, ...(await judgeChanges(tx, plan)) };
  }
}

async function judgeChanges(
  tx: Sql,
  plan: Extract<Plan, { outcome: 'computed' }>,
): Promise<Pick<JudgedPlan, 'result' | 'sides'>> {
  const { request, set, state, now, diagnostics, webhooks } = plan;
  if (!set.ok) return { result: emptyResult('failed', diagnostics) };
  const status = statusOf(request, set);
  const { actions, held } = set;
  const sessions = await sessionsIn(tx, set);
  const consequences = { ...set.consequences, ...(sessions !== undefined && { sessions }) };
  const result = { status, actions, consequences, webhooks, diagnostics, ...(held && { held }) };
  const isAsked = request.withImpact === true && status === 'planned';
  const planned = { projectId: request.projectId, state, writes: set.writes, now };
  if (isAsked || status === 'held') return { result: { ...result, eventImpact: await impactOf(tx, planned) } };
  const sides = status === 'applied' ? await sidesOf(tx, planned) : undefined;
  if (sides === undefined) return { result };
  return 'keys' in sides ? { result, sides } : { result: { ...result, eventImpact: sides } };
}

/** What becomes of live sessions of agents that change; undefined where there is none. */
async function sessionsIn(tx: Sql, { writes }: ChangeSet): Promise<Consequences['sessions']> {
  const revised = writes.agents.flatMap(({ id, newRevision }) => (id !== null && newRevision ? [id] : []));
  const gone = new Set(writes.agentDeletes);
  if (revised.length + gone.size === 0) return undefined;
  const found = await liveSessionsByRevision(tx, [...revised, ...gone]);
  if (found.length === 0) return undefined;
  const of = (isGone: boolean) =>
    found.filter(({ id }) => gone.has(id) === isGone).map(({ agent, revision, count }) => ({ agent, revision, count }));
  return { kept: of(false), archived: of(true) };
}

function statusOf(request: ApplyRequest, set: ChangeSet): ApplyStatus {
  if (request.dryRun) return 'planned';
  if (set.held !== undefined) return 'held';
  return set.changed ? 'applied' : 'unchanged';
}
