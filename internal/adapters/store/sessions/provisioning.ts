// svc.sessions: how the latest launch went, stage by stage.

import type { Sql } from '../store.ts';
import type { Lease } from './hosts.ts';

export interface ProvisioningStage {
  readonly stage: 'pulling' | 'scheduling' | 'claiming' | 'starting' | 'mounting' | 'setup';
  /** Of a step. */
  readonly name?: string;
  /** How long it took; of one that is going on, how long so far. */
  readonly ms: number;
  /** ISO 8601, when it began. */
  readonly at: string;
  readonly cache?: 'hit' | 'miss';
}

/** Nothing where the session is another host's by now. */
export async function noteProvisioning(sql: Sql, lease: Lease, stages: readonly ProvisioningStage[]): Promise<void> {
  await sql.query(
    'update svc.sessions set provisioning = $3::jsonb where id = $1::uuid and epoch = $2::bigint and live',
    [lease.sessionId, lease.epoch, JSON.stringify(stages)],
  );
}
