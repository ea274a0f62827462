// Liveness, readiness, metrics and the description of the API itself.

import { sha256 } from '../../../base/hash.ts';
import * as api from '../../../../schemas/api/server.ts';
import { Fault } from '../../../domain/fault.ts';
import { refreshGauges } from '../../../flows/console/console.ts';
import { daemonHeader } from '../../../flows/peers.ts';
import { openApi } from '../openapi.ts';
import type { ReadinessWatch } from '../readiness.ts';
import { ok, type Route, serve } from '../route.ts';

const schemaVersion = 1;
const schemas = new Map<string, { readonly text: string; readonly etag: string }>();

/** `agent.json`, and `agent-v1.json`, by which an editor keeps to one version. */
async function schemaFile(
  baseUrl: string,
  file: string,
): Promise<{ readonly text: string; readonly etag: string } | undefined> {
  const [, kind, version] = /^([a-z]+)(?:-v([1-9]\d*))?\.json$/.exec(file) ?? [];
  const { jsonSchema, schemaKinds } = await import('../../../../schemas/json-schema.ts');
  const known = schemaKinds.find((one) => one === kind);
  if (known === undefined || (version !== undefined && Number(version) !== schemaVersion)) return undefined;
  const id = `${baseUrl}/schemas/${file}`;
  let made = schemas.get(id);
  if (made === undefined) {
    const text = `${JSON.stringify({ $id: id, ...jsonSchema(known) }, null, 2)}\n`;
    made = { text, etag: `"${sha256(text).slice(0, 32)}"` };
    schemas.set(id, made);
  }
  return made;
}

/** Routes about the server; `all` is asked when the description is requested. */
export function serverRoutes(readiness: ReadinessWatch, all: () => readonly Route[]): readonly Route[] {
  let description: { readonly [key: string]: unknown } | undefined;
  return [
    serve(api.getLiveness, async ({ ctx }) => ({
      status: 200 as const,
      body: { status: 'ok' as const },
      headers: { [daemonHeader]: ctx.daemonId },
    })),
    serve(api.getReadiness, async ({ log }) => {
      const checks = await readiness.look(log);
      return checks.every((one) => one.ok)
        ? ok({ status: 'ready', checks })
        : { status: 503 as const, body: { status: 'unready' as const, checks } };
    }),
    serve(api.getMetrics, async ({ ctx }) => {
      await refreshGauges(ctx);
      const { registry } = ctx.metrics;
      return { status: 200 as const, body: await registry.metrics(), contentType: registry.contentType };
    }),
    serve(api.getSchema, async ({ ctx, params: { file }, headers }) => {
      const found = await schemaFile(ctx.baseUrl, file);
      if (found === undefined) throw new Fault('not_found', 'schema-not-found', `There is no schema ${file}.`);
      const cached = { etag: found.etag, 'cache-control': 'public, max-age=300' };
      if (headers['if-none-match'] === found.etag) return { status: 304, headers: cached } as never;
      return { status: 200 as const, body: found.text, contentType: 'application/schema+json', headers: cached };
    }),
    serve(api.getDescription, async ({ ctx }) =>
      ok((description ??= openApi(all(), { version: '1', baseUrl: ctx.baseUrl }))),
    ),
  ];
}
