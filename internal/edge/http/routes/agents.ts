// Stored agents and their revisions (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/agents.ts';
import { type AgentRow, agentByName, listAgents, listRevisions } from '../../../adapters/store/resources/agents.ts';
import type { FlowContext, ProjectRef } from '../../../flows/context.ts';
import { spendingOf } from '../../../flows/sessions/sessions.ts';
import { deleteAgent } from '../../../flows/sync/sync.ts';
import { Fault } from '../../../domain/fault.ts';
import type { AgentSpec } from '../../../domain/spec.ts';
import { pageOf, readNumberPage, readTextPage } from '../page.ts';
import { noContent, ok, type Route, serve } from '../route.ts';
import { ownerOf } from './shapes.ts';

/** What is stored is what compile gave. */
const storedSpec = (spec: unknown) => spec as AgentSpec;

const show = (row: AgentRow) => ({
  name: row.name,
  resourceId: row.id,
  revision: row.revision,
  owner: ownerOf(row.repository),
  source: row.source,
  spec: storedSpec(row.spec),
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

async function requireAgent(ctx: FlowContext, where: ProjectRef, name: string): Promise<AgentRow> {
  const row = await agentByName(ctx.db, where.id, name);
  if (row === undefined) throw new Fault('not_found', 'agent-not-found', `There is no agent ${name}.`);
  return row;
}

export const agentRoutes: readonly Route[] = [
  serve(api.listAgents, async ({ ctx, project: where, query }) => {
    const { limit, after } = readTextPage(query);
    const rows = await listAgents(ctx.db, where.id, { limit: limit + 1, ...(after !== undefined && { after }) });
    return ok(pageOf(rows, limit, (row) => [row.name], show));
  }),
  serve(api.getAgent, async ({ ctx, project: where, params }) => ok(show(await requireAgent(ctx, where, params.name)))),
  serve(api.getAgentUsage, async ({ ctx, project: where, params }) => {
    const { id: agentId } = await requireAgent(ctx, where, params.name);
    return ok(await spendingOf(ctx, { agentId }));
  }),
  serve(api.listAgentRevisions, async ({ ctx, project: where, params, query }) => {
    const { limit, ...page } = readNumberPage(query);
    const row = await requireAgent(ctx, where, params.name);
    const rows = await listRevisions(ctx.db, row.id, { limit: limit + 1, ...page });
    return ok(
      pageOf(
        rows,
        limit,
        (item) => [item.revision],
        (item) => ({ ...item, spec: storedSpec(item.spec) }),
      ),
    );
  }),
  serve(api.deleteAgent, async ({ ctx, project: where, params, actor }) => {
    await deleteAgent(ctx, where, params.name, actor);
    return noContent;
  }),
];
