// An attempt as its own person may see it, and how it ends badly.

import { attemptById, type AttemptRow, step } from '../../adapters/store/connections/errtrack-attempts.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { stateAt } from '../../core/attempt/attempt.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { errtrackApplication } from '../errtrack-application.ts';
import { requireAdministrator, requireSomeAdministrator, type SetupCaller } from './errtrack-authority.ts';
import { isUuid } from '../../domain/uuid.ts';

/** An attempt as it is now: one whose time is over is `expired`, and is stored so. */
export async function current(ctx: FlowContext, row: AttemptRow): Promise<AttemptRow> {
  const now = ctx.runtime.now();
  const state = stateAt(row.state, row.expiresAt, now);
  if (state === row.state) return row;
  await ctx.db.tx((tx) => step(tx, row.id, { taken: 'expire', from: row.state, now }));
  return (await attemptById(ctx.db, row.id)) ?? row;
}

/** Before anything of a call of the setup is read. Throws Fault `forbidden`, then `unavailable`. */
export async function enterSetup(ctx: FlowContext, caller: Omit<SetupCaller, 'actor'>): Promise<void> {
  await requireSomeAdministrator(ctx.db, caller);
  errtrackApplication(ctx);
}

/** Before anything of a selection of projects is read: it goes on where there is no application. Throws Fault `forbidden`. */
export const enterSelection = (ctx: FlowContext, caller: Omit<SetupCaller, 'actor'>): Promise<void> =>
  requireSomeAdministrator(ctx.db, caller);

/** The caller's attempt. Throws Fault `forbidden`, or `not_found` for what is another person's or nobody's. */
export async function readSetup(ctx: FlowContext, caller: SetupCaller, id: string): Promise<AttemptRow> {
  await requireSomeAdministrator(ctx.db, caller);
  errtrackApplication(ctx);
  const row = isUuid(id) ? await attemptById(ctx.db, id) : undefined;
  if (row === undefined || row.userId !== caller.principalId) throw noAttempt();
  await requireAdministrator(ctx.db, caller, row.orgId);
  return current(ctx, row);
}

export const noAttempt = (): Fault =>
  new Fault('not_found', 'attempt-not-found', 'There is no such setup attempt of yours.');
export const wrongState = (state: string): Fault =>
  new Fault(
    'conflict',
    'attempt-state',
    `The setup attempt is ${state}; read its status instead of sending this again.`,
  );

/** Ends an attempt with a reason; a pending credential goes with it. */
export async function end(
  ctx: FlowContext,
  row: AttemptRow,
  from: AttemptRow['state'],
  taken: 'refused' | 'unknown',
  reason: string,
): Promise<AttemptRow> {
  await ctx.db.tx((tx) => step(tx, row.id, { taken, from, now: ctx.runtime.now(), learned: { reason } }));
  ctx.runtime.log.warn({ attempt: row.id, reason }, 'errtrack.setup_ended');
  return (await attemptById(ctx.db, row.id)) ?? row;
}

/** The entry of a step that a person took, in the transaction of the step. */
export const auditSetup = (
  tx: Sql,
  caller: SetupCaller,
  at: Pick<AttemptRow, 'orgId' | 'projectId' | 'id'>,
  what: 'cancelled' | 'returned' | 'selected' | 'started',
): Promise<void> =>
  recordAudit(tx, {
    orgId: at.orgId,
    projectId: at.projectId,
    principal: caller.actor,
    action: `errtrack.setup_${what}`,
    subject: { kind: 'SetupAttempt', name: at.id },
  });
