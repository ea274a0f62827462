// Where the values of stored agents come from. Those of a repository are told by its stored files, compiled once more for the
// agents that are asked for; of what was applied by hand it was kept with the agent. Changes nothing.

import { agentByName, type AgentRow, readAgentOrigins } from '../../adapters/store/resources/agents.ts';
import { repositoryInHand } from '../../adapters/store/repositories/repositories.ts';
import { snapshotById } from '../../adapters/store/repositories/snapshots.ts';
import { lastMatch } from '../../adapters/store/events/event-routes.ts';
import { listTriggers } from '../../adapters/store/resources/triggers.ts';
import type { Origins } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import type { Trigger } from '../../domain/spec.ts';
import { type FlowContext, type ProjectRef, syncPortsOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { compileWith } from './compile.ts';
import { contextOf } from './decide.ts';
import { storedBundle } from './snapshot.ts';

type Wanted = Pick<AgentRow, 'id' | 'name' | 'repositoryId' | 'source'>;

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
  const [row] = isNumber ? await listTriggers(ctx.db, project.id, { agent, after, limit: 1 }) : [];
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

async function compileOrigins(
  ctx: FlowContext,
  repositoryId: string,
  files: readonly string[],
): Promise<{ readonly [agent: string]: Origins }> {
  const found = await repositoryInHand(ctx.db, repositoryId, null);
  const snapshotId = found?.repository.state.snapshotId ?? null;
  if (found === undefined || snapshotId === null) return {};
  const { repository, project, connections } = found;
  const record = await snapshotById(ctx.db, snapshotId);
  const bundle = record === undefined ? undefined : await storedBundle(ctx.db, record);
  if (bundle === undefined) return {};
  const ports = syncPortsOf(ctx);
  const lock = repository.state.templateLock;
  const reader = { kind: 'templates', name: repository.name } as const;
  const secret = (name: string) => secretText(ctx, project, name, reader);
  const absent = new Set(bundle.absent);
  const complete = await compileWith(ports, {
    context: contextOf(repository, { branch: repository.state.refBranch, connections }),
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
