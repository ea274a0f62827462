// The event of a project that has been made (contract, section 4): `svc.project.onboarded`, once.

import { createHash } from 'node:crypto';
import type { Sql } from '../../adapters/store/db.ts';
import { recordEvent } from '../../adapters/store/events.ts';
import type { ProjectRow } from '../../adapters/store/tenancy.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import type { FlowContext } from '../context.ts';
import { enqueueRouting } from '../enqueue.ts';

/** Inside the transaction that makes the project. */
export async function recordOnboarded(ctx: FlowContext, tx: Sql, project: ProjectRow): Promise<void> {
  const { id, slug, name } = project;
  await recordEvent(tx, {
    id: timeOrderedId(ctx.runtime),
    projectId: id,
    key: 'svc.project.onboarded',
    dedupHash: createHash('sha256').update(`svc.project.onboarded\0${id}`).digest(),
    raw: null,
    payload: JSON.stringify({ project: { id, slug, name } }),
    receivedAt: ctx.runtime.now(),
  });
  await enqueueRouting(ctx, tx, [id]);
}
