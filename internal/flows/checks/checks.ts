// Checks on pull requests while they live (docs/reference/checks.md#states): a session begins and concludes them, deadlines conclude what
// nobody did, and the code host is told. What a call leads to is decided in core/session, under the lock of the row, and
// the clock comes first: a late call meets the state that the deadline has made, also before anybody swept.
// It never begins a cycle (routing does, adapters/store/checks.ts) and never calls a code host but through its port.

import { type AuditEntry, recordAudits } from '../../adapters/store/tenancy/audit.ts';
import {
  type CheckRow,
  type CheckWrite,
  claimOverdueChecks,
  claimUnreported,
  type ClaimedCheck,
  listChecks,
  lockCheck,
  nextCheckDeadline,
  type ReportAnswer,
  writeChecks,
  writeReports,
} from '../../adapters/store/sessions/checks.ts';
import { failpoint } from '../../base/failpoint.ts';
import { type SessionCheck, type CheckSignal, nextDeadlineOf, signalCheck } from '../../core/session/session.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { roomFor } from '../in-flight.ts';
import { endedTheProcess, processInHand } from '../in-hand.ts';
import type { CheckPort, CheckReport, Reported } from '../ports.ts';

const limits = { sweep: 500, reports: 20, titleCharacters: 256, summaryCharacters: 65_535 } as const;
/** Whoever starts a deadline tells; a notification may be lost. */
const pauseMs = { sweep: 5_000, report: 1_000 } as const;
/** How long a claim to tell the code host lasts. */
const leaseSeconds = 60;

type Locked = CheckRow & { readonly orgId: string };

/** Begins the session's check of that name. Throws Fault `not_found`, or `conflict` where it cannot begin. */
export function beginCheck(ctx: FlowContext, sessionId: string, name: string): Promise<CheckRow> {
  return signalled(ctx, sessionId, name, { kind: 'begin' });
}

export interface Conclusion {
  readonly conclusion: 'success' | 'failure';
  /** 1 to 256 characters. */
  readonly title: string;
  /** 1 to 65,535 characters. */
  readonly summary: string;
}

/** Concludes the session's check of that name. Throws Fault `invalid`, `not_found`, or `conflict`. */
export function concludeCheck(
  ctx: FlowContext,
  sessionId: string,
  name: string,
  { conclusion, title, summary }: Conclusion,
): Promise<CheckRow> {
  const texts = [
    ['title', title, limits.titleCharacters],
    ['summary', summary, limits.summaryCharacters],
  ] as const;
  for (const [what, text, most] of texts) {
    if (text.trim() === '' || [...text].length > most) {
      throw new Fault('invalid', 'invalid-check', `The ${what} of a check has 1 to ${most} characters.`);
    }
  }
  return signalled(ctx, sessionId, name, { kind: conclusion, title: storable(title), summary: storable(summary) });
}

/** Text as the database can hold it. */
const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '\uFFFD');

async function signalled(ctx: FlowContext, sessionId: string, name: string, signal: CheckSignal): Promise<CheckRow> {
  const { row, refused } = await ctx.db.tx(async (tx) => {
    const now = ctx.runtime.now();
    // Names are all that a session says: one that is over on one pull request may be open on another.
    const locked = await lockCheck(tx, sessionId, { name, state: signal.kind === 'begin' ? 'queued' : 'in_progress' });
    if (locked === undefined) return { row: undefined, refused: null };
    const result = signalCheck(locked.spec, checkOf(locked), signal, now.getTime());
    const moved = { ...locked, ...fieldsOf(result.check, locked) };
    if (result.changed) {
      await writeChecks(tx, now, [moved]);
      await recordAudits(tx, [auditOf(moved, result.refused === null ? sessionId : null)]);
      failpoint('checks.before-commit');
    }
    return { row: moved, refused: result.refused };
  });
  if (row === undefined) throw await unknownCheck(ctx, sessionId, name);
  if (refused !== null) throw new Fault('conflict', 'check-refused', refused);
  ctx.runtime.log.info({ check: row.name, checkId: row.id, sessionId, state: row.state }, 'check.moved');
  return row;
}

async function unknownCheck(ctx: FlowContext, sessionId: string, name: string): Promise<Fault> {
  const names = [...new Set((await listChecks(ctx.db, sessionId)).map((row) => row.name))];
  const known = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`;
  return new Fault('not_found', 'check-not-found', `This session has no check ${JSON.stringify(name)}; ${known}.`);
}

/** The row as the state machine reads it. */
function checkOf(row: CheckRow): SessionCheck {
  const { cycle, headSha, state } = row;
  if (state === 'superseded') return { cycle, headSha, state };
  if (state === 'concluded') {
    const { conclusion, title, summary, timedOut } = row;
    return {
      cycle,
      headSha,
      state,
      conclusion: conclusion ?? 'skipped',
      title: title ?? '',
      summary: summary ?? '',
      timedOut,
    };
  }
  const declared = state === 'queued' ? row.spec.beginTimeout : row.spec.completeTimeout;
  const deadline = row.deadlineAt && declared ? { atMs: row.deadlineAt.getTime(), ...declared } : null;
  return { cycle, headSha, state, deadline };
}

/** The state machine's answer as columns. */
function fieldsOf(check: SessionCheck, row: CheckRow): CheckWrite {
  const deadline = nextDeadlineOf(check);
  const none = { conclusion: null, title: row.title, summary: row.summary, timedOut: row.timedOut };
  const { id } = row;
  const deadlineAt = deadline === null ? null : new Date(deadline);
  if (check.state !== 'concluded') return { id, state: check.state, deadlineAt, ...none };
  const { state, conclusion, title, summary, timedOut } = check;
  return { id, state, deadlineAt, conclusion, title, summary, timedOut };
}

/** `sessionId`: who did it; null: the clock. */
function auditOf(row: Locked, sessionId: string | null): AuditEntry {
  const principal =
    sessionId === null
      ? { kind: 'system', id: null, name: 'check-deadlines' }
      : { kind: 'session', id: sessionId, name: row.agent };
  return {
    orgId: row.orgId,
    projectId: row.projectId,
    principal,
    action: row.state === 'concluded' ? 'check.concluded' : 'check.begun',
    subject: { kind: 'check', name: row.name },
    detail: {
      checkId: row.id,
      agent: row.agent,
      target: row.targetKey,
      cycle: row.cycle,
      ...(row.state === 'concluded' && { conclusion: row.conclusion, title: row.title, timedOut: row.timedOut }),
    },
  };
}

/** Concludes every check whose deadline has passed; answers with the milliseconds until the next look. */
export async function sweepChecks(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  for (let claimed = 1; claimed > 0 && !signal.aborted; ) {
    claimed = await ctx.db.tx(async (tx) => {
      const now = ctx.runtime.now();
      const overdue = await claimOverdueChecks(tx, now, limits.sweep);
      const moved = overdue.map((row) => {
        const { check } = signalCheck(row.spec, checkOf(row), { kind: 'tick' }, now.getTime());
        return { ...row, ...fieldsOf(check, row) };
      });
      await writeChecks(tx, now, moved);
      await recordAudits(
        tx,
        moved.map((row) => auditOf(row, null)),
      );
      if (moved.length > 0) failpoint('checks.before-commit');
      return moved.length;
    });
    if (claimed > 0) ctx.runtime.log.info({ checks: claimed }, 'check.timed_out');
  }
  const next = await nextCheckDeadline(ctx.db);
  if (next === null) return pauseMs.sweep;
  return Math.min(pauseMs.sweep, Math.max(100, next.getTime() - ctx.runtime.now().getTime()));
}

/**
 * Tells the code host what it does not know yet, a batch at most; answers with the milliseconds until the next look. A
 * claim whose holder dies is told again: the port finds what it has made by the check's own id.
 */
export async function reportChecks(ctx: FlowContext, port: CheckPort): Promise<number> {
  const claimed = await claimUnreported(ctx.db, {
    daemonId: ctx.daemonId,
    leaseSeconds,
    ...roomFor(ctx, 'check', limits.reports),
  });
  failpoint('checks.claimed');
  const write = async ({ claimedUntil }: ClaimedCheck, answer: ReportAnswer): Promise<void> => {
    failpoint('checks.reported');
    await writeReports(ctx.db, [answer], claimedUntil);
    if ('error' in answer) ctx.runtime.log.warn({ checkId: answer.id, reason: answer.error }, 'check.report_failed');
  };
  await processInHand(ctx, {
    kind: 'check',
    rows: claimed,
    leaseSeconds,
    // What has changed since is another report.
    idOf: ({ id, changes }) => `${id}:${changes}`,
    nameOf: ({ name }) => name,
    projectOf: ({ projectId }) => projectId,
    tell: async (row) => {
      const { id, changes: seen } = row;
      // Nobody outside has ever heard of it.
      const isUnheard = row.state === 'superseded' && row.externalId === null;
      const answer = isUnheard ? { id, seen, externalId: null } : answerOf(row, await port.report(reportOf(row)));
      return () => write(row, answer);
    },
    park: (row) => write(row, { id: row.id, seen: row.changes, error: endedTheProcess }),
  });
  return claimed.length === limits.reports ? 0 : pauseMs.report;
}

function reportOf(row: CheckRow): CheckReport {
  const { id, targetKey, headSha, externalId, state, conclusion, title, summary } = row;
  const { displayName, description } = row.spec;
  const connectionId = row.connectionId ?? '';
  return {
    id,
    connectionId,
    targetKey,
    headSha,
    externalId,
    displayName,
    description,
    state,
    conclusion,
    title,
    summary,
  };
}

function answerOf({ id, changes: seen }: CheckRow, reported: Reported): ReportAnswer {
  if (reported.outcome === 'done') return { id, seen, externalId: reported.externalId };
  if (reported.outcome === 'failed') return { id, seen, error: reported.reason };
  return { id, seen, afterMs: reported.afterMs };
}
