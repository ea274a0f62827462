// Webhook endpoints: where callers post to, who is woken, and what is wrong with them (contract, section 3).

import * as v from 'valibot';
import { listEndpoints } from '../../../adapters/store/resources/endpoints.ts';
import {
  deleteEndpoint,
  type EndpointView,
  reserveEndpoint,
  showEndpoint,
  showEndpoints,
} from '../../../flows/sync/sync.ts';
import { RESOURCE_NAME } from '../../../domain/spec.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { created, defineRoute, noContent, ok, type Route } from '../route.ts';
import { project, status, timestamp } from './shapes.ts';

const endpoint = v.object({
  name: v.string(),
  slug: v.string(),
  ingestUrl: v.string(),
  auth: v.nullable(
    v.object({ kind: v.picklist(['hmac_sha256', 'bearer_token', 'none']), secretRef: v.optional(v.string()) }),
  ),
  status: v.picklist(['ready', 'reserved']),
  reservedUntil: v.nullable(timestamp),
  createdAt: timestamp,
  triggers: v.array(v.object({ agent: v.string(), ordinal: v.number(), event: v.string(), status })),
  problems: v.array(v.object({ severity: v.picklist(['error', 'warning']), message: v.string() })),
});

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

const read = { method: 'GET', scope: 'project', permission: 'endpoints:read' } as const;
const write = { scope: 'project', permission: 'endpoints:write' } as const;

export const endpointRoutes: readonly Route[] = [
  defineRoute({
    ...read,
    path: `${project}/endpoints`,
    summary: 'Webhook endpoints and live reservations, by name',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(endpoint) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, after } = readTextPage(query);
      const page = { limit: limit + 1, ...(after !== undefined && { after }) };
      const rows = await listEndpoints(ctx.db, where.id, ctx.runtime.now(), page);
      const views = await showEndpoints(ctx, where, rows);
      return ok(pageOf(views, limit, (item) => [item.endpoint.name], show));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/endpoints/:name`,
    summary: 'One webhook endpoint with its triggers and problems',
    answers: { 200: endpoint },
    handle: async ({ ctx, project: where, params }) => ok(show(await showEndpoint(ctx, where, params['name'] ?? ''))),
  }),
  defineRoute({
    ...write,
    method: 'POST',
    path: `${project}/endpoints`,
    summary: 'Reserve an endpoint: its URL is known for an hour before an apply makes it ready',
    body: v.strictObject({ name: v.pipe(v.string(), v.regex(RESOURCE_NAME)) }),
    answers: { 201: endpoint },
    handle: async ({ ctx, project: where, body, actor }) =>
      created(show(await reserveEndpoint(ctx, where, body.name, actor))),
  }),
  defineRoute({
    ...write,
    method: 'DELETE',
    path: `${project}/endpoints/:name`,
    summary: 'Delete an endpoint that no trigger uses; its URL answers 404 from then on',
    answers: { 204: null },
    handle: async ({ ctx, project: where, params, actor }) => {
      await deleteEndpoint(ctx, where, params['name'] ?? '', actor);
      return noContent;
    },
  }),
];
