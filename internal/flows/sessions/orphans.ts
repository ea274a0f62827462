// What an agent leaves when it is gone: its live sessions are archived, since nothing can be delivered to them any more and
// nobody would end them, and its claims are released, since nobody can take them over; so is what waits for the one that
// replaces a failed session, once none is to come.

import { orphanedClaims } from '../../adapters/store/routing/binding-reads.ts';
import { unlessBusy } from '../../adapters/store/routing/project-lock.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { orphanedSessions } from '../../adapters/store/sessions/sessions.ts';
import { isConnectionLoss, type Sql } from '../../adapters/store/store.ts';
import type { FlowContext } from '../context.ts';
import { logTurnFailed } from '../turn-failed.ts';
import { endSession, unbindSession } from './records.ts';

const batch = 100;

interface Orphan {
  readonly id: string;
  readonly projectId: string;
}
interface Kind {
  readonly find: (sql: Sql, limit: number, except: readonly string[]) => Promise<readonly Orphan[]>;
  /** False where somebody was faster. */
  readonly end: (ctx: FlowContext, tx: RoutingTx, id: string) => Promise<boolean>;
}

const sessions: Kind = {
  find: orphanedSessions,
  end: (ctx, tx, id) => endSession(ctx, tx, id, 'archived', 'agent-deleted'),
};
const claims: Kind = {
  find: orphanedClaims,
  end: async (ctx, tx, id) => (await unbindSession(ctx, tx, { by: { id }, authority: 'operator' })) !== undefined,
};

/**
 * Archives the sessions with the reason `agent-deleted` and releases the claims, those of the sessions too. Answers with how
 * many sessions there were.
 */
export async function archiveOrphans(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  const archived = await endAll(ctx, sessions, signal);
  const released = await endAll(ctx, claims, signal);
  if (archived + released > 0)
    ctx.runtime.log.info({ sessions: archived, claims: released }, 'session.orphans_archived');
  return archived;
}

/** A project at a time; one that is busy is left to the next turn, and so is one where something cannot be ended, which is told. */
async function endAll(ctx: FlowContext, { find, end }: Kind, signal: AbortSignal): Promise<number> {
  let ended = 0;
  const busy = new Set<string>();
  for (let found = batch; found === batch && !signal.aborted; ) {
    const orphans = await find(ctx.db, batch, [...busy]);
    found = orphans.length;
    for (const [projectId, own] of Map.groupBy(orphans, (one) => one.projectId)) {
      const act = async (tx: RoutingTx): Promise<number> => {
        let count = 0;
        for (const { id } of own) if (await end(ctx, tx, id)) count += 1;
        return count;
      };
      const count = await unlessBusy(ctx.db, projectId, act).catch((error: unknown) => {
        if (isConnectionLoss(error)) throw error;
        logTurnFailed(ctx, 'session.orphans_failed', error, { service: projectId });
        return undefined;
      });
      // What is busy now, or cannot be ended, is found again by the next turn.
      if (count === undefined) busy.add(projectId);
      ended += count ?? 0;
    }
  }
  return ended;
}
