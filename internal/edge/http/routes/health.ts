// Liveness, readiness, metrics and the description of the API itself.

import * as api from '../../../../schemas/api/server.ts';
import { openApi } from '../openapi.ts';
import { ok, type Route, serve } from '../route.ts';

/** Something readiness waits for. `check` answers with the reason why not, or undefined. */
export interface Readiness {
  readonly name: string;
  check(): Promise<string | undefined>;
}

/** Routes about the server; `all` is asked when the description is requested. */
export function serverRoutes(readiness: readonly Readiness[], all: () => readonly Route[]): readonly Route[] {
  let description: { readonly [key: string]: unknown } | undefined;
  return [
    serve(api.getLiveness, async () => ok({ status: 'ok' })),
    serve(api.getReadiness, async () => {
      const checks = await Promise.all(
        readiness.map(async (part) => {
          const reason = await part
            .check()
            .catch((error: unknown) => (error instanceof Error ? error.message : 'failed'));
          return { name: part.name, ok: reason === undefined, ...(reason !== undefined && { reason }) };
        }),
      );
      return checks.every((one) => one.ok)
        ? ok({ status: 'ready', checks })
        : { status: 503 as const, body: { status: 'unready' as const, checks } };
    }),
    serve(api.getMetrics, async ({ ctx }) => ({
      status: 200 as const,
      body: await ctx.metrics.registry.metrics(),
      contentType: ctx.metrics.registry.contentType,
    })),
    serve(api.getDescription, async ({ ctx }) =>
      ok((description ??= openApi(all(), { version: '1', baseUrl: ctx.baseUrl }))),
    ),
  ];
}
