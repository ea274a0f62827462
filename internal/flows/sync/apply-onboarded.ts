// The event of a project that is on board (contract, section 4): `svc.project.onboarded`, once, with the first apply that
// completes; before it there is no trigger that could hear of it.

import type { Sql } from '../../adapters/store/store.ts';
import { recordEvent } from '../../adapters/store/events/events.ts';
import { takeOnBoard } from '../../adapters/store/tenancy/tenancy.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import type { FlowContext } from '../context.ts';

/** Inside the transaction of an apply; whoever calls asks for routing. */
export async function recordOnboarded(ctx: FlowContext, tx: Sql, projectId: string): Promise<void> {
  const now = ctx.runtime.now();
  const project = await takeOnBoard(tx, projectId, now);
  if (project === undefined) return;
  const { id, slug, name } = project;
  await recordEvent(tx, {
    id: timeOrderedId(ctx.runtime),
    projectId,
    key: 'svc.project.onboarded',
    dedupHash: null,
    raw: null,
    payload: JSON.stringify({ project: { id, slug, name } }),
    receivedAt: now,
  });
}
