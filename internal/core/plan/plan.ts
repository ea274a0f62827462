// Desired × current → ChangeSet: what an apply would create, change, delete and leave, field by field, with the rows to write
// and what follows from it (schedules, endpoints, triggers). Decides ownership, sharing of generated resources, the
// blast-radius guard, and every rule that needs stored state: connections, secrets, webhook endpoints, stored identities and
// avatars. Never reads a clock or a database, never writes, never makes an id. An error anywhere makes the whole set
// unusable. docs/reference/repositories.md#ownership and #guard.

import type { ResourceLimits } from '../../domain/catalog.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { overLimits } from '../../domain/limits.ts';
import { asJson } from '../../domain/spec.ts';
import { isStorable } from '../../domain/text.ts';
import { checkEnv, checkInjections, checkToken, checkTool } from './required.ts';
import { endpointName, type EndpointPlan, planEndpoints, planRows, type RowsPlan } from './rows.ts';
import {
  diffJson,
  type Facts,
  indexFacts,
  ownerName,
  type ResourceProblem,
  type Report,
  sortDiagnostics,
  toDiagnostic,
  toldName,
} from './stored.ts';
import { planGenerated, type GeneratedPlan } from './generated.ts';
import type {
  Action,
  AgentWrite,
  Change,
  ChangeSet,
  Consequences,
  Current,
  Desired,
  DesiredResource,
  Held,
  Op,
  PlanOptions,
  Writes,
  AgentsPlan,
  DesiredAgent,
} from './types.ts';

export { namesSlugs, unlistedSlugs } from './slugs.ts';
export { diffJson } from './stored.ts';
export { sortDiagnostics } from './stored.ts';
export { drifted } from './types.ts';

/** Ids of stored agents and generated resources whose `spec` the plan needs, because it differs from the desired one. */
export function specsNeeded(desired: Desired, current: Current): { agents: string[]; generated: string[] } {
  return changedResources(desired, indexFacts(current));
}

/**
 * Plans one apply. Pure and deterministic: equal input gives an equal ChangeSet. Where `ok` is false or `held` is set,
 * nothing of `writes` may be written.
 */
export function plan(desired: Desired, current: Current, options: PlanOptions): ChangeSet {
  const steps = planInSteps(desired, current, options);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** `plan`, stopping after each resource, so that whoever runs it can let others have their turn. */
export function* planInSteps(desired: Desired, current: Current, options: PlanOptions): Generator<void, ChangeSet> {
  const facts = indexFacts(current);
  const problems: ResourceProblem[] = [];
  const report: Report = (problem) => problems.push(problem);
  const agents = yield* planAgents(desired, facts, options, report);
  const held = guard(desired, agents, options);
  const generated = planGenerated(desired, agents, facts, options, report);
  yield;
  const rows = yield* planRows(agents, facts, options, report);
  const endpoints = planEndpoints(facts, rows.webhooks, report);
  yield* checkReferences(desired, agents, facts, report);
  checkInjections(desired, agents.desired, facts, options, report);
  yield;
  const actions = [...agentActions(agents, facts, rows.drift), ...generated.actions].sort(compareActions);
  const counts = countActions(actions);
  yield;
  const found: Diagnostic[] = [];
  for (const problem of problems) {
    found.push(toDiagnostic(desired, problem));
    yield;
  }
  const diagnostics = sortDiagnostics(found);
  yield;
  return {
    ok: !diagnostics.some((item) => item.severity === 'error'),
    changed: counts.create + counts.update + counts.delete > 0,
    ...(held === undefined ? {} : { held }),
    actions,
    counts,
    consequences: consequencesOf(facts, rows, endpoints),
    receipts: endpoints.receipts,
    diagnostics,
    writes: writesOf(agents, generated, rows, endpoints),
  };
}

/** Rules about single resources that need the stored state. */
function* checkReferences(desired: Desired, agents: AgentsPlan, facts: Facts, report: Report): Generator<void> {
  const identities = new Set(desired.resources.filter((item) => item.kind === 'Identity').map((item) => item.name));
  for (const resource of desired.resources) {
    if (!isStored(resource, facts)) checkText(resource, report);
    if (resource.kind === 'Environment') {
      checkEnv(facts, resource, resource.spec.env, report);
      checkLimits(resource, resource.spec.resources, facts, report);
    }
    yield;
  }
  for (const agent of agents.desired) {
    checkEnv(facts, agent, agent.spec.env, report);
    for (const [alias, tool] of Object.entries(agent.spec.tools)) {
      checkTool(facts, agent, alias, tool, report);
      checkToken(facts, agent, alias, tool, report);
    }
    checkIdentity(agent, identities, facts, report);
    yield;
  }
}

/** The project's ceilings; those of presets are known when a tree is compiled. */
function checkLimits(
  resource: DesiredResource,
  asked: ResourceLimits | undefined,
  { current }: Facts,
  report: Report,
): void {
  for (const { key, value, most } of overLimits(asked, current.limits)) {
    const message = `${key} ${value} is over the limit of the project, ${most}`;
    report({ resource, path: ['resources', key], code: 'resources-over-limit', message });
  }
}

/** An identity by name comes from the tree or is stored already (docs/reference/compile.md#environments). */
function checkIdentity(agent: DesiredAgent, inTree: ReadonlySet<string>, facts: Facts, report: Report): void {
  const name = agent.spec.identity;
  if (name === undefined || inTree.has(name) || facts.generatedByKey.has(`Identity/${name}`)) return;
  report({
    resource: agent,
    path: ['identity'],
    code: 'identity-not-stored',
    message: `Identity ${toldName(name)} is neither in this tree nor stored in the project`,
    hint: 'Declare it inline on one agent, or correct the name.',
  });
}

function isStored(resource: DesiredResource, facts: Facts): boolean {
  if (resource.kind === 'Agent') return facts.agentByName.get(resource.name)?.hash === resource.hash;
  return facts.generatedByKey.get(`${resource.kind}/${resource.name}`)?.hash === resource.hash;
}

/** Text that JSON can carry and the database cannot keep: NUL and lone surrogates (docs/reference/compile.md#yaml). */
function checkText(resource: DesiredResource, report: Report): void {
  const spec = resource.spec as unknown as Json;
  if (isSound(spec)) return;
  visit(spec, [], (path, text) => {
    if (isStorable(text)) return;
    const isNul = text.includes('\0');
    const message = isNul ? 'Text holds a NUL character' : 'Text holds half of a surrogate pair';
    report({ resource, path: [...path], code: isNul ? 'nul-byte' : 'invalid-utf8', message });
  });
}

/** Of nearly every spec no path is asked for. */
function isSound(value: Json | undefined): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (value === null || typeof value !== 'object') return true;
  if (Array.isArray(value)) return value.every(isSound);
  const record = value as JsonObject;
  return Object.keys(record).every((key) => isStorable(key) && isSound(record[key]));
}

type Visitor = (path: readonly (string | number)[], text: string) => void;

/** Calls `found` for every key and every string; `path` is the same list each time, and goes on. */
function visit(value: Json | undefined, path: (string | number)[], found: Visitor): void {
  if (typeof value === 'string') return found(path, value);
  if (value === null || typeof value !== 'object') return;
  const isList = Array.isArray(value);
  for (const [key, member] of Object.entries(value)) {
    if (!isList) found(path, key);
    path.push(isList ? Number(key) : key);
    visit(member as Json, path, found);
    path.pop();
  }
}

/** No two actions speak of the same resource. */
const compareActions = (a: Action, b: Action): number => {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1;
  return a.name < b.name ? -1 : 1;
};

function countActions(actions: readonly Action[]): { [op in Op]: number } {
  const counts = { create: 0, update: 0, delete: 0, unchanged: 0 };
  for (const action of actions) counts[action.op] += 1;
  return counts;
}

function consequencesOf(facts: Facts, rows: RowsPlan, endpoints: EndpointPlan): Consequences {
  const before = new Set<string>();
  for (const row of facts.current.triggers) {
    const endpoint = endpointName(facts, row);
    if (endpoint !== null) before.add(endpoint);
  }
  return {
    schedules: { gained: rows.gained, changed: rows.changed, lost: rows.lost },
    endpoints: {
      gained: endpoints.writes.map((endpoint) => endpoint.name),
      lost: [...before].filter((name) => !rows.endpointsInUse.has(name)).sort(),
    },
    triggers: { activated: rows.activated, skipped: rows.skipped },
  };
}

function writesOf(agents: AgentsPlan, generated: GeneratedPlan, rows: RowsPlan, endpoints: EndpointPlan): Writes {
  return {
    agents: agents.writes,
    agentDeletes: agents.deletes.map((agent) => agent.id),
    sources: agents.sources,
    generated: generated.writes,
    generatedDeletes: generated.deletes,
    users: generated.users,
    userDeletes: generated.userDeletes,
    endpoints: endpoints.writes,
    triggers: rows.triggers,
    triggerDeletes: rows.triggerDeletes,
    schedules: rows.schedules,
    scheduleDeletes: rows.scheduleDeletes,
    assets: generated.assets,
  };
}

// Which agents an apply creates, changes, takes over, deletes or leaves (docs/reference/repositories.md#ownership).

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
