// The stage that judges a plan: whether it is applied, held until somebody approves, or refused. Where people look before
// they leap, and where a plan is held, it also says what the change of triggers would have done to the last days' events.

import type { Sql } from '../../adapters/store/store.ts';
import type { ChangeSet, Consequences } from '../../core/plan/types.ts';
import { impactOf } from './impact.ts';
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
      return { plan, result: await judgeChanges(tx, plan) };
  }
}

async function judgeChanges(tx: Sql, plan: Extract<Plan, { outcome: 'computed' }>): Promise<ApplyResult> {
  const { request, set, state, now, diagnostics, webhooks } = plan;
  if (!set.ok) return emptyResult('failed', diagnostics);
  const status = statusOf(request, set);
  const { actions, consequences, held } = set;
  const result = { status, actions, consequences, webhooks, diagnostics, ...(held && { held }) };
  const isAsked = request.withImpact === true && status === 'planned';
  if (!isAsked && status !== 'held') return result;
  const { projectId } = request;
  return { ...result, eventImpact: await impactOf(tx, { projectId, state, writes: set.writes, now }) };
}

function statusOf(request: ApplyRequest, set: ChangeSet): ApplyStatus {
  if (request.dryRun) return 'planned';
  if (set.held !== undefined) return 'held';
  return set.changed ? 'applied' : 'unchanged';
}
