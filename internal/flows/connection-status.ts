// The status of a connection: changed in one transaction with the entry, the lifecycle event
// (docs/reference/connections.md#connections) and the syncs that follow from it. A status that it has already is no change
// and leaves nothing.

import { setConnectionStatus } from '../adapters/store/connections/connections.ts';
import { enqueueRouting, recordEvent } from '../adapters/store/events/events.ts';
import { wishPullLooks } from '../adapters/store/repositories/pull-polls.ts';
import { enqueueResyncs } from '../adapters/store/repositories/resyncs.ts';
import type { Sql } from '../adapters/store/store.ts';
import { recordAudit } from '../adapters/store/tenancy/audit.ts';
import { retryReports } from '../adapters/store/sessions/checks.ts';
import type { SealedConnection } from '../adapters/store/secrets/credentials.ts';
import { askedBy, type ConnectionStatus, isUsable } from '../domain/connection.ts';
import { Fault } from '../domain/fault.ts';
import type { Actor, FlowContext } from './context.ts';
import { endedTheProcess } from './in-hand.ts';

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
  /** Only from one of these, and where `fromReasons` is given, only where one of them is the reason. */
  readonly from?: readonly ConnectionStatus[];
  readonly fromReasons?: readonly string[];
  /** What the provider was asked with: where the connection is set up otherwise by now, the answer says nothing of it. */
  readonly asked?: Pick<SealedConnection, 'config' | 'sealed'>;
  readonly dedupHash?: Buffer | null;
}

export const serviceActor = (name: string): Actor => ({ kind: 'system', id: null, name });

/**
 * The id of the event; undefined where nothing changed. It does not wait for an apply that is under way, which may be long,
 * while tokens are at stake: what that apply took for granted is looked at again by the sync that is asked for here.
 */
export async function changeStatus(ctx: FlowContext, tx: Sql, change: StatusChange): Promise<string | undefined> {
  const { connection, to, reason } = change;
  const now = ctx.runtime.now();
  const { from, fromReasons } = change;
  const asked = change.asked && {
    config: Object.fromEntries(askedBy.map((key) => [key, change.asked?.config[key] ?? null])),
    sealed: change.asked.sealed,
  };
  const before = await setConnectionStatus(tx, { id: connection.id, to, reason, from, fromReasons, asked, now });
  if (before === undefined) return undefined;
  const id = await recordStatusChange(ctx, tx, { ...change, what: keyOf(before, to), before });
  if (isUsable(before) !== isUsable(to)) {
    await enqueueResyncs(tx, { orgId: connection.orgId, projectId: connection.projectId });
    // Of what happened meanwhile no delivery tells.
    await wishPullLooks(tx, { projectId: connection.projectId, connection: connection.name });
  }
  return id;
}

/** One that is suspended is as good as removed until it comes back; a scope or an address that is missed is neither. */
function keyOf(before: ConnectionStatus, to: ConnectionStatus): 'removed' | 'established' | 'changed' {
  const isOver = (status: ConnectionStatus): boolean => status === 'removed' || status === 'suspended';
  if (isOver(to)) return 'removed';
  const isNew = isOver(before) || before === 'authorization_required' || before === 'inactive';
  return isNew && isUsable(to) ? 'established' : 'changed';
}

/** Records what happened to a connection: the entry and the event, whose id is the answer. */
export async function recordStatusChange(
  ctx: FlowContext,
  tx: Sql,
  change: Omit<StatusChange, 'from' | 'fromReasons'> & {
    readonly what: 'removed' | 'established' | 'changed';
    readonly before: ConnectionStatus;
  },
): Promise<string> {
  const { connection, to, reason, actor, what, before } = change;
  const now = ctx.runtime.now();
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
    raw: null,
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
  await enqueueRouting(tx, ctx.ingest, [connection.projectId]);
  // What failed for want of this connection, or of what it lacked, is tried again.
  if (to === 'active') {
    await retryReports(tx, { projectId: connection.projectId, connectionId: connection.id, parked: endedTheProcess });
  }
  return id;
}

/**
 * A call of a connection, which says of its key what a check would: one that is not taken makes it degraded, and one that is
 * makes it active again. Throws what the call does.
 */
export async function withKey<T>(ctx: FlowContext, connection: SealedConnection, call: () => Promise<T>): Promise<T> {
  const note = (to: 'active' | 'degraded', more: Pick<StatusChange, 'from' | 'fromReasons' | 'reason'>) =>
    ctx.db.tx((tx) =>
      changeStatus(ctx, tx, { connection, asked: connection, actor: serviceActor(connection.provider), to, ...more }),
    );
  let answer: T;
  try {
    answer = await call();
  } catch (error) {
    const isRefused = error instanceof Fault && error.code === 'credential-refused';
    if (isRefused) await note('degraded', { from: ['active', 'degraded'], reason: 'credential-refused' });
    throw error;
  }
  const fromReasons = ['credential-refused', 'provider-unavailable'];
  if (connection.status === 'degraded') await note('active', { from: ['degraded'], fromReasons });
  return answer;
}
