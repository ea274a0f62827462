// Which agents an apply creates, changes, takes over, deletes or leaves (docs/reference/repositories.md#ownership).

import { asJson } from '../../domain/spec.ts';
import { diffJson, type Facts, ownerName, type Report } from './stored.ts';
import type {
  Action,
  AgentWrite,
  Change,
  CurrentAgent,
  Desired,
  DesiredResource,
  Held,
  PlanOptions,
  Writes,
} from './types.ts';

export type DesiredAgent = Extract<DesiredResource, { readonly kind: 'Agent' }>;

export interface AgentsPlan {
  readonly desired: readonly DesiredAgent[];
  readonly writes: readonly AgentWrite[];
  readonly sources: Writes['sources'];
  /** Agents that leave with this apply. */
  readonly deletes: readonly CurrentAgent[];
  /** By agent name, of those that exist: what differs, empty for none. */
  readonly changes: ReadonlyMap<string, readonly Change[]>;
  /** Agents that the owner has before the apply. */
  readonly owned: number;
}

const isAgent = (resource: DesiredResource): resource is DesiredAgent => resource.kind === 'Agent';
const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1);

/** Names of stored agents and generated resources whose stored spec a plan needs to see, because the hash differs. */
export function changedResources(desired: Desired, facts: Facts): { agents: string[]; generated: string[] } {
  const agents: string[] = [];
  const generated: string[] = [];
  for (const resource of desired.resources) {
    if (isAgent(resource)) {
      const stored = facts.agentByName.get(resource.name);
      if (stored !== undefined && stored.hash !== resource.hash) agents.push(stored.id);
    } else {
      const stored = facts.generatedByKey.get(`${resource.kind}/${resource.name}`);
      if (stored !== undefined && stored.hash !== resource.hash) generated.push(stored.id);
    }
  }
  return { agents, generated };
}

/** Compares agents with the stored ones; a name owned by another is an error unless the apply adopts. */
export function* planAgents(
  desired: Desired,
  facts: Facts,
  options: PlanOptions,
  report: Report,
): Generator<void, AgentsPlan> {
  const agents = desired.resources.filter(isAgent).toSorted(byName);
  const writes: AgentWrite[] = [];
  const sources: { id: string; source: DesiredAgent['source'] }[] = [];
  const changes = new Map<string, readonly Change[]>();
  for (const agent of agents) {
    yield;
    const stored = facts.agentByName.get(agent.name);
    if (stored === undefined) {
      writes.push({ ...writeOf(agent), id: null, revision: 1, newRevision: true });
      continue;
    }
    const foreign = stored.repositoryId !== options.owner;
    if (foreign && !options.adopt) reportForeign(agent, ownerName(facts.current, stored.repositoryId), report);
    const newRevision = stored.hash !== agent.hash;
    const fields = newRevision ? diffJson(stored.spec, asJson(agent.spec)) : [];
    if (foreign) fields.push(ownerChange(facts, stored.repositoryId, options.owner));
    changes.set(agent.name, fields);
    if (newRevision || foreign) {
      writes.push({ ...writeOf(agent), id: stored.id, revision: stored.revision + (newRevision ? 1 : 0), newRevision });
    } else if (stored.source.file !== agent.source.file || stored.source.document !== agent.source.document) {
      sources.push({ id: stored.id, source: agent.source });
    }
  }
  const wanted = new Set(agents.map((agent) => agent.name));
  const owned = facts.current.agents.filter((agent) => agent.repositoryId === options.owner);
  const deletes = options.prune ? owned.filter((agent) => !wanted.has(agent.name)).toSorted(byName) : [];
  return { desired: agents, writes, sources, deletes, changes, owned: owned.length };
}

const writeOf = (agent: DesiredAgent) => ({
  name: agent.name,
  spec: asJson(agent.spec),
  hash: agent.hash,
  source: agent.source,
});

function ownerChange(facts: Facts, from: string | null, to: string | null): Change {
  return { path: 'owner', from: ownerName(facts.current, from), to: ownerName(facts.current, to) };
}

function reportForeign(agent: DesiredAgent, owner: string, report: Report): void {
  report({
    resource: agent,
    path: [],
    code: 'owner-conflict',
    message: `Agent ${agent.name} is owned by ${owner}`,
    hint: 'Rename this agent, or take it over: svc apply --adopt, svc repo edit NAME --adopt.',
  });
}

/** Actions of agents; `drift` adds what differs in the rows beneath an agent, such as a trigger that was skipped before. */
export function agentActions(plan: AgentsPlan, facts: Facts, drift: ReadonlyMap<string, readonly Change[]>): Action[] {
  const written = new Set(plan.writes.map((write) => write.name));
  const actions: Action[] = plan.desired.map((agent) => {
    const base = { kind: 'Agent', name: agent.name } as const;
    if (!facts.agentByName.has(agent.name)) return { op: 'create', ...base, changes: [] };
    const changes = [...(plan.changes.get(agent.name) ?? []), ...(drift.get(agent.name) ?? [])];
    const isWritten = written.has(agent.name);
    return { op: isWritten || changes.length > 0 ? 'update' : 'unchanged', ...base, changes };
  });
  for (const agent of plan.deletes) actions.push({ op: 'delete', kind: 'Agent', name: agent.name, changes: [] });
  return actions;
}

/** Deletes past this many are held: more than `max(5, half)` of the owned agents, or than the configured limit. */
export const guardDeletesMin = 5;

/** Whether a sync waits for approval (docs/reference/repositories.md#guard). */
export function guard(desired: Desired, plan: AgentsPlan, options: PlanOptions): Held | undefined {
  if (options.guard === 'off') return undefined;
  const { owned } = plan;
  const deletes = plan.deletes.length;
  if (!desired.hasSvc && owned > 0) {
    const message = `The tree has no .svc/ directory while its repository owns ${owned} agents; nothing changes until the run is approved`;
    return { reason: 'no-svc-directory', message, deletes, owned };
  }
  const limit = options.guard.deleteMax ?? Math.max(guardDeletesMin, owned / 2);
  if (deletes <= limit) return undefined;
  const message = `The sync would delete ${deletes} of ${owned} agents, and the limit is ${Math.floor(limit)}; nothing changes until the run is approved`;
  return { reason: 'too-many-deletes', message, deletes, owned };
}
