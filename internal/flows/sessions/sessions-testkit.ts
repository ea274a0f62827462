// A project in a real database, and the context that flows want beside it. Only tests import this.

import { randomBytes, randomUUID } from 'node:crypto';
import type { Database } from '../../adapters/store/store.ts';
import { loadConfig } from '../../base/config/config.ts';
import { createMetrics } from '../../base/metrics/metrics.ts';
import { createTestDatabase, silent } from '../../base/testkit/postgres.ts';
import type { FlowContext } from '../context.ts';

export interface Bench {
  readonly ctx: FlowContext;
  readonly db: Database;
  readonly projectId: string;
  close(): Promise<void>;
}

/** A fresh database with one organization and one project. */
export async function createBench(): Promise<Bench> {
  const { db, close } = await createTestDatabase();
  const [orgId, projectId] = [randomUUID(), randomUUID()];
  await db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'O')`, [orgId]);
  await db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, 'p', 'P')`, [
    projectId,
    orgId,
  ]);
  const ctx: FlowContext = {
    db,
    runtime: { now: () => new Date('2026-11-21T12:00:00Z'), uuid: randomUUID, randomBytes, log: silent },
    config: loadConfig({ env: {}, argv: [] }),
    metrics: createMetrics(),
    daemonId: randomUUID(),
    baseUrl: 'http://svc.test',
  };
  return { ctx, db, projectId, close };
}
