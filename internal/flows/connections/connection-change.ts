// What a change of a project's connections calls for, in the transaction of the change: the audit entry, the lifecycle event
// and the syncs of repositories whose agents may depend on it.

import type { AuditAction } from '../../domain/audit-actions.ts';
import type { ConnectionRow } from '../../adapters/store/connections/connections.ts';
import { enqueueRouting, recordEvent } from '../../adapters/store/events/events.ts';
import { wishPullLooks } from '../../adapters/store/repositories/pull-polls.ts';
import { enqueueResyncs } from '../../adapters/store/repositories/resyncs.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';

export interface ConnectionChange {
  readonly project: ProjectRef;
  readonly actor: Actor;
  readonly row: ConnectionRow;
  readonly what: 'established' | 'removed';
  readonly detail: JsonObject;
}

/** The audit entry, the lifecycle event (docs/reference/connections.md#intakes) and the syncs that a change of connections calls for. */
export async function recordConnectionChange(
  ctx: FlowContext,
  tx: Sql,
  { project, actor, row, what, detail }: ConnectionChange,
): Promise<void> {
  const now = ctx.runtime.now();
  await recordAudit(tx, {
    orgId: project.orgId,
    projectId: project.id,
    principal: actor,
    action: `connection.${what}`,
    subject: { kind: 'Connection', name: row.name },
    detail: { provider: row.provider, connectionId: row.id, ...detail },
  });
  await recordEvent(tx, {
    id: ctx.runtime.uuid(),
    projectId: project.id,
    key: `svc.connection.${what}`,
    dedupHash: null,
    raw: null,
    payload: JSON.stringify({
      provider: row.provider,
      connection: row.name,
      kind: row.provider === 'mcp' ? 'mcp' : 'provider',
      projectId: project.id,
    }),
    receivedAt: now,
  });
  await enqueueRouting(tx, ctx.ingest, [project.id]);
  await enqueueResyncs(tx, { orgId: project.orgId, projectId: project.id });
  await wishPullLooks(tx, { projectId: project.id, connection: row.name });
}

type Noted = Pick<ConnectionChange, 'project' | 'actor'> & {
  readonly row: Pick<ConnectionRow, 'id' | 'provider' | 'name'>;
};

const note = (action: AuditAction, sql: Sql, { project, actor, row }: Noted): Promise<void> =>
  recordAudit(sql, {
    orgId: project.orgId,
    projectId: project.id,
    principal: actor,
    action,
    subject: { kind: 'Connection', name: row.name },
    detail: { provider: row.provider, connectionId: row.id },
  });

/** The audit entry of a connection that waits for somebody's consent: nothing may use it yet. */
export const noteCreated = (tx: Sql, of: Noted): Promise<void> => note('connection.created', tx, of);

/** That of one whose server has forgotten, after its removal, what it gave. */
export const noteRevoked = (sql: Sql, of: Noted): Promise<void> => note('connection.revoked', sql, of);
