// Of svc.projects: whether sessions tell where they came from, and who may answer them there.

import type { Approvers } from '../../../domain/notification.ts';
import type { Sql } from '../store.ts';

export interface OriginNotification {
  readonly notify: boolean;
  readonly approvers: Approvers;
}

/** How a project tells; one that is gone tells nothing. */
export async function originNotificationOf(sql: Sql, projectId: string): Promise<OriginNotification> {
  const { rows } = await sql.query<OriginNotification>(
    'select notify, approvers from svc.projects where id = $1::uuid',
    [projectId],
  );
  return rows[0] ?? { notify: false, approvers: {} };
}
