// The status of a commit: `pending` from the beginning of its sync, then what came of it. Told from the latest run of the
// commit, so that a late or repeated wish says what is true by then; words that the host shows already are not sent again.

import {
  claimStatuses,
  type CommitStatusRow,
  forgetStatuses,
  releaseStatus,
  statusTold,
} from '../../adapters/store/repositories/commit-statuses.ts';
import { forgetPulls } from '../../adapters/store/repositories/pull-plans.ts';
import { latestRunAt, type ReconcileRow } from '../../adapters/store/repositories/reconciles.ts';
import { failpoint } from '../../base/failpoint.ts';
import { maskCredentials } from '../../domain/credential.ts';
import { Fault } from '../../domain/fault.ts';
import { digestOf } from './shapes.ts';
import type { FlowContext } from '../context.ts';
import { isLanding, roomFor } from '../in-flight.ts';
import { type Note, processInHand } from '../in-hand.ts';
import { fullNameOf, statusText } from '../sync/sync.ts';
import { againAfterMs, contextName, type Hub, hubOf, writeOnce } from './hub.ts';
import { idAndUrl } from '../../adapters/providers/codehost/codehost.ts';

const batch = 20;
const leaseSeconds = 120;
const descriptionMax = 140;
/** Until it is looked whether a run that is under way has been overtaken: then nobody else says how it ended. */
const lookMs = 30_000;
const dayMs = 24 * 60 * 60 * 1_000;
const keptMs = 30 * dayMs;
const pullsKeptMs = 365 * dayMs;

interface Said {
  readonly state: 'pending' | 'success' | 'failure' | 'error';
  readonly description: string;
}

/** Tells what is due; answers with how many there were. */
export async function publishStatuses(ctx: FlowContext): Promise<number> {
  const rows = await claimStatuses(ctx.db, { daemonId: ctx.daemonId, leaseSeconds, ...roomFor(ctx, 'status', batch) });
  await processInHand(ctx, {
    kind: 'status',
    rows,
    leaseSeconds,
    idOf: ({ repositoryId, commit }) => `${repositoryId}:${commit}`,
    nameOf: ({ commit }) => commit,
    projectOf: ({ projectId }) => projectId,
    tell: (row) => tellOne(ctx, row),
    park: (row) => releaseStatus(ctx.db, row, { daemonId: ctx.daemonId, afterMs: null }),
  });
  return rows.length;
}

async function tellOne(ctx: FlowContext, row: CommitStatusRow): Promise<Note> {
  let afterMs: number | null = null;
  try {
    const hub = await hubOf(ctx, row.repositoryId);
    if (hub !== undefined && fullNameOf(hub.repository).includes('/')) afterMs = await tell(hub, row);
  } catch (error) {
    afterMs = isLanding(ctx) ? 0 : againAfterMs(error, row.attempts);
    const level = error instanceof Fault ? 'info' : 'warn';
    ctx.runtime.log[level]({ err: error, commit: row.commit, afterMs }, 'status.not_told');
  }
  return () => releaseStatus(ctx.db, row, { daemonId: ctx.daemonId, afterMs });
}

/** Brings the host to what is true now; answers when to look again, null for never. */
async function tell(hub: Hub, row: CommitStatusRow): Promise<number | null> {
  const run = await latestRunAt(hub.ctx.db, row.repositoryId, row.commit);
  if (run === undefined) {
    // What said that it had begun was overtaken, and ends here.
    if (row.state === 'pending' && row.runId !== null) {
      await send(hub, row, row.runId, { state: 'error', description: 'overtaken by a newer sync' });
    }
    return null;
  }
  const isNew = row.runId !== run.id;
  const isRunning = run.status === 'running';
  const said: Said | undefined = isRunning ? undefined : cut(statusText(run));
  const isShown = said !== undefined && row.state === said.state && row.description === said.description;
  if (isShown) return null;
  if (isNew) await send(hub, row, run.id, { state: 'pending', description: 'the sync has begun' }, run);
  if (said === undefined) return lookMs;
  await send(hub, row, run.id, said, run);
  return null;
}

const cut = ({ state, description }: Said): Said => {
  const points = [...maskCredentials(description)];
  const short = points.length > descriptionMax ? [...points.slice(0, descriptionMax - 1), '…'] : points;
  return { state, description: short.join('') };
};

async function send(hub: Hub, row: CommitStatusRow, runId: string, said: Said, run?: ReconcileRow): Promise<void> {
  const { ctx, project, repository } = hub;
  const context = contextName(hub);
  const { commit } = row;
  const { state, description } = said;
  const where = `${ctx.baseUrl}/${project.orgSlug}/${project.slug}/reconciles/${runId}`;
  const body = { state, context, description, ...(run !== undefined && { target_url: where }) };
  const key = `status:${repository.id}:${commit}:${runId}:${state}:${digestOf(description)}:${Math.floor(row.attempts / 2)}`;
  const of = {
    alias: 'status',
    tool: 'create_commit_status',
    key,
    input: digestOf([state, context, description]),
  } as const;
  await writeOnce(hub, { ...of, fullName: fullNameOf(repository), permissions: { statuses: 'write' } }, (codehost) =>
    codehost.write(
      { method: 'POST', path: `/statuses/${commit}`, body },
      { probe: { kind: 'status', commit, context, state, description: digestOf(description) }, shape: idAndUrl },
    ),
  );
  failpoint('status.sent');
  const told = { runId, state, description };
  const isMine = await statusTold(ctx.db, row, told, { daemonId: ctx.daemonId, leaseSeconds });
  if (!isMine) throw new Fault('unavailable', 'busy', 'another daemon tells this status now');
}

/** Forgets what was told long ago, of commits and of pull requests. */
export async function forgetToldStatuses(ctx: FlowContext): Promise<void> {
  await forgetPulls(ctx.db, new Date(ctx.runtime.now().getTime() - pullsKeptMs), 1_000);
  await forgetStatuses(ctx.db, new Date(ctx.runtime.now().getTime() - keptMs), 1_000);
}
