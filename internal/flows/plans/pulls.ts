// Plans on pull requests: which are due, and one telling from beginning to end. Of one pull request one daemon tells at a
// time; what has been told stands in its row after each write, so that whoever goes on knows where.

import { relative } from 'node:path/posix';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { claimPlans, releasePlan, type PullEnd, type PullPlan } from '../../adapters/store/repositories/pull-plans.ts';
import { liveSessionsOf } from '../../adapters/store/sessions/upkeep.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { FlowContext } from '../context.ts';
import { isLanding, roomFor } from '../in-flight.ts';
import { type Note, processInHand } from '../in-hand.ts';
import { pathsReadOutside, planCommit } from '../sync/sync.ts';
import { dropOldCheck, endCheck, publishCheck } from './check.ts';
import { publishComment } from './comment.ts';
import { againAfterMs, codehostCallOf, hubOf, isPassing } from './hub.ts';
import { digestOf } from './shapes.ts';
import { leaseSeconds, PlanPublication } from './publication.ts';
import { type PullText, settledPart } from './text.ts';

const batch = 4;
/** The provider lists no more files of a pull request. */
const filePages = 30;

/** Tells what is due; answers with how many there were. */
export async function publishPlans(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  const rows = await claimPlans(ctx.db, { daemonId: ctx.daemonId, leaseSeconds, ...roomFor(ctx, 'plan', batch) });
  await processInHand(ctx, {
    kind: 'plan',
    rows,
    leaseSeconds,
    // Another head is another plan.
    idOf: ({ repositoryId, number, head }) => `${repositoryId}:${number}:${head}`,
    nameOf: ({ fullName, number }) => `${fullName}#${number}`,
    projectOf: ({ projectId }) => projectId,
    tell: (row) => tellOne(ctx, row, signal),
    park: (row) => releasePlan(ctx.db, row, { daemonId: ctx.daemonId, afterMs: null }),
  });
  return rows.length;
}

async function tellOne(ctx: FlowContext, row: PullPlan, signal: AbortSignal): Promise<Note> {
  const { repositoryId, number, head } = row;
  let afterMs: number | null = null;
  try {
    const hub = await hubOf(ctx, repositoryId);
    if (hub !== undefined) await tell(new PlanPublication(hub, row, signal));
  } catch (error) {
    if (signal.aborted || isLanding(ctx)) afterMs = 0;
    else {
      afterMs = againAfterMs(error, row.attempts);
      const level = error instanceof Fault || error instanceof RepoCondition ? 'info' : 'warn';
      ctx.runtime.log[level]({ err: error, repositoryId, number, head, afterMs }, 'plan.not_told');
    }
  }
  return () => releasePlan(ctx.db, row, { daemonId: ctx.daemonId, afterMs });
}

async function tell(publication: PlanPublication): Promise<void> {
  const { row } = publication;
  const isNew = row.toldHead !== row.head;
  if (row.ended !== null) return tellEnded(publication, row.ended);
  if (!publication.wants('comment') && !publication.wants('check')) return;
  await dropOldCheck(publication);
  const touched = await touches(publication);
  if (touched === false) return tellUntouched(publication);
  // Of a head that was told already, a check begins only where there is something else to say.
  if (isNew && touched === true) await publishCheck(publication, undefined);
  const text = await planned(publication);
  failpoint('plan.planned');
  if (touched === undefined && isEmpty(text)) return tellUntouched(publication);
  const hash = digestOf(settledPart(text));
  const isTold = !isNew && row.toldHash === hash;
  const lacks = lackedBy(publication);
  if (isTold && lacks.length === 0) return;
  if (!isNew && !isTold) await publication.save({ checkId: null, checkAnnotated: 0, checkDone: false });
  if (!isTold || lacks.includes('comment')) await publishComment(publication, text, true);
  failpoint('plan.commented');
  if (!isTold || lacks.includes('check')) await publishCheck(publication, text);
  await publication.save({ toldHead: row.head, toldHash: hash, sequence: publication.row.sequence + 1 });
  publication.hub.ctx.runtime.log.info(
    { repository: publication.hub.repository.name, number: row.number },
    'plan.told',
  );
}

/** What is wanted and was told by nothing: when the rest was, nobody wanted it, or the connection was not permitted to. */
function lackedBy(publication: PlanPublication): readonly ('comment' | 'check')[] {
  const { commentId: comment, checkId: check } = publication.row;
  const told = { comment, check };
  return (['comment', 'check'] as const).filter((what) => publication.wants(what) && told[what] === null);
}

/** Nobody waits for its plan any more: what was begun is ended, and what was said of a branch that it leaves is taken back. */
async function tellEnded(publication: PlanPublication, ended: PullEnd): Promise<void> {
  const { row } = publication;
  if (row.toldHash === ended) return;
  const isCheck = await endCheck(publication, ended);
  if (ended === 'over') {
    // Where it is opened again, the check is made anew.
    if (isCheck) await publication.save({ toldHash: ended });
    return;
  }
  if (row.commentId !== null) await publishComment(publication, { kind: 'elsewhere', head: row.head }, false);
  await publication.save({ toldHash: ended, sequence: publication.row.sequence + 1 });
}

/** It changes nothing that compile reads: a comment that says otherwise is brought up to date, and that is all. */
async function tellUntouched(publication: PlanPublication): Promise<void> {
  const { row } = publication;
  if (row.commentId === null || (row.toldHead === row.head && row.toldHash === 'untouched')) return;
  await publishComment(publication, { kind: 'untouched', head: row.head }, false);
  await publication.save({ toldHead: row.head, toldHash: 'untouched', sequence: publication.row.sequence + 1 });
}

/** Whether the pull request changes a file that compile reads; undefined where the connection may not know. */
async function touches(publication: PlanPublication): Promise<boolean | undefined> {
  const { hub, row } = publication;
  const { root } = hub.repository;
  const outside = await pathsReadOutside(hub.ctx, hub.repository);
  // What is read is another with another base: of a head that was looked at, that is looked at again.
  const touchedHead = outside.size === 0 ? row.head : `${row.head} ${digestOf([root, ...[...outside].sort()])}`;
  if (row.touchedHead === touchedHead) return row.touched ?? undefined;
  const isRead = (path: string | undefined): boolean => {
    // As the tree sees it, which may begin below the top of the repository.
    const seen = path === undefined ? '' : relative(`/${root}`, `/${path}`);
    return seen.startsWith('.svc/') || seen === '.svc' || outside.has(seen);
  };
  const codehost = codehostCallOf(hub, row.fullName, { pull_requests: 'read' });
  let touched = false;
  try {
    for (let page: number | undefined = 1; page !== undefined && page <= filePages && !touched; ) {
      const path = `/pulls/${row.number}/files`;
      const { json, nextPage } = await codehost.read({ path, query: { per_page: 100, page } });
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
  await publication.save({ touchedHead, touched });
  return touched;
}

async function planned({ hub, row, signal }: PlanPublication): Promise<PullText> {
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

function isEmpty(text: PullText): boolean {
  if (text.kind !== 'plan') return false;
  const { actions, diagnostics } = text.plan.result;
  return diagnostics.length === 0 && actions.every((one) => one.op === 'unchanged');
}
