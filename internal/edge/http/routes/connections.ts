// Connections of a project to providers (contract, section 3). Credentials go in and never come out.

import * as v from 'valibot';
import { type ConnectionRow, listConnections } from '../../../adapters/store/connections/connections.ts';
import { addConnection, intakeUrl, readConnection, removeConnection } from '../../../flows/connections/connections.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { connectionPost } from '../../../../schemas/connection.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { created, defineRoute, noContent, ok, type Route } from '../route.ts';

const base = '/api/v1/orgs/:org/projects/:project/connections';
const summary = v.object({
  id: v.string(),
  provider: v.string(),
  name: v.string(),
  status: v.picklist(['active', 'inactive']),
  intakeUrl: v.string(),
});
const whole = v.object({ ...summary.entries, config: v.record(v.string(), v.unknown()) });

const show = (ctx: FlowContext, row: ConnectionRow) => ({
  id: row.id,
  provider: row.provider,
  name: row.name,
  status: row.status,
  intakeUrl: intakeUrl(ctx, row),
});

export const connectionRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: base,
    summary: 'Connections, never their credentials',
    scope: 'project',
    permission: 'connections:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(summary) },
    async handle({ ctx, project, query }) {
      const page = readTextPage(query);
      const rows = await listConnections(ctx.db, project.id, { ...page, limit: page.limit + 1 });
      return ok(
        pageOf(
          rows,
          page.limit,
          (row) => [row.name],
          (row) => show(ctx, row),
        ),
      );
    },
  }),
  defineRoute({
    method: 'POST',
    path: base,
    summary: 'Connect a provider; send its webhooks to the intakeUrl of the answer',
    scope: 'project',
    permission: 'connections:write',
    confidential: true,
    body: connectionPost,
    answers: { 201: summary },
    handle: async ({ ctx, project, actor, body }) => created(show(ctx, await addConnection(ctx, project, actor, body))),
  }),
  defineRoute({
    method: 'GET',
    path: `${base}/:name`,
    summary: 'One connection, never its credentials',
    scope: 'project',
    permission: 'connections:read',
    answers: { 200: whole },
    async handle({ ctx, project, params }) {
      const row = await readConnection(ctx, project, params['name'] ?? '');
      return ok({ ...show(ctx, row), config: row.config });
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: `${base}/:name`,
    summary: 'Disconnect; optional triggers are skipped, required ones refuse it',
    scope: 'project',
    permission: 'connections:write',
    answers: { 204: null },
    async handle({ ctx, project, actor, params }) {
      await removeConnection(ctx, project, actor, params['name'] ?? '');
      return noContent;
    },
  }),
];
