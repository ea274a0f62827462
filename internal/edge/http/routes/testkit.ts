// A server with all routes over one project in a real database, and a caller with a token. Only tests import this.

import { randomUUID } from 'node:crypto';
import { createBench, type Bench } from '../../../flows/sync/apply-testkit.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { hashToken } from '../../../flows/tenancy/tenancy.ts';
import { startHttp } from '../http.ts';
import { routes } from '../routes.ts';

export interface Reply {
  readonly status: number;
  readonly body: unknown;
}

export interface Server {
  readonly bench: Bench;
  /** Calls P + `path` as an organization administrator, or as the holder of another role in the project. */
  call(method: string, path: string, body?: unknown, as?: 'admin' | 'viewer'): Promise<Reply>;
  stop(): Promise<void>;
}

async function addCaller(bench: Bench, role: 'admin' | 'viewer'): Promise<string> {
  const token = `svc_${role.padEnd(43, 'x')}`;
  const id = randomUUID();
  await bench.db.query(`insert into svc.principals (id, kind, name) values ($1::uuid, 'user', $2::text)`, [id, role]);
  if (role === 'admin') {
    await bench.db.query(`insert into svc.org_members values ($1::uuid, $2::uuid, 'admin')`, [bench.orgId, id]);
  } else {
    await bench.db.query(`insert into svc.org_members values ($1::uuid, $2::uuid, 'member')`, [bench.orgId, id]);
    await bench.db.query(`insert into svc.project_members values ($1::uuid, $2::uuid, $3::text)`, [
      bench.projectId,
      id,
      role,
    ]);
  }
  await bench.db.query(
    `insert into svc.api_tokens (principal_id, token_sha256, name) values ($1::uuid, $2::bytea, 'test')`,
    [id, hashToken(token)],
  );
  return token;
}

/** `extend` hands further parts of the context to the flows. */
export async function startServer(extend: Partial<FlowContext> = {}): Promise<Server> {
  const bench = await createBench();
  const tokens = { admin: await addCaller(bench, 'admin'), viewer: await addCaller(bench, 'viewer') };
  const ctx = { ...bench.ctx, ...extend };
  const http = await startHttp(() => ctx, { routes, readiness: [], listen: { host: '127.0.0.1', port: 0 } });
  return {
    bench,
    async call(method, path, body, as = 'admin') {
      const response = await fetch(`${http.url}/api/v1/orgs/o/projects/p/${path}`, {
        method,
        headers: {
          authorization: `Bearer ${tokens[as]}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
    },
    async stop() {
      await http.stop();
      await bench.close();
    },
  };
}
