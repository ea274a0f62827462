// What the last apply of a compiled tree left behind, so that applying the same tree to the same rows need not read
// them: one digest of the state, made by the database, stands for all that a plan would compare. Kept in memory, with
// the compiled tree itself and no longer; a daemon that has nothing kept plans in full.

import { digestCurrent } from '../../adapters/store/resources/apply.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { ChangeSet, Consequences } from '../../core/plan/types.ts';
import type { FlowContext } from '../context.ts';
import type { ApplyRequest, ApplyResult } from './apply-types.ts';

interface Kept {
  /** Project, owner and options: whatever besides tree and state decides a plan. */
  readonly settings: string;
  readonly digest: string;
  readonly result: Pick<ApplyResult, 'actions' | 'webhooks'>;
}

/** By the list of resources of a compile's answer. */
const kept = new WeakMap<object, Kept>();

export const NOTHING: Consequences = {
  schedules: { gained: [], changed: [], lost: [] },
  endpoints: { gained: [], lost: [] },
  triggers: { activated: [], skipped: [] },
};

function settingsOf({ projectId, owner, prune, adopt, shippedAvatars }: ApplyRequest): string {
  return JSON.stringify([projectId, owner, prune, adopt, shippedAvatars]);
}

/**
 * The result of an apply that would find nothing to do, or undefined where only a plan can tell. Under the project's
 * lock; never where drift is looked for, nor for a tree that the guard may hold.
 */
export async function recall(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  orgId: string,
): Promise<Pick<ApplyResult, 'actions' | 'webhooks'> | undefined> {
  const known = kept.get(request.compiled.resources);
  if (known === undefined || request.verify || !request.hasSvc || known.settings !== settingsOf(request))
    return undefined;
  const digest = await digestCurrent(tx, { projectId: request.projectId, orgId, now: ctx.runtime.now() });
  return digest === known.digest ? known.result : undefined;
}

/**
 * Looks at the state that an apply leaves, inside its transaction; the answer, called once that has committed, keeps
 * what the next apply of the same tree is to say. A plan's diagnostics are errors, so that there is none to keep.
 */
export async function remember(
  ctx: FlowContext,
  tx: Sql,
  request: ApplyRequest,
  orgId: string,
  left: { readonly set: ChangeSet; readonly webhooks: ApplyResult['webhooks'] },
): Promise<() => void> {
  if (!request.hasSvc) return () => {};
  const digest = await digestCurrent(tx, { projectId: request.projectId, orgId, now: ctx.runtime.now() });
  const actions = left.set.actions
    .filter((action) => action.op !== 'delete')
    .map((action) => ({ ...action, op: 'unchanged' as const, changes: [] }));
  const settings = settingsOf(request);
  return () => kept.set(request.compiled.resources, { settings, digest, result: { actions, webhooks: left.webhooks } });
}
