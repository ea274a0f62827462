// Environments and identities that inline objects compile into: shared by all who generate them, changed only by a
// sole owner, gone with the last user (docs/reference/repositories.md#ownership).

import { diagnosticCodes } from '../../domain/codes.ts';
import { asJson } from '../../domain/spec.ts';
import type {
  Action,
  AgentsPlan,
  Change,
  CurrentAgent,
  CurrentGenerated,
  Desired,
  DesiredAsset,
  DesiredResource,
  GeneratedWrite,
  PlanOptions,
  UserWrite,
  Writes,
} from './types.ts';
import { diffJson, type Facts, ownerName, type Report } from './stored.ts';

export type DesiredGenerated = Exclude<DesiredResource, { readonly kind: 'Agent' }>;

export interface GeneratedPlan {
  readonly actions: readonly Action[];
  readonly writes: readonly GeneratedWrite[];
  readonly deletes: readonly string[];
  readonly users: readonly UserWrite[];
  readonly userDeletes: Writes['userDeletes'];
  readonly assets: readonly DesiredAsset[];
}

const keyOf = (item: { readonly kind: string; readonly name: string }): string => `${item.kind}/${item.name}`;

/** `Kind/name` → names of the desired agents that refer to it. */
function desiredUsers(agents: AgentsPlan): Map<string, string[]> {
  const users = new Map<string, string[]>();
  const add = (key: string, agent: string): void => {
    const list = users.get(key);
    if (list === undefined) users.set(key, [agent]);
    else list.push(agent);
  };
  for (const agent of agents.desired) {
    add(`Environment/${agent.spec.environment}`, agent.name);
    if (agent.spec.identity !== undefined) add(`Identity/${agent.spec.identity}`, agent.name);
  }
  return users;
}

/** Compares generated resources and their users with the stored ones. */
export function planGenerated(
  desired: Desired,
  agents: AgentsPlan,
  facts: Facts,
  options: PlanOptions,
  report: Report,
): GeneratedPlan {
  const actions: Action[] = [];
  const writes: GeneratedWrite[] = [];
  const assets: DesiredAsset[] = [];
  const users: UserWrite[] = [];
  const referring = desiredUsers(agents);
  const wanted = new Map<string, ReadonlySet<string>>();
  const settled = settledAgents(agents);
  for (const resource of desired.resources) {
    if (resource.kind === 'Agent') continue;
    const key = keyOf(resource);
    const names = new Set(referring.get(key) ?? []);
    wanted.set(key, names);
    const stored = facts.generatedByKey.get(key);
    const foreign = foreignUsers(stored, settled, facts, options);
    if (stored !== undefined && (stored.agreedHash ?? stored.hash) !== resource.hash && foreign.length > 0) {
      reportConflict(resource, foreign, facts, report);
    }
    const asset = avatarToStore(resource, desired, facts, options, report);
    if (asset !== undefined && !assets.some((item) => item.sha256 === asset.sha256)) assets.push(asset);
    const action = actionFor(resource, stored, asset);
    actions.push(action);
    if (stored?.hash !== resource.hash) writes.push(writeOf(resource));
    const before = new Set(stored?.users.map((id) => facts.agentById.get(id)?.name));
    for (const agent of names) {
      if (!before.has(agent)) users.push({ kind: resource.kind, name: resource.name, agent });
    }
  }
  const { deletes, userDeletes } = planLeaving(wanted, referring, agents, facts, options);
  for (const item of deletes) actions.push({ op: 'delete', kind: item.kind, name: item.name, changes: [] });
  return { actions, writes, deletes: deletes.map((item) => item.id), users, userDeletes, assets };
}

const writeOf = (resource: DesiredGenerated): GeneratedWrite => ({
  kind: resource.kind,
  name: resource.name,
  spec: asJson(resource.spec),
  hash: resource.hash,
});

function actionFor(
  resource: DesiredGenerated,
  stored: CurrentGenerated | undefined,
  asset: DesiredAsset | undefined,
): Action {
  const base = { kind: resource.kind, name: resource.name };
  if (stored === undefined) return { op: 'create', ...base, changes: [] };
  const changes: Change[] = stored.hash === resource.hash ? [] : diffJson(stored.spec, asJson(resource.spec));
  if (stored.hash === resource.hash && asset !== undefined) {
    // The spec is stored and the picture that it names is not: the picture was lost.
    changes.push({ path: 'avatar.sha256', from: null, to: asset.sha256 });
  }
  return { op: stored.hash !== resource.hash || changes.length > 0 ? 'update' : 'unchanged', ...base, changes };
}

/** Names that this apply settles by itself: the agents of the tree and those that leave. */
function settledAgents(agents: AgentsPlan): ReadonlySet<string> {
  return new Set([...agents.desired, ...agents.deletes].map((agent) => agent.name));
}

/** Users that belong to another owner and stay so: their word on the content counts as much as ours. */
function foreignUsers(
  stored: CurrentGenerated | undefined,
  settled: ReadonlySet<string>,
  facts: Facts,
  options: PlanOptions,
): CurrentAgent[] {
  const users = (stored?.users ?? []).flatMap((id) => facts.agentById.get(id) ?? []);
  return users.filter((agent) => agent.repositoryId !== options.owner && !settled.has(agent.name));
}

function reportConflict(
  resource: DesiredGenerated,
  foreign: readonly CurrentAgent[],
  facts: Facts,
  report: Report,
): void {
  const owners = [...new Set(foreign.map((agent) => ownerName(facts.current, agent.repositoryId)))].sort();
  const agents = foreign.map((agent) => agent.name).sort();
  report({
    resource,
    path: [],
    code: 'resource-conflict',
    message: `${diagnosticCodes['resource-conflict']}: ${resource.kind} ${resource.name} has different content in ${owners.join(' and ')} (agent ${agents.join(', ')})`,
    hint: 'Give one of them another name, or make their content the same.',
  });
}

/** The avatar whose bytes are to be stored; one that nobody has is an error (docs/reference/compile.md#identities). */
function avatarToStore(
  resource: DesiredGenerated,
  desired: Desired,
  facts: Facts,
  options: PlanOptions,
  report: Report,
): DesiredAsset | undefined {
  const avatar = resource.kind === 'Identity' ? resource.spec.avatar : undefined;
  if (avatar?.sha256 === undefined || facts.current.assets.has(avatar.sha256)) return undefined;
  const carried = desired.assets.find((asset) => asset.sha256 === avatar.sha256);
  if (carried !== undefined) return carried;
  if (!options.shippedAvatars.includes(avatar.sha256)) {
    report({
      resource,
      path: ['avatar', 'sha256'],
      code: 'asset-missing',
      message: `Avatar ${avatar.asset} is not in the tree, and no stored or shipped avatar has the hash ${avatar.sha256}`,
      hint: 'Add the file, or correct the hash.',
    });
  }
  return undefined;
}

/**
 * Users that no longer generate a resource, and the resources to which no agent refers any more: whoever generates one
 * refers to it by name, and so may an agent that does not.
 */
function planLeaving(
  wanted: ReadonlyMap<string, ReadonlySet<string>>,
  referring: ReadonlyMap<string, readonly string[]>,
  agents: AgentsPlan,
  facts: Facts,
  options: PlanOptions,
): { deletes: CurrentGenerated[]; userDeletes: Writes['userDeletes'] } {
  const deletes: CurrentGenerated[] = [];
  const userDeletes: { resourceId: string; agentId: string }[] = [];
  const inTree = new Set(agents.desired.map((agent) => agent.name));
  const settled = settledAgents(agents);
  const stillReferred = new Set<string>(referring.keys());
  for (const agent of facts.current.agents) {
    if (settled.has(agent.name)) continue;
    stillReferred.add(`Environment/${agent.environment}`).add(`Identity/${agent.identity}`);
  }
  for (const item of facts.current.generated) {
    const key = keyOf(item);
    for (const id of item.users) {
      const agent = facts.agentById.get(id);
      // The rows of one that leaves go with it.
      if (agent === undefined || !inTree.has(agent.name)) continue;
      if (!wanted.get(key)?.has(agent.name)) userDeletes.push({ resourceId: item.id, agentId: id });
    }
    if (options.prune && !stillReferred.has(key)) deletes.push(item);
  }
  return { deletes, userDeletes };
}
