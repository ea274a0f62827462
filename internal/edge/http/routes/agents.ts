// Stored agents and their revisions (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/agents.ts';
import { countRevisions, countsOfAgent } from '../../../adapters/store/console/counts.ts';
import {
  type AgentRow,
  agentByName,
  countAgents,
  listAgents,
  listRevisions,
  readRevisionSpecs,
  type RevisionRow,
} from '../../../adapters/store/resources/agents.ts';
import { generatedByName } from '../../../adapters/store/sessions/tool-callers.ts';
import type { FlowContext, ProjectRef } from '../../../flows/context.ts';
import { spendingOf } from '../../../flows/sessions/sessions.ts';
import { agentVersion, deleteAgent } from '../../../flows/resources.ts';
import { readOrigins } from '../../../flows/sync/sync.ts';
import type { Origins } from '../../../domain/diagnostic.ts';
import { Fault } from '../../../domain/fault.ts';
import type { AgentSpec, IdentitySpec } from '../../../domain/spec.ts';
import { messageOf } from '../../../domain/messages.ts';
import { pageOf, readNumberPage, readTextPage } from '../page.ts';
import { conditionOf, noContent, ok, type Route, serve, tagged } from '../route.ts';
import { counted, ownerOf, withReason } from './shapes.ts';
import { diffJson } from '../../../core/plan/plan.ts';
import { dryDeleteAgent } from '../../../flows/console/console.ts';

/** What is stored is what compile gave. */
const storedSpec = (spec: unknown) => spec as AgentSpec;

const showRow = (row: AgentRow) => ({
  name: row.name,
  resourceId: row.id,
  revision: row.revision,
  owner: ownerOf(row.repository),
  source: row.source,
  commit: row.commit,
  reconcileId: row.reconcileId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});
const show = (row: AgentRow) => ({ ...showRow(row), spec: storedSpec(row.spec) });

/** The number of a revision, or Fault `not_found`: what is no number names none. */
function revisionNumber(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw noRevision(text);
}
const noRevision = (text: string): Fault =>
  new Fault('not_found', 'revision-not-found', `The agent has no revision ${text.slice(0, 20)}.`);

async function requireAgent(ctx: FlowContext, where: ProjectRef, name: string): Promise<AgentRow> {
  const row = await agentByName(ctx.db, where.id, name);
  if (row === undefined) throw new Fault('not_found', 'agent-not-found', messageOf('noAgent', name));
  return row;
}

/** How an agent appears to people, where its spec names an identity. */
async function identityOf(
  ctx: FlowContext,
  where: ProjectRef,
  { spec }: AgentRow,
): Promise<{ readonly identity?: IdentitySpec }> {
  const { identity: name } = storedSpec(spec);
  const stored = name === undefined ? undefined : await generatedByName(ctx.db, where.id, 'Identity', name);
  return stored === undefined ? {} : { identity: stored as IdentitySpec };
}

/** What an answer says of origins, where it was asked. */
async function originsFor(
  ctx: FlowContext,
  query: { readonly origins?: 'true' | 'false' | undefined },
  rows: readonly AgentRow[],
): Promise<(row: AgentRow) => { readonly origins?: Origins | null }> {
  if (query.origins !== 'true') return () => ({});
  const found = await readOrigins(ctx, rows);
  return ({ id }) => ({ origins: found.get(id) ?? null });
}

export const agentRoutes: readonly Route[] = [
  serve(api.listAgents, async ({ ctx, project: where, query }) => {
    const { limit, after } = readTextPage(query);
    const isRow = query.view === 'row';
    const page = { limit: limit + 1, isRow, ...(after !== undefined && { after }) };
    const [{ rows, isCut }, total] = await Promise.all([
      listAgents(ctx.db, where.id, page),
      query.counts === 'true' ? countAgents(ctx.db, where.id) : undefined,
    ]);
    const withOrigins = await originsFor(ctx, query, rows.slice(0, limit));
    const shown = (row: AgentRow) => ({ ...(isRow ? showRow(row) : show(row)), ...withOrigins(row) });
    return ok({ ...pageOf(rows, limit, (row) => [row.name], shown, isCut), ...counted(total) });
  }),
  serve(api.getAgent, async ({ ctx, project: where, params, query }) => {
    const row = await requireAgent(ctx, where, params.name);
    const withOrigins = await originsFor(ctx, query, [row]);
    const identity = await identityOf(ctx, where, row);
    const counts = query.counts === 'true' ? await countsOfAgent(ctx.db, where.id, row) : undefined;
    return tagged(
      agentVersion(row),
      ok({ ...show(row), ...identity, ...withOrigins(row), ...(counts !== undefined && { counts }) }),
    );
  }),
  serve(api.getAgentUsage, async ({ ctx, project: where, params }) => {
    const { id: agentId } = await requireAgent(ctx, where, params.name);
    return ok(await spendingOf(ctx, { agentId }));
  }),
  serve(api.listAgentRevisions, async ({ ctx, project: where, params, query }) => {
    const { limit, ...page } = readNumberPage(query);
    const isRow = query.view === 'row';
    const row = await requireAgent(ctx, where, params.name);
    const { rows, isCut } = await listRevisions(ctx.db, row.id, { limit: limit + 1, ...page, isRow });
    const shown = ({ spec, ...item }: RevisionRow) => (isRow ? item : { ...item, spec: storedSpec(spec) });
    const total = query.counts === 'true' ? await countRevisions(ctx.db, row.id) : undefined;
    return ok({ ...pageOf(rows, limit, (item) => [item.revision], shown, isCut), ...counted(total) });
  }),
  serve(api.diffAgentRevisions, async ({ ctx, project: where, params }) => {
    const { id } = await requireAgent(ctx, where, params.name);
    const [a, b] = [revisionNumber(params.a), revisionNumber(params.b)];
    const specs = await readRevisionSpecs(ctx.db, id, [a, b]);
    const [from, to] = [specs.get(a), specs.get(b)];
    if (from === undefined) throw noRevision(params.a);
    if (to === undefined) throw noRevision(params.b);
    return ok({ changes: diffJson(from, to) });
  }),
  serve(api.deleteAgent, async (call) => {
    const { ctx, project: where, params, query, body, actor } = call;
    if (query.dryRun === 'true') return ok(await dryDeleteAgent(ctx, where, params.name, conditionOf(call)));
    await deleteAgent(ctx, where, params.name, withReason(actor, body), conditionOf(call));
    return noContent;
  }),
];
