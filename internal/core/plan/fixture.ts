// A store in memory for tests of plans: it keeps what an apply would write, so that plans can be made one upon
// another. Only tests import it.

import { canonicalJson } from '../../domain/json.ts';
import { asJson, type AgentSpec, type EnvironmentSpec, type IdentitySpec, type Resource } from '../../domain/spec.ts';
import { heartbeatKey, scheduleId } from './rows.ts';
import type {
  ChangeSet,
  Current,
  CurrentConnection,
  Desired,
  DesiredAsset,
  DesiredResource,
  PlanOptions,
} from './types.ts';

/** A readable stand-in for SHA-256: distinct texts give distinct words, which is all that a plan asks of it. */
export function fakeHash(text: string): string {
  let hash = 2166136261n;
  for (const char of text) hash = BigInt.asUintN(64, (hash ^ BigInt(char.codePointAt(0) ?? 0)) * 1099511628211n);
  return hash.toString(16);
}

const agentTable: AgentSpec = {
  harness: 'harness-a',
  environment: 'base',
  env: {},
  mounts: [],
  tools: {},
  triggers: [],
  session: {},
  bindings: {},
};
const environmentTable: EnvironmentSpec = {
  image: { kind: 'preset', name: 'base' },
  env: {},
  steps: [],
  setup: [],
  approvals: 'bypass',
};

const hashed = (resource: Resource): DesiredResource => ({
  ...resource,
  hash: fakeHash(canonicalJson(asJson(resource.spec))),
});

export const agent = (
  name: string,
  spec: Partial<AgentSpec> = {},
  file = `.svc/agents/${name}.yaml`,
): DesiredResource => hashed({ kind: 'Agent', name, source: { file, document: 0 }, spec: { ...agentTable, ...spec } });
export const environment = (name: string, spec: Partial<EnvironmentSpec> = {}): DesiredResource =>
  hashed({ kind: 'Environment', name, spec: { ...environmentTable, ...spec } });
export const identity = (name: string, spec: IdentitySpec): DesiredResource => hashed({ kind: 'Identity', name, spec });

export const tree = (resources: readonly DesiredResource[], assets: readonly DesiredAsset[] = []): Desired => ({
  resources,
  assets,
  hasSvc: true,
});

export interface World {
  readonly connections?: readonly CurrentConnection[];
  readonly secrets?: readonly string[];
  readonly expired?: readonly string[];
  readonly idle?: readonly string[];
  readonly repositories?: readonly string[];
  readonly reserved?: readonly string[];
}

export function emptyState(world: World = {}): Current {
  return {
    repositories: new Map((world.repositories ?? ['one', 'two']).map((name) => [name, name])),
    agents: [],
    generated: [],
    triggers: [],
    endpoints: (world.reserved ?? []).map((name) => ({ id: name, name, auth: null, status: 'reserved' })),
    schedules: [],
    connections: world.connections ?? [],
    liveSecrets: new Set(world.secrets),
    expiredSecrets: new Set(world.expired),
    idleSecrets: new Set(world.idle),
    assets: new Set(),
  };
}

export const options = (overrides: Partial<PlanOptions> = {}): PlanOptions => ({
  owner: 'one',
  prune: true,
  adopt: false,
  verify: false,
  guard: 'off',
  now: new Date('2026-11-21T00:00:00Z'),
  nextTick: (cron, _timezone, after) => (cron === 'never' ? null : new Date(after.getTime() + 60_000)),
  sha256: fakeHash,
  shippedAvatars: [],
  ...overrides,
});

/** The state after the writes of a plan; ids are the names, so that golden files stay readable. */
export function applied(current: Current, set: ChangeSet, owner: string | null): Current {
  const { writes } = set;
  const gone = new Set(writes.agentDeletes);
  const agents = new Map(current.agents.filter((item) => !gone.has(item.id)).map((item) => [item.name, item]));
  for (const write of writes.agents) {
    const spec = write.spec as unknown as AgentSpec;
    agents.set(write.name, {
      id: write.id ?? write.name,
      name: write.name,
      repositoryId: owner,
      revision: write.revision,
      hash: write.hash,
      source: write.source,
      environment: spec.environment,
      identity: spec.identity ?? null,
      spec: write.spec,
    });
  }
  for (const { id, source } of writes.sources) {
    for (const [name, item] of agents) if (item.id === id) agents.set(name, { ...item, source });
  }
  const endpoints = new Map(current.endpoints.map((item) => [item.name, item]));
  for (const write of writes.endpoints) endpoints.set(write.name, { id: write.name, ...write, status: 'ready' });
  return {
    ...current,
    agents: [...agents.values()],
    generated: appliedGenerated(current, set, gone),
    endpoints: [...endpoints.values()],
    ...appliedRows(current, set, gone),
    assets: new Set([...current.assets, ...writes.assets.map((asset) => asset.sha256)]),
  };
}

function appliedGenerated(current: Current, { writes }: ChangeSet, gone: ReadonlySet<string>): Current['generated'] {
  const generated = new Map(
    current.generated
      .filter((item) => !writes.generatedDeletes.includes(item.id))
      .map((item) => [item.id, { ...item, users: item.users.filter((id) => !gone.has(id)) }]),
  );
  for (const write of writes.generated) {
    const id = `${write.kind}/${write.name}`;
    generated.set(id, { id, ...write, users: generated.get(id)?.users ?? [] });
  }
  for (const { resourceId, agentId } of writes.userDeletes) {
    const item = generated.get(resourceId);
    if (item !== undefined) generated.set(resourceId, { ...item, users: item.users.filter((id) => id !== agentId) });
  }
  for (const write of writes.users) {
    const item = generated.get(`${write.kind}/${write.name}`);
    if (item !== undefined) generated.set(item.id, { ...item, users: [...item.users, write.agent] });
  }
  return [...generated.values()];
}

function appliedRows(current: Current, { writes }: ChangeSet, gone: ReadonlySet<string>) {
  const key = (agentId: string, ordinal: number): string => `${agentId}/${ordinal}`;
  const triggers = new Map(
    current.triggers.filter((row) => !gone.has(row.agentId)).map((row) => [key(row.agentId, row.ordinal), row]),
  );
  for (const row of writes.triggerDeletes) triggers.delete(key(row.agentId, row.ordinal));
  for (const row of writes.triggers) {
    triggers.set(key(row.agent, row.ordinal), {
      agentId: row.agent,
      ordinal: row.ordinal,
      event: row.event ?? heartbeatKey(row.agent, row.ordinal),
      endpointId: row.endpoint,
      connectionId: row.connectionId,
      status: row.status,
      hash: row.hash,
    });
  }
  const schedules = new Map(current.schedules.filter((row) => !gone.has(row.agentId)).map((row) => [row.id, row]));
  for (const id of writes.scheduleDeletes) schedules.delete(id);
  for (const row of writes.schedules) {
    const id = scheduleId(row.agent, row.ordinal);
    schedules.set(id, { id, agentId: row.agent, ordinal: row.ordinal, cron: row.cron, timezone: row.timezone });
  }
  return { triggers: [...triggers.values()], schedules: [...schedules.values()] };
}
