// Plans on pull requests: which are due, and one telling from beginning to end. Of one pull request one daemon tells at a
// time; what has been told stands in its row after each write, so that whoever goes on knows where.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import {
  claimPlans,
  leavePlan,
  movePlan,
  type PlanPatch,
  type PullPlan,
} from '../../adapters/store/repositories/pull-plans.ts';
import { liveSessionsOf } from '../../adapters/store/sessions/upkeep.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { FlowContext } from '../context.ts';
import { pathsReadOutside, planCommit } from '../sync/sync.ts';
import { bringCheck, dropOldCheck } from './check.ts';
import { bringComment } from './comment.ts';
import { againAfterMs, deskOf, type Hub, hubOf, isPassing } from './hub.ts';
import { digestOf } from './shapes.ts';
import { type PullText, settledPart } from './text.ts';

const batch = 4;
const leaseSeconds = 180;
/** The provider lists no more files of a pull request. */
const filePages = 30;

/** Tells what is due; answers with how many there were. */
export async function tellPlans(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  const rows = await claimPlans(ctx.db, { daemonId: ctx.daemonId, leaseSeconds, limit: batch });
  await Promise.all(rows.map((row) => tellOne(ctx, row, signal)));
  return rows.length;
}

async function tellOne(ctx: FlowContext, row: PullPlan, signal: AbortSignal): Promise<void> {
  const { repositoryId, number, head } = row;
  let afterMs: number | null = null;
  try {
    const hub = await hubOf(ctx, repositoryId);
    if (hub !== undefined) await new Telling(hub, row, signal).run();
  } catch (error) {
    if (signal.aborted) afterMs = 0;
    else {
      afterMs = againAfterMs(error, row.attempts);
      const level = error instanceof Fault || error instanceof RepoCondition ? 'info' : 'warn';
      ctx.runtime.log[level]({ err: error, repositoryId, number, head, afterMs }, 'plan.not_told');
    }
  }
  await leavePlan(ctx.db, row, { daemonId: ctx.daemonId, afterMs });
}

/** One telling: the row as it is by now, and what is written into it. */
export class Telling {
  readonly hub: Hub;
  readonly signal: AbortSignal;
  row: PullPlan;

  constructor(hub: Hub, row: PullPlan, signal: AbortSignal) {
    this.hub = hub;
    this.row = row;
    this.signal = signal;
  }

  /** Throws Fault `busy` where another daemon has taken over. */
  async save(patch: PlanPatch): Promise<void> {
    const { ctx } = this.hub;
    if (!(await movePlan(ctx.db, this.row, patch, { daemonId: ctx.daemonId, leaseSeconds }))) {
      throw new Fault('unavailable', 'busy', 'another daemon tells this plan now');
    }
    this.row = { ...this.row, ...patch };
  }

  /** Of the next write of a kind; a repeat of it after a crash has the same. */
  keyOf(what: string, input: string): string {
    const { repositoryId, number, sequence, attempts } = this.row;
    return `plan:${repositoryId}:${number}:${what}:${sequence}:${input}:${Math.floor(attempts / 2)}`;
  }

  /** What the settings want. */
  wants(what: 'comment' | 'check'): boolean {
    return this.hub.repository.plan[what] !== false;
  }

  async run(): Promise<void> {
    const { row } = this;
    const isNew = row.toldHead !== row.head;
    if (!this.wants('comment') && !this.wants('check')) return;
    await dropOldCheck(this);
    const touched = await this.#touches();
    if (touched === false) return this.#untouched();
    // Of a head that was told already, a check begins only where there is something else to say.
    if (isNew && touched === true) await bringCheck(this, undefined);
    const text = await this.#plan();
    failpoint('plan.planned');
    if (touched === undefined && isEmpty(text)) return this.#untouched();
    const hash = digestOf(settledPart(text));
    if (!isNew && row.toldHash === hash) return;
    if (!isNew) await this.save({ checkId: null, checkAnnotated: 0, checkDone: false });
    await bringComment(this, text, true);
    failpoint('plan.commented');
    await bringCheck(this, text);
    await this.save({ toldHead: row.head, toldHash: hash, sequence: this.row.sequence + 1 });
    this.hub.ctx.runtime.log.info({ repository: this.hub.repository.name, number: row.number }, 'plan.told');
  }

  /** It changes nothing that compile reads: a comment that says otherwise is brought up to date, and that is all. */
  async #untouched(): Promise<void> {
    const { row } = this;
    if (row.commentId === null || (row.toldHead === row.head && row.toldHash === 'untouched')) return;
    await bringComment(this, { kind: 'untouched', head: row.head }, false);
    await this.save({ toldHead: row.head, toldHash: 'untouched', sequence: this.row.sequence + 1 });
  }

  /** Whether the pull request changes a file that compile reads; undefined where the connection may not know. */
  async #touches(): Promise<boolean | undefined> {
    const { hub, row } = this;
    if (row.touchedHead === row.head) return row.touched ?? undefined;
    const { root } = hub.repository;
    const prefix = root === '' ? '' : `${root}/`;
    const outside = await pathsReadOutside(hub.ctx, hub.repository);
    const isRead = (path: string | undefined): boolean =>
      path?.startsWith(prefix) === true &&
      (path.startsWith(`${prefix}.svc/`) || path === `${prefix}.svc` || outside.has(path.slice(prefix.length)));
    const desk = deskOf(hub, row.fullName, { pull_requests: 'read' });
    let touched = false;
    try {
      for (let page: number | undefined = 1; page !== undefined && page <= filePages && !touched; ) {
        const path = `/pulls/${row.number}/files`;
        const { json, nextPage } = await desk.read({ path, query: { per_page: 100, page } });
        const names = listAt(json).flatMap((one) => [
          textAt(objectAt(one)['filename']),
          textAt(objectAt(one)['previous_filename']),
        ]);
        touched = names.some(isRead);
        page = nextPage;
      }
    } catch (error) {
      if (error instanceof Fault && error.code === 'permission-missing') return undefined;
      throw error;
    }
    await this.save({ touchedHead: row.head, touched });
    return touched;
  }

  async #plan(): Promise<PullText> {
    const { hub, row, signal } = this;
    const { ctx } = hub;
    const { head } = row;
    try {
      const plan = await planCommit(ctx, { repositoryId: row.repositoryId, commit: head, signal });
      if (plan === undefined || plan.result.status === 'superseded') {
        throw new Fault('unavailable', 'busy', 'the settings of the repository have changed');
      }
      const { actions } = plan.result;
      const gone = actions.filter((one) => one.kind === 'Agent' && one.op === 'delete').map((one) => one.name);
      const sessions = await liveSessionsOf(ctx.db, hub.repository.projectId, gone);
      return { kind: 'plan', head, plan, sessions };
    } catch (error) {
      if (!(error instanceof RepoCondition) || (isPassing(error) && againAfterMs(error, row.attempts) !== null)) {
        throw error;
      }
      return { kind: 'unread', head, condition: error.condition, detail: error.detail };
    }
  }
}

function isEmpty(text: PullText): boolean {
  if (text.kind !== 'plan') return false;
  const { actions, diagnostics } = text.plan.result;
  return diagnostics.length === 0 && actions.every((one) => one.op === 'unchanged');
}
