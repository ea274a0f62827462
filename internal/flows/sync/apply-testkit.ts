// A project in a real database, and trees to apply to it. Only tests import this.

import { randomBytes, randomUUID } from 'node:crypto';
import { openDatabase, type Sql } from '../../adapters/store/store.ts';
import { loadConfig } from '../../base/config/config.ts';
import { createMetrics } from '../../base/metrics/metrics.ts';
import { createTestDatabase, silent } from '../../base/testkit/postgres.ts';
import { agent, environment, tree } from '../../core/plan/fixture.ts';
import type { AgentSpec, Resource, Trigger } from '../../domain/spec.ts';
import type { KeptPlan } from '../compiled.ts';
import type { FlowContext } from '../context.ts';
import { applyPlan } from './apply.ts';
import type { ApplyOwner, ApplyRequest, ApplyResult, PlanMemo } from './plan.ts';

const spawn = { kind: 'spawn' } as const;
const rest = { where: {}, fallback: false, routing: spawn };

export const onEvent = (event: string, more: object = {}): Trigger =>
  ({ kind: 'event', event, ...rest, ...more }) as Trigger;
export const onCron = (cron: string, timezone = 'UTC'): Trigger => ({ kind: 'heartbeat', cron, timezone, ...rest });
export const hook = (endpoint: string, more: object = {}): Trigger =>
  onEvent('webhook.received', { endpoint, ...more });

/** Agents by name, each in an environment `base` unless it says otherwise. */
export function agentsTree(agents: { readonly [name: string]: Partial<AgentSpec> }): ApplyRequest['compiled'] {
  const names = new Set(Object.values(agents).map((spec) => spec.environment ?? 'base'));
  const { resources } = tree([
    ...Object.entries(agents).map(([name, spec]) => agent(name, spec)),
    ...[...names].map((name) => environment(name)),
  ]);
  // The fixture's hashes are stand-ins; here each resource is hashed for real.
  const unhashed = resources.map(({ hash: _hash, ...resource }) => resource as Resource);
  return { ok: true, resources: unhashed, diagnostics: [], assets: [] };
}

export interface Bench {
  readonly ctx: FlowContext;
  readonly db: FlowContext['db'];
  readonly url: string;
  readonly orgId: string;
  readonly projectId: string;
  /** Moves the clock. */
  setNow(now: string): void;
  addRepository(name: string): Promise<ApplyOwner & { kind: 'repository' }>;
  apply(compiled: ApplyRequest['compiled'], more?: Partial<ApplyRequest>): Promise<ApplyResult>;
  /** Every row of the project's resources, as text to compare. */
  dump(): Promise<string>;
  close(): Promise<void>;
}

const tables = ['agents', 'agent_revisions', 'generated_resources', 'triggers', 'endpoints', 'schedules', 'assets'];

async function dump(sql: Sql): Promise<string> {
  const parts = [];
  for (const table of [...tables, 'generated_resource_users', 'events', 'audit']) {
    const { rows } = await sql.query<{ text: string }>(`select t::text as text from svc.${table} t order by t::text`);
    parts.push(`${table}\n${rows.map((row) => row.text).join('\n')}`);
  }
  return parts.join('\n\n');
}

/** A fresh database with one organization and one project. */
export async function createBench(): Promise<Bench> {
  const test = await createTestDatabase();
  const [orgId, projectId] = [randomUUID(), randomUUID()];
  await test.db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'O')`, [orgId]);
  await test.db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, 'p', 'P')`, [
    projectId,
    orgId,
  ]);
  return benchOver({ db: test.db, url: test.url, orgId, projectId, close: () => test.close() });
}

/** The same project from another process. */
export function joinBench(place: Pick<Bench, 'url' | 'orgId' | 'projectId'>): Bench {
  const db = openDatabase({ url: place.url, log: silent });
  return benchOver({ ...place, db, close: () => db.close() });
}

function benchOver(place: Pick<Bench, 'db' | 'url' | 'orgId' | 'projectId' | 'close'>): Bench {
  const { db, projectId } = place;
  let now = new Date('2026-11-21T12:00:00Z');
  const ctx: FlowContext = {
    db,
    runtime: { now: () => now, uuid: randomUUID, randomBytes, log: silent },
    config: loadConfig({ env: {}, argv: [] }),
    metrics: createMetrics(),
    daemonId: randomUUID(),
    baseUrl: 'http://svc.test',
  };
  return {
    ...place,
    ctx,
    setNow: (text) => {
      now = new Date(text);
    },
    async addRepository(name) {
      const repositoryId = randomUUID();
      await db.query(
        `insert into svc.repositories (id, project_id, name, path) values ($1::uuid, $2::uuid, $3::text, '/' || $3::text)`,
        [repositoryId, projectId, name],
      );
      return { kind: 'repository', repositoryId, fence: 1 };
    },
    apply: (compiled, more = {}) => applyPlan(ctx, requestOf(projectId, compiled, more)),
    dump: () => dump(db),
  };
}

/** What is kept with a compiled tree, as a daemon keeps it with the answer of its compiler. */
const kept = new WeakMap<object, KeptPlan>();
const memoOf = ({ resources }: ApplyRequest['compiled']): PlanMemo => ({
  get: () => kept.get(resources),
  set: (plan) => void kept.set(resources, plan),
});

export function requestOf(
  projectId: string,
  compiled: ApplyRequest['compiled'],
  more: Partial<ApplyRequest>,
): ApplyRequest {
  return {
    operationId: randomUUID(),
    projectId,
    owner: { kind: 'manual' },
    compiled,
    hasSvc: true,
    fileBytes: () => undefined,
    prune: true,
    adopt: false,
    dryRun: false,
    guard: 'off',
    verify: false,
    commit: null,
    actor: { kind: 'user', id: null, name: 'tester' },
    shippedAvatars: [],
    memo: memoOf(compiled),
    ...more,
  };
}
