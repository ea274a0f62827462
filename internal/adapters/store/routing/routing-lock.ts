// The routing lock of a project: whoever changes which sessions live, what they claim and what they are bound to holds it.

import type { Sql } from '../store.ts';

/** A transaction that holds the routing lock of a project. */
export interface RoutingTx extends Sql {
  readonly projectId: string;
}

/** For whoever knows that it holds the lock, and for who changes nothing: in one snapshot the world is as a moment saw it. */
export const held = (tx: Sql, projectId: string): RoutingTx => ({
  projectId,
  query: (text, values, name) => tx.query(text, values, name),
});

/**
 * Takes the routing lock of a project for the rest of the transaction, however long that takes; taken again, it is the
 * same. Who may have to wait in earnest goes through project-lock.ts.
 */
export async function lockRouting(tx: Sql, projectId: string): Promise<RoutingTx> {
  await tx.query(
    `select pg_advisory_xact_lock(hashtextextended('svc.routing:' || $1::text, 0))`,
    [projectId],
    'lock-routing',
  );
  return held(tx, projectId);
}
