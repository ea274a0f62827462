// What a launch reads: the revision that the session was started from, and what its environment and project are now. Where the
// environment of the revision is gone, as when it got another name, it is the one that the agent has now.

import type { CurrentConnection } from '../../../core/plan/types.ts';
import type { ResourceLimits } from '../../../domain/catalog.ts';
import type { AgentSpec, EnvironmentSpec } from '../../../domain/spec.ts';
import { isSkipped } from '../../../domain/tool-needs.ts';
import type { Sql } from '../store.ts';
import type { ProjectNetwork } from '../tenancy/tenancy.ts';

export interface LaunchFacts {
  /**
   * Without the optional tools whose connection has no active grant: a launch does not wait for those. Its `environment`
   * names the one below.
   */
  readonly spec: AgentSpec;
  /** Null: its agent is gone, and no other generates it. */
  readonly environment: EnvironmentSpec | null;
  readonly project: {
    readonly id: string;
    readonly slug: string;
    readonly orgId: string;
    readonly orgSlug: string;
    readonly limits: ResourceLimits | null;
    readonly network: ProjectNetwork | null;
  };
  /** True where the trigger that spawned it declared checks. */
  readonly hasChecks: boolean;
}

/** In one statement; undefined where the revision is gone. */
export async function readLaunchFacts(sql: Sql, sessionId: string): Promise<LaunchFacts | undefined> {
  const { rows } = await sql.query<
    LaunchFacts & { readonly environmentName: string | null; readonly connections: readonly CurrentConnection[] }
  >(
    `select r.spec, g.spec as environment, g.name as "environmentName",
            coalesce((select json_agg(json_build_object('id', c.id, 'name', c.name, 'provider', c.provider,
                'product', c.product, 'active', c.status in ('active', 'degraded', 'scope_required')))
               from svc.connections c where c.project_id = s.project_id), '[]'::json) as connections,
            json_build_object('id', p.id, 'slug', p.slug, 'orgId', o.id, 'orgSlug', o.slug, 'limits', p.limits, 'network', p.network) as project,
            exists (select from svc.checks c where c.session_id = s.id) as "hasChecks"
       from svc.sessions s
       join svc.agent_revisions r on r.agent_id = s.agent_id and r.revision = s.revision
       join svc.projects p on p.id = s.project_id
       join svc.orgs o on o.id = p.org_id
       left join svc.agents a on a.id = s.agent_id
       left join lateral (
         select g.name, g.spec from svc.generated_resources g
          where g.project_id = s.project_id and g.kind = 'Environment'
            and g.name in (r.spec ->> 'environment', a.spec ->> 'environment')
          order by g.name <> r.spec ->> 'environment' limit 1) g on true
      where s.id = $1::uuid`,
    [sessionId],
    'launch-facts',
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  const { connections, environmentName, ...facts } = row;
  const tools = Object.entries(facts.spec.tools).filter(([, tool]) => !isSkipped(tool, connections));
  const environment = environmentName ?? facts.spec.environment;
  return { ...facts, spec: { ...facts.spec, environment, tools: Object.fromEntries(tools) } };
}
