// Writes a plan: one statement per table and kind of change, whatever the number of rows. Order matters: what others
// are named by comes first (agents, generated resources, endpoints), what names them afterwards.

import { deleteAgents, writeAgents, writeAgentSources } from '../../adapters/store/resources/agents.ts';
import { type AssetRow, insertAssets } from '../../adapters/store/resources/assets.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { writeEndpoints } from '../../adapters/store/resources/endpoints.ts';
import { deleteGenerated, deleteUsers, writeGenerated, writeUsers } from '../../adapters/store/resources/generated.ts';
import { deleteSchedules, writeSchedules } from '../../adapters/store/resources/schedules.ts';
import { deleteTriggers, writeTriggers } from '../../adapters/store/resources/triggers.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { Writes } from '../../core/plan/types.ts';
import { endpointSlug } from './apply-slug.ts';
import type { ApplyRequest } from './apply-types.ts';

/** Writes every row that differs; no statement at all for a table in which nothing does. */
export async function writePlan(tx: Sql, request: ApplyRequest, writes: Writes, now: Date): Promise<void> {
  const { projectId } = request;
  await deleteAgents(tx, writes.agentDeletes);
  await writeGenerated(tx, projectId, writes.generated, now);
  await writeAgents(tx, {
    projectId,
    repositoryId: request.owner.kind === 'repository' ? request.owner.repositoryId : null,
    now,
    reconcileId: request.operationId,
    commit: request.commit,
    agents: writes.agents,
  });
  await writeAgentSources(tx, writes.sources);
  failpoint('apply.agents');
  await deleteUsers(tx, writes.userDeletes);
  await writeUsers(tx, projectId, writes.users);
  await deleteGenerated(tx, writes.generatedDeletes);
  const endpoints = writes.endpoints.map((item) => ({ ...item, slug: endpointSlug(projectId, item.name) }));
  await writeEndpoints(tx, projectId, endpoints, now);
  await deleteTriggers(tx, writes.triggerDeletes);
  await writeTriggers(tx, projectId, writes.triggers);
  await deleteSchedules(tx, writes.scheduleDeletes);
  await writeSchedules(tx, projectId, writes.schedules);
  failpoint('apply.triggers');
  await insertAssets(tx, projectId, await assetRows(request, writes));
}

async function assetRows(request: ApplyRequest, writes: Writes): Promise<AssetRow[]> {
  const rows: AssetRow[] = [];
  for (const { sha256, path, mediaType } of writes.assets) {
    const bytes = await request.fileBytes(path);
    if (bytes === undefined) throw new Error(`the tree has no bytes for ${path}, which compile read`);
    rows.push({ sha256, mediaType, bytes });
  }
  return rows;
}
