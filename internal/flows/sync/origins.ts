// Where the values of stored agents come from. Those of a repository are told by its stored files, compiled once more for the
// agents that are asked for; of what was applied by hand it was kept with the agent. Changes nothing.

import { agentByName, type AgentRow, agentsByName, readAgentOrigins } from '../../adapters/store/resources/agents.ts';
import type { ReconcileRow } from '../../adapters/store/repositories/reconciles.ts';
import { repositoryInHand } from '../../adapters/store/repositories/repositories.ts';
import { snapshotById } from '../../adapters/store/repositories/snapshots.ts';
import { lastMatch } from '../../adapters/store/events/event-routes.ts';
import { listTriggers } from '../../adapters/store/resources/triggers.ts';
import type { Action } from '../../core/plan/types.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import type { Origin, Origins } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import type { Trigger } from '../../domain/spec.ts';
import { type FlowContext, type ProjectRef, syncPortsOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { compileWith } from './compile.ts';
import { contextOf } from './resolve.ts';
import { storedBundle } from './snapshot.ts';

type Wanted = Pick<AgentRow, 'id' | 'name' | 'repositoryId' | 'source'>;

/** Where triggers of a list are declared, by agent name and ordinal; null where what their agent was made of is not kept. */
export async function originsOfTriggers(
  ctx: FlowContext,
  project: ProjectRef,
  names: readonly string[],
): Promise<(agent: string, ordinal: number) => Origin | null> {
  const agents = await agentsByName(ctx.db, project.id, [...new Set(names)]);
  const found = await readOrigins(ctx, agents);
  const ids = new Map(agents.map(({ id, name }) => [name, id]));
  return (agent, ordinal) => found.get(ids.get(agent) ?? '')?.[`triggers[${ordinal}]`] ?? null;
}

/** By agent id; an agent is left out where what it was made of is not kept any more. */
export async function readOrigins(ctx: FlowContext, agents: readonly Wanted[]): Promise<ReadonlyMap<string, Origins>> {
  const found = new Map(
    await readAgentOrigins(
      ctx.db,
      agents.filter(byHand).map(({ id }) => id),
    ),
  );
  const repositories = Map.groupBy(agents, ({ repositoryId }) => repositoryId ?? '');
  for (const [repositoryId, owned] of repositories) {
    if (repositoryId === '') continue;
    const origins = await compileOrigins(ctx, repositoryId, [...new Set(owned.map(({ source }) => source.file))]);
    for (const { id, name } of owned) {
      const one = origins[name];
      if (one !== undefined) found.set(id, one);
    }
  }
  return found;
}

/**
 * One trigger with where it is declared and the last event that it matched, `since` null where all that is kept was looked
 * through. Fault `not_found` for an agent or an ordinal that there is not.
 */
export async function findTrigger(ctx: FlowContext, project: ProjectRef, agent: string, ordinal: string) {
  const after = [agent, Number(ordinal) - 1] as const;
  const isNumber = /^\d{1,6}$/.test(ordinal);
  const [row] = isNumber ? (await listTriggers(ctx.db, project.id, { agent, after, limit: 1 })).rows : [];
  const owner = row === undefined ? undefined : await agentByName(ctx.db, project.id, agent);
  if (row === undefined || owner === undefined || row.ordinal !== Number(ordinal))
    throw new Fault('not_found', 'trigger-not-found', 'There is no such trigger.');
  const [origins, last] = await Promise.all([
    readOrigins(ctx, [owner]),
    lastMatch(ctx.db, { agentId: owner.id, ordinal: row.ordinal }),
  ]);
  const origin = origins.get(owner.id)?.[`triggers[${row.ordinal}]`] ?? null;
  // What is stored is what compile gave.
  return { row, spec: row.spec as unknown as Trigger, origin, last };
}

const byHand = ({ repositoryId }: Wanted): boolean => repositoryId === null;

type Listed = Omit<AgentRow, 'spec'>;
type Run = Pick<ReconcileRow, 'id' | 'projectId' | 'repositoryId' | 'actions' | 'inputs'>;
/** Agents whose changes are placed: a run of thousands is not compiled for all of them. */
const placedMost = 100;

/**
 * Where what a run changed stands in the files that it applied: by agent, then by the changes' paths. What was taken away
 * stands nowhere, and of files that are not kept any more nothing is told.
 */
export async function originsOfRun(ctx: FlowContext, run: Run): Promise<{ readonly [agent: string]: Origins }> {
  // What a run stores as JSON is what its apply made.
  const actions = run.actions as unknown as readonly Action[];
  const changed = new Map(
    actions
      .filter(({ kind, op, changes }) => kind === 'Agent' && op === 'update' && changes.length > 0)
      .slice(0, placedMost)
      .map(({ name, changes }) => [name, changes.filter(({ to }) => to !== null).map(({ path }) => path)]),
  );
  if (changed.size === 0) return {};
  const agents = await agentsByName(ctx.db, run.projectId, [...changed.keys()]);
  const found =
    run.repositoryId === null ? await originsByHand(ctx, run, agents) : await originsInFiles(ctx, run, agents);
  const told: [string, Origins][] = [];
  for (const [name, paths] of changed) {
    const origins = found[name] ?? {};
    const placed = paths.flatMap((path) => {
      const origin = enclosing(origins, path);
      return origin === undefined ? [] : [[path, origin] as const];
    });
    if (placed.length > 0) told.push([name, Object.fromEntries(placed)]);
  }
  return Object.fromEntries(told);
}

/** The origin of a path, or of the nearest value that holds it. */
function enclosing(origins: Origins, path: string): Origin | undefined {
  for (let at = path; at !== ''; at = at.replace(/(?:\.[^.[\]]+|\[(?:\d+|"(?:[^"\\]|\\.)*")\]|^[^.[\]]+)$/, ''))
    if (Object.hasOwn(origins, at)) return origins[at];
  return undefined;
}

/** Kept with the agent for its newest revision alone: only where this run brought that. */
async function originsByHand(
  ctx: FlowContext,
  run: Run,
  agents: readonly Listed[],
): Promise<{ readonly [agent: string]: Origins }> {
  const own = agents.filter(({ reconcileId }) => reconcileId === run.id);
  const found = await readAgentOrigins(
    ctx.db,
    own.map(({ id }) => id),
  );
  return Object.fromEntries(own.map(({ id, name }) => [name, found.get(id) ?? {}]));
}

async function originsInFiles(
  ctx: FlowContext,
  run: Run,
  agents: readonly Listed[],
): Promise<{ readonly [agent: string]: Origins }> {
  const { snapshotId, context, templateLock } = run.inputs as unknown as Partial<RunInputs>;
  if (run.repositoryId === null || snapshotId === undefined) return {};
  return compileOrigins(ctx, run.repositoryId, [...new Set(agents.map(({ source }) => source.file))], {
    snapshotId,
    context: context ?? {},
    lock: templateLock ?? null,
  });
}

/** What `subjectOf` records of a run. */
interface RunInputs {
  readonly snapshotId: string;
  readonly context: { readonly [name: string]: string };
  readonly templateLock: TemplateLock;
}

/** Files of a repository, as they were applied, and what they are compiled with. */
interface Applied {
  readonly snapshotId: string;
  readonly context: { readonly [name: string]: string };
  readonly lock: TemplateLock | null;
}

/** `applied`: by an earlier run; absent: what the repository has applied last. */
async function compileOrigins(
  ctx: FlowContext,
  repositoryId: string,
  files: readonly string[],
  applied?: Applied,
): Promise<{ readonly [agent: string]: Origins }> {
  const found = await repositoryInHand(ctx.db, repositoryId, null);
  const snapshotId = applied?.snapshotId ?? found?.repository.state.snapshotId ?? null;
  if (found === undefined || snapshotId === null || files.length === 0) return {};
  const { repository, project, connections } = found;
  const record = await snapshotById(ctx.db, snapshotId);
  const bundle = record === undefined ? undefined : await storedBundle(ctx.db, record);
  if (bundle === undefined) return {};
  const ports = syncPortsOf(ctx);
  const lock = applied === undefined ? repository.state.templateLock : applied.lock;
  const reader = { kind: 'templates', name: repository.name } as const;
  const secret = (name: string) => secretText(ctx, project, name, reader);
  const absent = new Set(bundle.absent);
  const complete = await compileWith(ports, {
    projectId: repository.projectId,
    root: repository.root,
    context: applied?.context ?? contextOf(repository, { branch: repository.state.refBranch, connections }),
    origins: files,
    bundle: async () => ({ ...bundle, absent: new Set(absent) }),
    // What was applied has been read whole: nothing more is there.
    readMore: async (paths) => {
      for (const path of paths) absent.add(path);
    },
    resolveTemplates: (specifiers) => ports.resolveTemplates(specifiers, { secret, ...(lock !== null && { lock }) }),
  });
  return complete?.output.origins ?? {};
}
