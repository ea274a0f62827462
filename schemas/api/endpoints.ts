// Webhook endpoints: where callers post to, who is woken, and what is wrong with them; and the ingest itself.

import * as v from 'valibot';
import { resourceNamePattern } from '../../internal/domain/spec.ts';
import { dryRun, dryRunQuery, integer, projectPath, reasonBody, recorded, timestamp, triggerStatus } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

export const endpoint = named(
  'Endpoint',
  v.object({
    name: v.string(),
    slug: v.string(),
    ingestUrl: v.string(),
    /** Null for a reservation that no trigger has declared yet. */
    auth: v.nullable(
      v.object({ kind: v.picklist(['hmac_sha256', 'bearer_token', 'none']), secretRef: v.optional(v.string()) }),
    ),
    status: v.picklist(['ready', 'reserved']),
    reservedUntil: v.nullable(timestamp),
    createdAt: timestamp,
    triggers: v.array(v.object({ agent: v.string(), ordinal: integer, event: v.string(), status: triggerStatus })),
    problems: v.array(v.object({ severity: v.picklist(['error', 'warning']), message: v.string() })),
  }),
);
export type Endpoint = Shape<typeof endpoint>;

const read = { tag: 'endpoints', method: 'GET', scope: 'project', permission: 'endpoints:read' } as const;
const write = { tag: 'endpoints', scope: 'project', permission: 'endpoints:write' } as const;

export const listEndpoints = operation({
  ...read,
  id: 'listEndpoints',
  path: `${projectPath}/endpoints`,
  summary: 'Webhook endpoints and live reservations, by name',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('EndpointPage', endpoint) },
});

export const getEndpoint = operation({
  ...read,
  id: 'getEndpoint',
  path: `${projectPath}/endpoints/:name`,
  summary: 'One webhook endpoint with its triggers and problems',
  answers: { 200: endpoint },
});

export const reserveEndpoint = operation({
  ...write,
  method: 'POST',
  id: 'reserveEndpoint',
  path: `${projectPath}/endpoints`,
  summary: 'Reserve an endpoint: its URL is known for an hour before an apply makes it ready',
  body: v.strictObject({ name: v.pipe(v.string(), v.regex(resourceNamePattern)) }),
  answers: { 201: endpoint },
});

export const deleteEndpoint = operation({
  ...write,
  method: 'DELETE',
  id: 'deleteEndpoint',
  path: `${projectPath}/endpoints/:name`,
  summary: 'Delete an endpoint that no trigger uses; its URL answers 404 from then on',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

/** Carries the hex HMAC-SHA256 of the received body under the endpoint's secret; `sha256=` may stand before it. */
export const signatureHeader = 'x-svc-signature-256';

export const ingestWebhookEvent = operation({
  tag: 'webhooks',
  method: 'POST',
  id: 'ingestWebhookEvent',
  path: '/api/v1/webhook-endpoints/:slug/events',
  summary: 'An event for a webhook endpoint; recorded once per dedupKey',
  description:
    'The endpoint’s `auth.kind` says what proves the caller: `hmac_sha256` the signature header, `bearer_token` the header `Authorization: Bearer` with the endpoint’s secret, `none` nothing.',
  scope: 'public',
  permission: null,
  headers: {
    [signatureHeader]:
      'Of an endpoint with `hmac_sha256`: the hex HMAC-SHA256 of the body as sent, under the endpoint’s secret; `sha256=` may stand before it.',
  },
  rawBody: true,
  sends: v.looseObject({
    event: v.optional(v.pipe(v.string(), v.description('Its key; `webhook.received` where it is left out.'))),
    dedupKey: v.optional(
      v.pipe(v.string(), v.minLength(1), v.maxLength(1_024), v.description('A repeat is recorded once.')),
    ),
  }),
  cors: true,
  answers: { 200: recorded, 202: recorded },
});
