// Bindings as they are read: who holds which target.

import type { JsonObject } from '../../../domain/json.ts';
import type { BindingTarget, Continuity, Lifecycle } from '../../../domain/spec.ts';
import { type EarlyEnd, earlyEnd, endingEarly, jsonBytes, type Sized } from '../schema/early-end.ts';
import type { Sql } from '../store.ts';

export interface BindingRow {
  readonly id: string;
  readonly agent: string;
  /** Null: an agent's claim that waits for a replacement. */
  readonly sessionId: string | null;
  readonly target: { readonly type: BindingTarget; readonly key: string };
  readonly state: 'active' | 'released';
  readonly lifecycle: Lifecycle;
  readonly continuity: Continuity;
  readonly context: JsonObject | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly releasedAt: Date | null;
}

/** Of `svc.bindings b`. */
export const bindingColumns = `b.id, b.agent, b.session_id as "sessionId",
  json_build_object('type', b.target_type, 'key', b.target_key) as target, b.state, b.lifecycle, b.continuity, b.context,
  b.created_at as "createdAt", b.updated_at as "updatedAt", b.released_at as "releasedAt"`;

export interface BindingFilter {
  /** Released ones too. */
  readonly all: boolean;
  readonly agent?: string | undefined;
  readonly sessionId?: string | undefined;
  /** Only those made before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** A page of a project's bindings, newest first. */
export async function listBindings(sql: Sql, projectId: string, filter: BindingFilter): Promise<EarlyEnd<BindingRow>> {
  const listed = `select ${bindingColumns} from svc.bindings b
      where b.project_id = $1::uuid and ($2::boolean or b.state = 'active')
        and ($3::text is null or b.agent = $3::text) and ($4::uuid is null or b.session_id = $4::uuid)
        and ($5::uuid is null or b.id < $5::uuid)
      order by b.id desc limit $6::int`;
  const text = endingEarly(listed, { size: jsonBytes('context'), order: 'id desc' });
  const { all, agent, sessionId, before, limit } = filter;
  const values = [projectId, all, agent ?? null, sessionId ?? null, before ?? null, limit];
  return earlyEnd((await sql.query<BindingRow & Sized>(text, values)).rows);
}

/** A binding of a project, also a released one. */
export async function bindingById(sql: Sql, projectId: string, id: string): Promise<BindingRow | undefined> {
  const { rows } = await sql.query<BindingRow>(
    `select ${bindingColumns} from svc.bindings b where b.project_id = $1::uuid and b.id = $2::uuid`,
    [projectId, id],
  );
  return rows[0];
}

/**
 * Claims that wait for a session that will not come, oldest first: of an agent that is gone, and what a slot's session held
 * when it failed, of an agent whose slots nobody fills again by now, or whose slot was filled meanwhile.
 */
export async function orphanedClaims(
  sql: Sql,
  limit: number,
  /** Projects that are left out. */
  except: readonly string[] = [],
): Promise<{ readonly id: string; readonly projectId: string }[]> {
  const { rows } = await sql.query<{ id: string; projectId: string }>(
    `select b.id, b.project_id as "projectId" from svc.bindings b
      where b.session_id is null and b.state = 'active' and not exists (
          select from svc.agents a where a.id = b.agent_id and (b.continuity = 'agent' or (a.spec ->> 'replace' = 'auto'
            and not exists (select from svc.sessions s where s.agent_id = a.id and s.live))))
        and b.project_id <> all($2::uuid[]) order by b.id limit $1::int`,
    [limit, except],
    'orphaned-claims',
  );
  return rows;
}
