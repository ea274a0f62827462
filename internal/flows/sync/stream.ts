// Changes of runs as they happen: a notification wakes, the rows are the truth. Every event is the run as it is by then,
// so a reader that misses one learns from the next; the id is the run's version, by which a reader resumes.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  latestVersion,
  listRuns,
  reconcileChannel,
  type ReconcileRow,
  runsChangedSince,
} from '../../adapters/store/repositories/reconciles.ts';
import type { FlowContext } from '../context.ts';
import { type RunView, showRun } from './view.ts';

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
  const { db } = ctx;
  const { projectId, repository, signal } = input;
  let wake: () => void = () => undefined;
  const stop = await db.listen(reconcileChannel, (payload) => {
    if (payload === null || payload === projectId) wake();
  });
  const sent = new Map<string, number>();
  const fresh = (run: ReconcileRow): RunEvent[] => {
    if ((sent.get(run.id) ?? 0) >= run.version) return [];
    sent.delete(run.id);
    sent.set(run.id, run.version);
    if (sent.size > sentMax) sent.delete(sent.keys().next().value ?? '');
    return [{ id: String(run.version), event: 'reconcile', data: showRun(run) }];
  };
  try {
    if (input.after === undefined) {
      const running = await listRuns(db, projectId, { repository, status: 'running', limit: 200 });
      for (const run of running.reverse()) yield* fresh(run);
    }
    let last = begin;
    while (!signal.aborted) {
      const awake = new Promise<void>((resolve) => (wake = resolve));
      for (const run of await runsChangedSince(db, projectId, Math.max(begin, last - overlap), repository)) {
        last = Math.max(last, run.version);
        yield* fresh(run);
      }
      await Promise.race([awake, sleep(pollMs, undefined, { signal }).catch(() => undefined)]);
    }
  } finally {
    await stop();
  }
}
