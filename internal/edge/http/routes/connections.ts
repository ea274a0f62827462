// Connections of a project to providers (docs/reference/http-api.md#conventions). Credentials go in and never come out.

import * as api from '../../../../schemas/api/connections.ts';
import { countConnections, usersOfConnections } from '../../../adapters/store/console/counts.ts';
import {
  type ConnectionRow,
  listConnections,
  type ObservedConnection,
} from '../../../adapters/store/connections/connections.ts';
import type { OauthAttemptRow } from '../../../adapters/store/connections/oauth-attempts.ts';
import {
  addConnection,
  beginConsent,
  cancelConsent,
  changeConfig,
  checkConnection,
  intakeUrl,
  readConnection,
  readConsent,
  removeConnection,
  replaceCredentials,
} from '../../../flows/connections/connections.ts';
import { toldStatus } from '../../../domain/connection.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { pageOf, readTextPage } from '../page.ts';
import { created, noContent, ok, type Route, serve } from '../route.ts';
import { counted, withReason } from './shapes.ts';
import { dryRemoveConnection } from '../../../flows/console/console.ts';

const show = (ctx: FlowContext, row: ConnectionRow) => ({
  id: row.id,
  provider: row.provider,
  name: row.name,
  status: toldStatus(row.status),
  ...(typeof row.reason === 'string' && { reason: row.reason }),
  intakeUrl: intakeUrl(ctx, row),
  ...(row.since instanceof Date && { since: row.since.toISOString() }),
  ...(row.failedCalls !== undefined && { failedCalls: row.failedCalls }),
});

const whole = (ctx: FlowContext, row: ObservedConnection) => {
  const { permissions, repositories } = row.observed ?? {};
  return {
    ...show(ctx, row),
    config: row.config,
    ...(permissions !== undefined && { permissions }),
    ...(repositories !== undefined && {
      repositories: {
        selection: repositories.selection,
        ...(repositories.names !== undefined && { names: [...repositories.names] }),
      },
    }),
    ...(row.checkedAt !== null && { checkedAt: row.checkedAt.toISOString() }),
    ...(row.limitedUntil !== null && { rateLimitedUntil: row.limitedUntil.toISOString() }),
  };
};

const unkept = { 'cache-control': 'no-store' };
const showAttempt = (row: OauthAttemptRow) => ({
  attemptId: row.id,
  status: row.state,
  expiresAt: row.expiresAt.toISOString(),
});
const wholeAttempt = (row: OauthAttemptRow, connection: string) => ({
  ...showAttempt(row),
  connection,
  reason: row.reason,
  scopes: [...row.scopes],
});

export const connectionRoutes: readonly Route[] = [
  serve(api.listConnections, async ({ ctx, project, query }) => {
    const page = readTextPage(query);
    const rows = await listConnections(ctx.db, project.id, { ...page, limit: page.limit + 1 });
    const total = query.counts === 'true' ? await countConnections(ctx.db, project.id) : undefined;
    const ids = rows.map(({ id }) => id);
    const users = await usersOfConnections(ctx.db, project.id, ids);
    const shown = pageOf(
      rows,
      page.limit,
      (row) => [row.name],
      (row) => ({ ...show(ctx, row), usedBy: users.get(row.id) ?? 0 }),
    );
    return ok({ ...shown, ...counted(total) });
  }),
  serve(api.createConnection, async ({ ctx, project, actor, body }) =>
    created(show(ctx, await addConnection(ctx, project, actor, body))),
  ),
  serve(api.getConnection, async ({ ctx, project, params }) => {
    const row = await readConnection(ctx, project, params.name);
    const users = await usersOfConnections(ctx.db, project.id, [row.id]);
    return ok({ ...whole(ctx, row), usedBy: users.get(row.id) ?? 0 });
  }),
  serve(api.changeConnection, async ({ ctx, project, actor, params, body }) =>
    ok(whole(ctx, await changeConfig(ctx, project, actor, { name: params.name, config: body.config }))),
  ),
  serve(api.deleteConnection, async ({ ctx, project, actor, params, query, body }) => {
    if (query.dryRun === 'true') return ok(await dryRemoveConnection(ctx, project, params.name));
    await removeConnection(ctx, project, withReason(actor, body), params.name);
    return noContent;
  }),
  serve(api.checkConnection, async ({ ctx, project, actor, params }) =>
    ok(whole(ctx, await checkConnection(ctx, project, actor, params.name))),
  ),
  serve(api.setConnectionCredentials, async ({ ctx, project, actor, params, body }) =>
    ok(whole(ctx, await replaceCredentials(ctx, project, actor, { name: params.name, credentials: body.credentials }))),
  ),
  serve(api.authorizeConnection, async ({ ctx, project, actor, principal, params, body }) => {
    const person = { id: principal.id, kind: principal.kind, actor };
    const { attempt, authorizationUrl } = await beginConsent(ctx, project, person, { ...body, name: params.name });
    return { status: 201 as const, headers: unkept, body: { ...showAttempt(attempt), authorizationUrl } };
  }),
  serve(api.getConsentAttempt, async ({ ctx, project, params }) => {
    const at = { name: params.name, id: params.attempt };
    const attempt = await readConsent(ctx, project, at);
    return { status: 200 as const, headers: unkept, body: wholeAttempt(attempt, params.name) };
  }),
  serve(api.cancelConsentAttempt, async ({ ctx, project, actor, params }) => {
    const at = { name: params.name, id: params.attempt };
    const attempt = await cancelConsent(ctx, project, actor, at);
    return { status: 200 as const, headers: unkept, body: wholeAttempt(attempt, params.name) };
  }),
];
