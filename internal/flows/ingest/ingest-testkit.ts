// What tests of intake share: an agent with an endpoint, a secret, a delivery. Only tests import this.

import assert from 'node:assert/strict';
import type { TestDaemon } from '../../base/testkit/daemon.ts';
import { sealingOf } from '../context.ts';

export interface Delivered {
  readonly status: number;
  readonly body: { readonly [key: string]: unknown };
}

const runnable = { harness: 'harness-a', environment: { name: 'default', image: { kind: 'preset', name: 'base' } } };

export const ingestPath = (slug: string): string => `/api/v1/webhook-endpoints/${slug}/events`;

/** Declares an endpoint by an agent of the same name; answers with the path of its URL. */
export async function agentWithEndpoint(daemon: TestDaemon, name: string, auth: object): Promise<string> {
  const trigger = { event: 'webhook.received', endpoint: name, auth, routing: { kind: 'spawn' } };
  const content = JSON.stringify({ name, ...runnable, triggers: [trigger] });
  const files = [{ path: `.svc/agents/${name}.yaml`, content }];
  const { status, body } = await daemon.api('POST', 'P/apply', { files, prune: false });
  assert.equal(status, 200, JSON.stringify(body));
  return new URL(String(body['webhooks']?.[0]?.['ingestUrl'])).pathname;
}

async function projectOf(daemon: TestDaemon): Promise<{ id: string; orgId: string }> {
  const { rows } = await daemon.ctx.db.query<{ id: string; orgId: string }>(
    `select id, org_id as "orgId" from svc.projects where slug = 'default'`,
  );
  const [project] = rows;
  assert.ok(project);
  return project;
}

/** Writes the value of a project's secret, sealed as the service does. */
export async function putSecret(daemon: TestDaemon, name: string, value: string): Promise<void> {
  const { id, orgId } = await projectOf(daemon);
  const binding = { orgId, projectId: id, name, use: 'secret' } as const;
  const { keyVersion, sealed } = sealingOf(daemon.ctx).sealer.seal(Buffer.from(value), binding);
  await daemon.ctx.db.query(
    `insert into svc.secrets (org_id, project_id, name, key_version, sealed)
     values ($1::uuid, $2::uuid, $3::text, $4::int, $5::bytea)
     on conflict (org_id, project_id, name) do update
       set sealed = excluded.sealed, key_version = excluded.key_version, expires_at = null`,
    [orgId, id, name, keyVersion, sealed],
  );
}

/** A connection as its POST stores it; answers with its id. */
export async function addConnection(
  daemon: TestDaemon,
  connection: {
    readonly provider: string;
    readonly name: string;
    readonly config?: object;
    readonly credentials: object;
  },
): Promise<string> {
  const { id, orgId } = await projectOf(daemon);
  const { provider, name, config, credentials } = connection;
  const binding = { orgId, projectId: id, name, use: 'connection' } as const;
  const { keyVersion, sealed } = sealingOf(daemon.ctx).sealer.seal(Buffer.from(JSON.stringify(credentials)), binding);
  const { rows } = await daemon.ctx.db.query<{ id: string }>(
    `insert into svc.connections (project_id, provider, product, name, config, key_version, sealed_credentials)
     values ($1::uuid, $2::text, $2::text, $3::text, $4::jsonb, $5::int, $6::bytea) returning id`,
    [id, provider, name, JSON.stringify(config ?? {}), keyVersion, sealed],
  );
  return rows[0]?.id ?? '';
}

/** Posts a body to a path of the daemon. */
export async function deliver(
  daemon: { readonly url: string },
  path: string,
  body: string | Buffer,
  headers: { readonly [name: string]: string } = {},
): Promise<Delivered> {
  const response = await fetch(`${daemon.url}${path}`, { method: 'POST', body, headers });
  return { status: response.status, body: (await response.json()) as Delivered['body'] };
}
