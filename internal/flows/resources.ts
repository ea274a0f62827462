// Changes of single resources besides an apply: deleting an agent that nobody's files declare, reserving and deleting
// webhook endpoints. Each under the project's lock, so that none falls into the middle of an apply, with its audit entry
// in the same transaction.

import type { AuditAction } from '../domain/audit-actions.ts';
import { agentByName, type AgentRow, deleteAgents } from '../adapters/store/resources/agents.ts';
import { wishConflicting } from '../adapters/store/repositories/resyncs.ts';
import { inApply } from '../adapters/store/routing/project-lock.ts';
import { recordAudit } from '../adapters/store/tenancy/audit.ts';
import type { Sql } from '../adapters/store/store.ts';
import {
  deleteEndpoint as deleteEndpointRow,
  endpointByName,
  type EndpointRow,
  reserveEndpoint as reserveEndpointRow,
} from '../adapters/store/resources/endpoints.ts';
import { deleteUnusedGenerated } from '../adapters/store/resources/generated.ts';
import { readSecretNames } from '../adapters/store/secrets/secret-resolution.ts';
import { listTriggerHeads, type TriggerHead } from '../adapters/store/resources/triggers.ts';
import { Fault } from '../domain/fault.ts';
import { type Condition, countedVersion, requireVersion } from '../domain/version.ts';
import { messageOf } from '../domain/messages.ts';
import type { Actor, FlowContext, ProjectRef } from './context.ts';
import { sha256 } from '../base/hash.ts';

/** How long a reservation holds (docs/reference/webhook-endpoints.md#declaring). */
export const reservationMs = 60 * 60 * 1000;
/** Triggers of one endpoint that are looked at and shown; more than any project has. */
const triggersMax = 10_000;

const derivedChars = 10;

/** Of an endpoint: lower-cased name with other characters than `a-z0-9-` as `-`, then `-` and ten characters of project and name. */
export function endpointSlug(projectId: string, name: string): string {
  const derived = BigInt(`0x${sha256(`${projectId}\0${name}`)}`)
    .toString(36)
    .slice(-derivedChars);
  return `${name.toLowerCase().replaceAll(/[^a-z0-9-]/g, '-')}-${derived}`;
}

/** Where callers post to (docs/reference/webhook-endpoints.md#requests). */
export function ingestUrl(baseUrl: string, slug: string): string {
  return `${baseUrl}/api/v1/webhook-endpoints/${slug}/events`;
}

interface Change {
  readonly actor: Actor;
  readonly action: AuditAction;
  readonly kind: 'Agent' | 'Endpoint';
  readonly name: string;
}

const audit = (tx: Sql, project: ProjectRef, { actor, action, kind, name }: Change): Promise<void> =>
  recordAudit(tx, {
    orgId: project.orgId,
    projectId: project.id,
    principal: actor,
    action,
    subject: { kind, name },
  });

export const agentVersion = ({ id, revision }: AgentRow): string => countedVersion(id, revision);

/** Deletes an agent owned by `manual`. Faults: `not_found`; `conflict` naming the repository that owns it. */
export async function deleteAgent(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  actor: Actor,
  condition: Condition = {},
): Promise<void> {
  await inApply(ctx.db, project.id, async (tx) => {
    const agent = await requireDeletable(tx, project, name);
    requireVersion(condition, agentVersion(agent));
    await deleteAgents(tx, [agent.id]);
    await deleteUnusedGenerated(tx, project.id);
    await wishConflicting(tx, { projectId: project.id, except: null, names: [name] });
    await audit(tx, project, { actor, action: 'agent.deleted', kind: 'Agent', name });
  });
}

/** An agent that nobody's files declare. Faults as `deleteAgent`. */
export async function requireDeletable(sql: Sql, project: ProjectRef, name: string): Promise<AgentRow> {
  const agent = await agentByName(sql, project.id, name);
  if (agent === undefined) throw new Fault('not_found', 'agent-not-found', messageOf('noAgent', name));
  if (agent.repositoryId === null) return agent;
  throw new Fault(
    'conflict',
    'agent-owned',
    `Agent ${name} is owned by repository ${agent.repository}; delete it there (${agent.source.file}).`,
  );
}

/** Holds an endpoint's name and URL for an hour, or for another one. Fault `conflict` when the endpoint exists. */
export async function reserveEndpoint(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  actor: Actor,
): Promise<EndpointView> {
  return inApply(ctx.db, project.id, async (tx) => {
    const now = ctx.runtime.now();
    const until = new Date(now.getTime() + reservationMs);
    const row = await reserveEndpointRow(tx, project.id, { name, slug: endpointSlug(project.id, name), until, now });
    if (row === undefined) {
      throw new Fault(
        'conflict',
        'endpoint-exists',
        `Webhook endpoint ${name} exists already; there is nothing to reserve.`,
      );
    }
    await audit(tx, project, { actor, action: 'endpoint.reserved', kind: 'Endpoint', name });
    return viewOf(ctx, tx, project, row, await secretsOf(ctx, tx, project));
  });
}

/** Deletes an endpoint or a reservation. Fault `conflict` while an active trigger uses it. */
export async function deleteEndpoint(ctx: FlowContext, project: ProjectRef, name: string, actor: Actor): Promise<void> {
  await inApply(ctx.db, project.id, async (tx) => {
    const row = await requireUnused(ctx, tx, project, name);
    await deleteEndpointRow(tx, row.id);
    await wishConflicting(tx, { projectId: project.id, except: null, names: [name] });
    await audit(tx, project, { actor, action: 'endpoint.deleted', kind: 'Endpoint', name });
  });
}

/** An endpoint that no trigger uses. Faults as `deleteEndpoint`. */
export async function requireUnused(
  ctx: FlowContext,
  sql: Sql,
  project: ProjectRef,
  name: string,
): Promise<EndpointRow> {
  const row = await requireEndpoint(ctx, sql, project, name);
  const [user] = await listTriggerHeads(sql, project.id, { endpointId: row.id, limit: 1 });
  if (user === undefined) return row;
  const text = `Webhook endpoint ${name} is used by a trigger of agent ${user.agent}.`;
  throw new Fault('conflict', 'endpoint-in-use', text);
}

export interface EndpointProblem {
  readonly severity: 'error' | 'warning';
  readonly message: string;
}
export interface EndpointView {
  readonly endpoint: EndpointRow;
  readonly ingestUrl: string;
  readonly triggers: readonly Pick<TriggerHead, 'agent' | 'ordinal' | 'event' | 'status'>[];
  readonly problems: readonly EndpointProblem[];
}

type Secrets = Awaited<ReturnType<typeof readSecretNames>>;
const secretsOf = (ctx: FlowContext, sql: Sql, project: ProjectRef): Promise<Secrets> =>
  readSecretNames(sql, project.orgId, project.id, ctx.runtime.now());

async function requireEndpoint(ctx: FlowContext, sql: Sql, project: ProjectRef, name: string): Promise<EndpointRow> {
  const row = await endpointByName(sql, project.id, name, ctx.runtime.now());
  if (row === undefined) throw new Fault('not_found', 'endpoint-not-found', `There is no webhook endpoint ${name}.`);
  return row;
}

/** An endpoint with its triggers and problems (docs/reference/webhook-endpoints.md#problems). */
export async function showEndpoint(ctx: FlowContext, project: ProjectRef, name: string): Promise<EndpointView> {
  const row = await requireEndpoint(ctx, ctx.db, project, name);
  return viewOf(ctx, ctx.db, project, row, await secretsOf(ctx, ctx.db, project));
}

/** The same for a page of endpoints. */
export async function showEndpoints(
  ctx: FlowContext,
  project: ProjectRef,
  rows: readonly EndpointRow[],
): Promise<EndpointView[]> {
  const secrets = await secretsOf(ctx, ctx.db, project);
  const triggers = await listTriggerHeads(ctx.db, project.id, { limit: triggersMax, onEndpoints: true });
  const byEndpoint = Map.groupBy(triggers, (row) => row.endpoint);
  return rows.map((row) => view(ctx, row, byEndpoint.get(row.name) ?? [], secrets));
}

async function viewOf(
  ctx: FlowContext,
  sql: Sql,
  project: ProjectRef,
  row: EndpointRow,
  secrets: Secrets,
): Promise<EndpointView> {
  const triggers = await listTriggerHeads(sql, project.id, { endpointId: row.id, limit: triggersMax });
  return view(ctx, row, triggers, secrets);
}

function view(ctx: FlowContext, row: EndpointRow, triggers: readonly TriggerHead[], secrets: Secrets): EndpointView {
  return {
    endpoint: row,
    ingestUrl: ingestUrl(ctx.baseUrl, row.slug),
    triggers: triggers.map(({ agent, ordinal, event, status }) => ({ agent, ordinal, event, status })),
    problems: problemsOf(row, triggers, secrets),
  };
}

function problemsOf(row: EndpointRow, triggers: readonly TriggerHead[], secrets: Secrets): EndpointProblem[] {
  const { auth } = row;
  if (auth === null) {
    const message = `The endpoint is only reserved; an apply that declares ${row.name} with auth makes it ready.`;
    return [{ severity: 'warning', message }];
  }
  const problems: EndpointProblem[] = [];
  const name = auth.kind === 'none' ? undefined : (auth as { readonly secretRef?: string }).secretRef;
  if (auth.kind !== 'none' && name === undefined) {
    problems.push({ severity: 'error', message: `Auth ${auth.kind} has no secretRef; every call is refused.` });
  } else if (name !== undefined && !secrets.live.has(name)) {
    const what = secrets.expired.has(name) ? messageOf('secretExpired', name) : messageOf('secretNotFound', name);
    problems.push({ severity: 'error', message: `${what}; every call is refused until it has a value.` });
  }
  if (!triggers.some((trigger) => trigger.status === 'active')) {
    problems.push({ severity: 'warning', message: 'No active trigger uses the endpoint; its events wake nobody.' });
  }
  return problems;
}
