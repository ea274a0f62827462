// Routing of several projects in one transaction: of each only what waits quietly, a few events that came through no
// connection. Invariants: the transaction holds the routing lock of every project that `takeQuiet` answers with, and sees
// every event of it up to `upTo`; whom it would have to wait for, it leaves out.

import { bindingEvents } from '../../../domain/events.ts';
import type { Sql } from '../store.ts';
import type { PendingEvent } from './routing.ts';

export interface QuietProject {
  readonly projectId: string;
  readonly generation: number;
  /** Every event that anybody has numbered up to here is committed. */
  readonly upTo: number;
  /** The oldest events that wait, in the order of recording. */
  readonly waiting: readonly PendingEvent[];
  /** Whether any of them came through a connection or is about something, or tells of it: that needs a transaction of its own. */
  readonly isPlain: boolean;
}

interface Row {
  readonly projectId: string;
  readonly generation: number;
  readonly upTo: number;
  readonly id: string | null;
  readonly seq: number;
  readonly key: string;
  readonly scope: string | null;
  readonly connectionId: string | null;
  readonly targetKey: string | null;
  readonly receivedMs: number;
  readonly depth: number;
}

/** Takes the routing locks of those projects that are free, and tells what waits there, at most `most` events each. */
export async function takeQuiet(tx: Sql, projectIds: readonly string[], most: number): Promise<QuietProject[]> {
  const { rows } = await tx.query<Row>(
    `select project_id as "projectId", generation, upto as "upTo", id, seq, key, scope, connection_id as "connectionId",
            target_key as "targetKey", received_ms as "receivedMs", depth
       from svc.take_quiet($1::uuid[], $2::int)`,
    [projectIds, most],
    'take-quiet',
  );
  return [...Map.groupBy(rows, (row) => row.projectId)].map(([projectId, own]) => ({
    projectId,
    generation: own[0]?.generation ?? 0,
    upTo: own[0]?.upTo ?? 0,
    waiting: own.flatMap(({ id, seq, key, scope, receivedMs, depth }): PendingEvent[] =>
      id === null
        ? []
        : [{ id, seq, key, scope, connectionId: null, targetType: null, targetKey: null, receivedMs, depth }],
    ),
    // One that tells of a claim without a holder is itself about nothing.
    isPlain: own.every(
      (row) => row.connectionId === null && row.targetKey === null && !bindingEvents.includes(row.key),
    ),
  }));
}
