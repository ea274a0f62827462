// Live sessions whose agent is gone are archived: nothing can be delivered to them any more, and nobody would end them.

import { unlessBusy } from '../../adapters/store/routing/project-lock.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { orphanedSessions } from '../../adapters/store/sessions/sessions.ts';
import type { FlowContext } from '../context.ts';
import { endSession } from './records.ts';

const batch = 100;

/** Archives them with the reason `agent-deleted`, a project at a time; one that is busy is left to the next turn. Answers with how many there were. */
export async function archiveOrphans(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  let archived = 0;
  const busy = new Set<string>();
  for (let found = batch; found === batch && !signal.aborted; ) {
    const orphans = await orphanedSessions(ctx.db, batch, [...busy]);
    found = orphans.length;
    for (const [projectId, sessions] of Map.groupBy(orphans, (one) => one.projectId)) {
      const archive = async (tx: RoutingTx): Promise<number> => {
        let count = 0;
        for (const { id } of sessions) {
          if (await endSession(ctx, tx, id, 'archived', 'agent-deleted')) count += 1;
        }
        return count;
      };
      const count = await unlessBusy(ctx.db, projectId, archive);
      // What is busy now is found again by the next turn.
      if (count === undefined) busy.add(projectId);
      archived += count ?? 0;
    }
  }
  if (archived > 0) ctx.runtime.log.info({ sessions: archived }, 'session.orphans_archived');
  return archived;
}
