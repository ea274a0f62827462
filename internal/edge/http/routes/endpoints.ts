// Webhook endpoints: where callers post to, who is woken, and what is wrong with them (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/endpoints.ts';
import { countEndpoints } from '../../../adapters/store/console/counts.ts';
import { listEndpoints } from '../../../adapters/store/resources/endpoints.ts';
import {
  deleteEndpoint,
  type EndpointView,
  reserveEndpoint,
  showEndpoint,
  showEndpoints,
} from '../../../flows/resources.ts';
import { pageOf, readTextPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';
import { counted, withReason } from './shapes.ts';
import { dryDeleteEndpoint } from '../../../flows/console/console.ts';

const show = ({ endpoint: row, ingestUrl, triggers, problems }: EndpointView) => ({
  name: row.name,
  slug: row.slug,
  ingestUrl,
  auth: row.auth,
  status: row.status,
  reservedUntil: row.reservedUntil,
  createdAt: row.createdAt,
  triggers,
  problems,
});

export const endpointRoutes: readonly Route[] = [
  serve(api.listEndpoints, async ({ ctx, project: where, query }) => {
    const { limit, after } = readTextPage(query);
    const page = { limit: limit + 1, ...(after !== undefined && { after }) };
    const rows = await listEndpoints(ctx.db, where.id, ctx.runtime.now(), page);
    const views = await showEndpoints(ctx, where, rows);
    const total = query.counts === 'true' ? await countEndpoints(ctx.db, where.id, ctx.runtime.now()) : undefined;
    return ok({ ...pageOf(views, limit, (item) => [item.endpoint.name], show), ...counted(total) });
  }),
  serve(api.getEndpoint, async ({ ctx, project: where, params }) =>
    ok(show(await showEndpoint(ctx, where, params.name))),
  ),
  serve(api.reserveEndpoint, async ({ ctx, project: where, body, actor }) =>
    created(show(await reserveEndpoint(ctx, where, body.name, actor))),
  ),
  serve(api.deleteEndpoint, async ({ ctx, project: where, params, query, body, actor }) => {
    if (query.dryRun === 'true') return ok(await dryDeleteEndpoint(ctx, where, params.name));
    await deleteEndpoint(ctx, where, params.name, withReason(actor, body));
    return noContent;
  }),
];
