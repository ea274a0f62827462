// Repositories and runs as the API shows them (docs/reference/repositories.md#runs). Never a credential: `auth` names a secret or a
// connection, and an address cannot hold one.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Diagnostic } from '../../../schemas/api/common.ts';
import type { WholeRun } from '../../../schemas/api/reconciles.ts';
import {
  latestVersion,
  listRuns,
  reconcileChannel,
  type ReconcileRow,
  runsChangedSince,
  runById,
} from '../../adapters/store/repositories/reconciles.ts';
import type { Repository } from '../../adapters/store/repositories/repositories.ts';
import { excerptOf } from '../../domain/diagnostic.ts';
import type { FlowContext } from '../context.ts';
import type { SyncRequest } from '../sync/sync.ts';
import { recentMap } from '../../base/lru.ts';

/** What a person did that asked for the run, beyond a sync. */
function actOf({ request }: Pick<ReconcileRow, 'request'>) {
  const asked = request as unknown as SyncRequest;
  // An apply by hand is stored as one of its own kind.
  if (asked.kind === 'rollback' || asked.kind === 'approve') return asked.kind;
  return asked.kind === 'sync' ? asked.act : undefined;
}

/** A run as lists and the stream show it: its `actions` are those that change something. */
export function showRun(run: ReconcileRow) {
  return {
    id: run.id,
    repository: run.repository,
    commit: run.commit,
    reason: run.reason,
    ...(actOf(run) !== undefined && { act: actOf(run) }),
    status: run.status,
    ...(run.condition !== null && { condition: run.condition }),
    ...(run.detail !== null && { detail: run.detail }),
    ...(run.about !== null && { commitMessage: run.about.message, commitAuthor: run.about.author }),
    startedAt: run.startedAt.toISOString(),
    finishedAt: run.finishedAt?.toISOString() ?? null,
    stages: run.stages,
    actions: storedOf(run).actions.filter((action) => action.op !== 'unchanged'),
    diagnostics: storedOf(run).diagnostics.map(withExcerptShape),
  };
}

/** A run as a line of a table. */
export function showRunRow(run: ReconcileRow) {
  const { stages: _stages, actions: _actions, diagnostics: _diagnostics, ...row } = showRun(run);
  return row;
}

/** An excerpt as it was stored until it held more than its line: that line, and the caret from the columns. */
function withExcerptShape(one: Diagnostic): Diagnostic {
  const { excerpt, ...rest } = one as Diagnostic & { readonly excerpt?: Diagnostic['excerpt'] | string };
  if (typeof excerpt !== 'string') return one;
  const shown = excerptOf([excerpt], one.line ?? 1, one);
  return shown === undefined ? rest : { ...rest, excerpt: shown };
}

/** What a run stores as JSON is what its apply made, in the shapes of the API. */
const storedOf = (run: ReconcileRow) =>
  run as unknown as Pick<WholeRun, 'actions' | 'consequences' | 'diagnostics' | 'webhooks' | 'inputs'>;

/** One run with everything that explains it, also what stayed as it was. */
export function showWholeRun(run: ReconcileRow) {
  return {
    ...showRun(run),
    actions: storedOf(run).actions,
    consequences: storedOf(run).consequences,
    webhooks: storedOf(run).webhooks,
    inputs: storedOf(run).inputs,
  };
}

/** A repository with what the daemon knows of it. */
export function showRepository(
  repository: Repository,
  more: {
    readonly lastRun?: ReconcileRow | undefined;
    readonly agents?: number | undefined;
    readonly nextPollAt?: Date | undefined;
  },
) {
  const { state, lastRun } = { state: repository.state, lastRun: more.lastRun };
  return {
    id: repository.id,
    name: repository.name,
    url: repository.url,
    path: repository.path,
    branch: repository.branch,
    root: repository.root,
    intervalSeconds: repository.intervalSeconds,
    auth: repository.auth,
    context: repository.context,
    adopt: repository.adopt,
    guard: repository.guard,
    verify: repository.verify,
    plan: repository.plan,
    suspended: repository.suspended,
    pinnedCommit: repository.pinnedCommit,
    quarantinedCommit: repository.quarantinedCommit,
    generation: repository.generation,
    status: lastRun?.status ?? null,
    commit: state.appliedCommit,
    appliedCommit: state.appliedCommit,
    appliedAt: state.appliedAt?.toISOString() ?? null,
    seenCommit: state.seenCommit,
    condition: state.condition,
    conditionDetail: state.conditionDetail,
    conditionSince: state.conditionSince?.toISOString() ?? null,
    failures: state.failures,
    nextPollAt: more.nextPollAt?.toISOString() ?? null,
    agents: more.agents ?? 0,
    lastReconcile: lastRun === undefined ? null : showRun(lastRun),
    createdAt: repository.createdAt.toISOString(),
    updatedAt: repository.updatedAt.toISOString(),
  };
}

export type RunView = ReturnType<typeof showRun>;

export interface RunEvent {
  readonly id: string;
  readonly event: 'reconcile';
  readonly data: RunView;
}

/** How long a lost notification goes unnoticed. */
const pollMs = 1_000;
/** Versions are drawn before they commit: a later one may be seen first, and the earlier must not be missed. */
const overlap = 100;
const sentMax = 10_000;

export interface StreamInput {
  readonly projectId: string;
  readonly repository?: string | undefined;
  /** The id of the last event that the reader has; without one it begins with the runs under way. */
  readonly after?: number | undefined;
  readonly signal: AbortSignal;
}

/**
 * Changes of runs, from the moment at which this resolves: whoever reads a list afterwards misses nothing between the two.
 * Ends when the signal aborts.
 */
export async function streamRuns(ctx: FlowContext, input: StreamInput): Promise<AsyncGenerator<RunEvent>> {
  return changesFrom(ctx, input, input.after ?? (await latestVersion(ctx.db, input.projectId)));
}

async function* changesFrom(ctx: FlowContext, input: StreamInput, begin: number): AsyncGenerator<RunEvent> {
  const db = ctx.db.looks;
  const { projectId, repository, signal } = input;
  let wake: () => void = () => undefined;
  const stop = await db.listen(reconcileChannel, (payload) => {
    if (payload === null || payload === projectId) wake();
  });
  const sent = recentMap<string, number>(sentMax);
  const fresh = (run: ReconcileRow): RunEvent[] => {
    if ((sent.get(run.id) ?? 0) >= run.version) return [];
    sent.set(run.id, run.version);
    return [{ id: String(run.version), event: 'reconcile', data: showRun(run) }];
  };
  try {
    if (input.after === undefined) {
      const { rows } = await listRuns(db, projectId, { repository, status: 'running', limit: 200 });
      for (const run of rows.reverse()) yield* fresh(run);
    }
    let last = begin;
    while (!signal.aborted) {
      const awake = new Promise<void>((resolve) => (wake = resolve));
      for (const { id, version } of await runsChangedSince(
        db,
        projectId,
        Math.max(begin, last - overlap),
        repository,
      )) {
        last = Math.max(last, version);
        if ((sent.get(id) ?? 0) >= version) continue;
        // One at a time, each as its reader takes it: runs may be large. One that has changed since comes with its change.
        const run = await runById(db, projectId, id);
        if (run?.version === version) yield* fresh(run);
      }
      await Promise.race([awake, sleep(pollMs, undefined, { signal }).catch(() => undefined)]);
    }
  } finally {
    await stop();
  }
}
