// Liveness, readiness, metrics and the description of the API itself.

import * as v from 'valibot';
import { json } from './common.ts';
import { named, operation, type Shape } from './operation.ts';

export const readiness = named(
  'Readiness',
  v.object({
    status: v.picklist(['ready', 'unready']),
    checks: v.array(v.object({ name: v.string(), ok: v.boolean(), reason: v.optional(v.string()) })),
  }),
);
export type Readiness = Shape<typeof readiness>;

const common = { tag: 'server', method: 'GET', scope: 'public', permission: null } as const;

export const getLiveness = operation({
  ...common,
  id: 'getLiveness',
  path: '/healthz',
  summary: 'Liveness: the process answers',
  answers: { 200: v.object({ status: v.literal('ok') }) },
});

export const getReadiness = operation({
  ...common,
  id: 'getReadiness',
  path: '/readyz',
  summary: 'Readiness, with the reasons',
  answers: { 200: readiness, 503: readiness },
});

export const getMetrics = operation({
  ...common,
  id: 'getMetrics',
  path: '/metrics',
  summary: 'Prometheus text',
  answers: { 200: null },
});

export const getSchema = operation({
  ...common,
  id: 'getSchema',
  path: '/schemas/:file',
  summary: 'JSON Schema of what authors write, for editors: agent.json, environment.json, identity.json, config.json',
  description:
    'The same under a versioned name, agent-v1.json, which changes only in ways that keep valid documents valid.',
  cors: true,
  answers: { 200: null },
});

export const getDescription = operation({
  ...common,
  id: 'getDescription',
  path: '/api/v1/openapi.json',
  summary: 'This description',
  answers: { 200: json },
});
