// The status of a connection: changed in one transaction with the entry, the lifecycle event (docs/reference/connections.md#connections) and
// the syncs that follow from it. A status that it has already is no change and leaves nothing.

import { setConnectionStatus } from '../adapters/store/connections/connections.ts';
import { recordEvent } from '../adapters/store/events/events.ts';
import { enqueueResyncs } from '../adapters/store/repositories/resyncs.ts';
import type { Sql } from '../adapters/store/store.ts';
import { recordAudit } from '../adapters/store/tenancy/audit.ts';
import { type ConnectionStatus, isUsable } from '../domain/connection.ts';
import type { Actor, FlowContext } from './context.ts';
import { enqueueRouting } from './enqueue.ts';

export interface StatusChange {
  readonly connection: {
    readonly id: string;
    readonly name: string;
    readonly provider: string;
    readonly projectId: string;
    readonly orgId: string;
  };
  readonly to: ConnectionStatus;
  /** One word; never a provider's text. */
  readonly reason?: string | undefined;
  readonly actor: Actor;
  /** Only from one of these. */
  readonly from?: readonly ConnectionStatus[];
  /** Holds the body of the delivery that said so. */
  readonly raw?: Buffer | null;
  readonly dedupHash?: Buffer | null;
}

export const serviceActor = (name: string): Actor => ({ kind: 'system', id: null, name });

/**
 * The id of the event; undefined where nothing changed. It does not wait for an apply that is under way, which may be long,
 * while tokens are at stake: what that apply took for granted is looked at again by the sync that is asked for here.
 */
export async function changeStatus(ctx: FlowContext, tx: Sql, change: StatusChange): Promise<string | undefined> {
  const { connection, to, reason, actor } = change;
  const now = ctx.runtime.now();
  const before = await setConnectionStatus(tx, { id: connection.id, to, reason, from: change.from, now });
  if (before === undefined) return undefined;
  const began = to === 'active' && ['authorization_required', 'removed', 'inactive'].includes(before);
  const what = to === 'removed' ? 'removed' : began ? 'established' : 'changed';
  await recordAudit(tx, {
    orgId: connection.orgId,
    projectId: connection.projectId,
    principal: actor,
    action: `connection.${what}`,
    subject: { kind: 'Connection', name: connection.name },
    detail: {
      provider: connection.provider,
      connectionId: connection.id,
      from: before,
      status: to,
      ...(reason !== undefined && { reason }),
    },
  });
  const id = ctx.runtime.uuid();
  await recordEvent(tx, {
    id,
    projectId: connection.projectId,
    key: `svc.connection.${what}`,
    dedupHash: change.dedupHash ?? null,
    raw: change.raw ?? null,
    payload: JSON.stringify({
      provider: connection.provider,
      connection: connection.name,
      kind: connection.provider === 'mcp' ? 'mcp' : 'provider',
      projectId: connection.projectId,
      status: to,
      ...(reason !== undefined && { reason }),
    }),
    receivedAt: now,
  });
  await enqueueRouting(ctx, tx, [connection.projectId]);
  if (isUsable(before) !== isUsable(to)) {
    await enqueueResyncs(tx, { orgId: connection.orgId, projectId: connection.projectId });
  }
  return id;
}
