// Liveness, readiness, metrics and the description of the API itself.

import * as v from 'valibot';
import { openApi } from '../openapi.ts';
import { defineRoute, ok, type Route } from '../route.ts';

/** Something readiness waits for. `check` answers with the reason why not, or undefined. */
export interface Readiness {
  readonly name: string;
  check(): Promise<string | undefined>;
}

/** Routes about the server; `all` is asked when the description is requested. */
export function serverRoutes(readiness: readonly Readiness[], all: () => readonly Route[]): readonly Route[] {
  let description: unknown;
  const state = v.object({
    status: v.picklist(['ready', 'unready']),
    checks: v.array(v.object({ name: v.string(), ok: v.boolean(), reason: v.optional(v.string()) })),
  });
  const common = { method: 'GET', scope: 'public', permission: null } as const;
  return [
    defineRoute({
      ...common,
      path: '/healthz',
      summary: 'Liveness: the process answers',
      answers: { 200: v.object({ status: v.literal('ok') }) },
      handle: async () => ok({ status: 'ok' }),
    }),
    defineRoute({
      ...common,
      path: '/readyz',
      summary: 'Readiness, with the reasons',
      answers: { 200: state, 503: state },
      handle: async () => {
        const checks = await Promise.all(
          readiness.map(async (part) => {
            const reason = await part
              .check()
              .catch((error: unknown) => (error instanceof Error ? error.message : 'failed'));
            return { name: part.name, ok: reason === undefined, ...(reason !== undefined && { reason }) };
          }),
        );
        const ready = checks.every((one) => one.ok);
        return { status: ready ? 200 : 503, body: { status: ready ? 'ready' : 'unready', checks } };
      },
    }),
    defineRoute({
      ...common,
      path: '/metrics',
      summary: 'Prometheus text',
      answers: { 200: null },
      handle: async ({ ctx }) => ({
        status: 200,
        body: await ctx.metrics.registry.metrics(),
        contentType: ctx.metrics.registry.contentType,
      }),
    }),
    defineRoute({
      ...common,
      path: '/api/v1/openapi.json',
      summary: 'This description',
      answers: { 200: v.record(v.string(), v.unknown()) },
      handle: async ({ ctx }) => ok((description ??= openApi(all(), { version: '1', baseUrl: ctx.baseUrl }))),
    }),
  ];
}
