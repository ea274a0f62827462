// Stored agents and their revisions (contract, section 3).

import * as v from 'valibot';
import { type AgentRow, agentByName, listAgents, listRevisions } from '../../../adapters/store/resources/agents.ts';
import type { FlowContext, ProjectRef } from '../../../flows/context.ts';
import { spendingOf } from '../../../flows/sessions/sessions.ts';
import { deleteAgent } from '../../../flows/sync/sync.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, pageQuery, pageSchema, readNumberPage, readTextPage } from '../page.ts';
import { defineRoute, noContent, ok, type Route } from '../route.ts';
import { spending } from './session-shapes.ts';
import { json, owner, ownerOf, project, source, timestamp } from './shapes.ts';

const agent = v.object({
  name: v.string(),
  resourceId: v.string(),
  revision: v.number(),
  owner,
  source,
  spec: json,
  createdAt: timestamp,
  updatedAt: timestamp,
});
const revision = v.object({
  revision: v.number(),
  spec: json,
  commit: v.nullable(v.string()),
  reconcileId: v.nullable(v.string()),
  createdAt: timestamp,
});

const show = (row: AgentRow) => ({
  name: row.name,
  resourceId: row.id,
  revision: row.revision,
  owner: ownerOf(row.repository),
  source: row.source,
  spec: row.spec,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

async function requireAgent(ctx: FlowContext, where: ProjectRef, name: string): Promise<AgentRow> {
  const row = await agentByName(ctx.db, where.id, name);
  if (row === undefined) throw new Fault('not_found', 'agent-not-found', `There is no agent ${name}.`);
  return row;
}

const read = { method: 'GET', scope: 'project', permission: 'agents:read' } as const;

export const agentRoutes: readonly Route[] = [
  defineRoute({
    ...read,
    path: `${project}/agents`,
    summary: 'Stored agents, by name',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(agent) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, after } = readTextPage(query);
      const rows = await listAgents(ctx.db, where.id, { limit: limit + 1, ...(after !== undefined && { after }) });
      return ok(pageOf(rows, limit, (row) => [row.name], show));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/agents/:name`,
    summary: 'One stored agent',
    answers: { 200: agent },
    handle: async ({ ctx, project: where, params }) => ok(show(await requireAgent(ctx, where, params['name'] ?? ''))),
  }),
  defineRoute({
    ...read,
    path: `${project}/agents/:name/usage`,
    summary: 'What the model calls of its sessions have used this UTC day, this month and ever',
    answers: { 200: spending },
    handle: async ({ ctx, project: where, params }) => {
      const { id: agentId } = await requireAgent(ctx, where, params['name'] ?? '');
      return ok(await spendingOf(ctx, { agentId }));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/agents/:name/revisions`,
    summary: 'Every spec that an agent has had, newest first',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(revision) },
    handle: async ({ ctx, project: where, params, query }) => {
      const { limit, ...page } = readNumberPage(query);
      const row = await requireAgent(ctx, where, params['name'] ?? '');
      const rows = await listRevisions(ctx.db, row.id, { limit: limit + 1, ...page });
      return ok(
        pageOf(
          rows,
          limit,
          (item) => [item.revision],
          (item) => item,
        ),
      );
    },
  }),
  defineRoute({
    method: 'DELETE',
    scope: 'project',
    permission: 'agents:write',
    path: `${project}/agents/:name`,
    summary: 'Delete an agent that was applied by hand; 409 names the repository that owns it',
    answers: { 204: null },
    handle: async ({ ctx, project: where, params, actor }) => {
      await deleteAgent(ctx, where, params['name'] ?? '', actor);
      return noContent;
    },
  }),
];
