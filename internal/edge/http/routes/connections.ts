// Connections of a project to providers (contract, section 3). Credentials go in and never come out.

import * as api from '../../../../schemas/api/connections.ts';
import { type ConnectionRow, listConnections } from '../../../adapters/store/connections/connections.ts';
import { addConnection, intakeUrl, readConnection, removeConnection } from '../../../flows/connections/connections.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { pageOf, readTextPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';

const show = (ctx: FlowContext, row: ConnectionRow) => ({
  id: row.id,
  provider: row.provider,
  name: row.name,
  status: row.status,
  intakeUrl: intakeUrl(ctx, row),
});

export const connectionRoutes: readonly Route[] = [
  serve(api.listConnections, async ({ ctx, project, query }) => {
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
  }),
  serve(api.createConnection, async ({ ctx, project, actor, body }) =>
    created(show(ctx, await addConnection(ctx, project, actor, body))),
  ),
  serve(api.getConnection, async ({ ctx, project, params }) => {
    const row = await readConnection(ctx, project, params.name);
    return ok({ ...show(ctx, row), config: row.config });
  }),
  serve(api.deleteConnection, async ({ ctx, project, actor, params }) => {
    await removeConnection(ctx, project, actor, params.name);
    return noContent;
  }),
];
