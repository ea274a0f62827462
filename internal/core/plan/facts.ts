// Lookups over the stored state, built once per plan.

import type {
  Current,
  CurrentAgent,
  CurrentConnection,
  CurrentEndpoint,
  CurrentGenerated,
  CurrentSchedule,
  CurrentTrigger,
} from './types.ts';

export interface Facts {
  readonly current: Current;
  readonly agentByName: ReadonlyMap<string, CurrentAgent>;
  readonly agentById: ReadonlyMap<string, CurrentAgent>;
  /** By `Kind/name`. */
  readonly generatedByKey: ReadonlyMap<string, CurrentGenerated>;
  readonly endpointByName: ReadonlyMap<string, CurrentEndpoint>;
  readonly endpointById: ReadonlyMap<string, CurrentEndpoint>;
  readonly connectionByName: ReadonlyMap<string, CurrentConnection>;
  /** By `agentId/ordinal`. */
  readonly triggerByKey: ReadonlyMap<string, CurrentTrigger>;
  readonly scheduleByKey: ReadonlyMap<string, CurrentSchedule>;
  readonly triggersByAgent: ReadonlyMap<string, readonly CurrentTrigger[]>;
  readonly schedulesByAgent: ReadonlyMap<string, readonly CurrentSchedule[]>;
}

export const rowKey = (agentId: string, ordinal: number): string => `${agentId}/${ordinal}`;

const byKey = <T>(items: readonly T[], key: (item: T) => string): Map<string, T> =>
  new Map(items.map((item) => [key(item), item]));

/** Indexes the stored state. */
export function indexFacts(current: Current): Facts {
  return {
    current,
    agentByName: byKey(current.agents, (agent) => agent.name),
    agentById: byKey(current.agents, (agent) => agent.id),
    generatedByKey: byKey(current.generated, (item) => `${item.kind}/${item.name}`),
    endpointByName: byKey(current.endpoints, (endpoint) => endpoint.name),
    endpointById: byKey(current.endpoints, (endpoint) => endpoint.id),
    connectionByName: byKey(current.connections, (connection) => connection.name),
    triggerByKey: byKey(current.triggers, (row) => rowKey(row.agentId, row.ordinal)),
    scheduleByKey: byKey(current.schedules, (row) => rowKey(row.agentId, row.ordinal)),
    triggersByAgent: Map.groupBy(current.triggers, (row) => row.agentId),
    schedulesByAgent: Map.groupBy(current.schedules, (row) => row.agentId),
  };
}

/** How an owner is named to people. */
export function ownerName(current: Current, repositoryId: string | null): string {
  if (repositoryId === null) return 'manual';
  return `repository ${current.repositories.get(repositoryId) ?? repositoryId}`;
}
