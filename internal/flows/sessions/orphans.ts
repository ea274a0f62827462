// Live sessions whose agent is gone are archived: nothing can be delivered to them any more, and nobody would end them.

import type { Sql } from '../../adapters/store/store.ts';
import { lockRouting } from '../../adapters/store/routing/routing.ts';
import { orphanedSessions } from '../../adapters/store/sessions/sessions.ts';
import type { FlowContext } from '../context.ts';
import { endSession } from './records.ts';

const batch = 100;

/** Archives them with the reason `agent-deleted`, a project at a time; answers with how many there were. */
export async function archiveOrphans(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  let archived = 0;
  for (let found = batch; found === batch && !signal.aborted; ) {
    const orphans = await orphanedSessions(ctx.db, batch);
    found = orphans.length;
    for (const [projectId, sessions] of Map.groupBy(orphans, (one) => one.projectId)) {
      const archive = async (tx: Sql): Promise<number> => {
        const locked = await lockRouting(tx, projectId);
        let count = 0;
        for (const { id } of sessions) {
          if (await endSession(ctx, locked, id, 'archived', 'agent-deleted')) count += 1;
        }
        return count;
      };
      archived += await ctx.db.tx(archive);
    }
  }
  if (archived > 0) ctx.runtime.log.info({ sessions: archived }, 'session.orphans_archived');
  return archived;
}
