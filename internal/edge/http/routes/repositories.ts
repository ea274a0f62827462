// Repositories: what is watched, and what people do to it (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/repositories.ts';
import { countRepositories } from '../../../adapters/store/console/counts.ts';
import { nextPolls } from '../../../adapters/store/repositories/polls.ts';
import { lastRuns } from '../../../adapters/store/repositories/reconciles.ts';
import { listRepositories, ownedAgents, type Repository } from '../../../adapters/store/repositories/repositories.ts';
import { probe } from '../../../flows/sync/sync.ts';
import {
  addRepository,
  approve,
  changeRepository,
  findRepository,
  release,
  removeRepository,
  repositoryVersion,
  requestSync,
  rollBack,
  type SettingsInput,
  setPin,
  setSuspended,
  showRepository,
} from '../../../flows/repositories/repositories.ts';
import { diagnose, diagnoseRoles } from '../../../flows/doctor.ts';
import { diagnoseConnections, diagnoseConsents } from '../../../flows/connections/connections.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { diagnoseKeys } from '../../../flows/secrets/secrets.ts';
import { diagnoseSessions } from '../../../flows/session-host/session-host.ts';
import { pageOf, readTextPage } from '../page.ts';
import { accepted, type Call, conditionOf, created, noContent, ok, type Route, serve, tagged } from '../route.ts';
import { contextText, counted, withReason } from './shapes.ts';
import { dryCommit, dryRemoveRepository } from '../../../flows/console/console.ts';

function inputOf<T extends { readonly context?: { readonly [key: string]: string | number | boolean } }>(body: T) {
  const { context, ...rest } = body;
  if (context === undefined) return rest;
  return { ...rest, context: contextText(context) };
}

async function show(ctx: FlowContext, repositories: readonly Repository[]) {
  const ids = repositories.map((repository) => repository.id);
  const [runs, owned, polls] = await Promise.all([
    lastRuns(ctx.db, ids),
    ownedAgents(ctx.db, ids),
    nextPolls(ctx.db, ids),
  ]);
  return repositories.map((repository) =>
    showRepository(repository, {
      lastRun: runs.get(repository.id),
      agents: owned.get(repository.id),
      nextPollAt: polls.get(repository.id),
    }),
  );
}

async function showOne(ctx: FlowContext, repository: Repository) {
  const [shown] = await show(ctx, [repository]);
  if (shown === undefined) throw new Error('a repository that was given is not shown');
  return shown;
}

const shown = async (ctx: FlowContext, repository: Repository) =>
  tagged(repositoryVersion(repository), ok(await showOne(ctx, repository)));

/** Who asks for an act, why, and of which version. */
const callerOf = (
  call: Pick<Call, 'project' | 'actor' | 'headers'> & { readonly body: { readonly reason?: string } },
) => ({
  project: call.project,
  actor: withReason(call.actor, call.body),
  condition: conditionOf(call),
});

const lookFirst = (
  call: Pick<
    Call<unknown, { readonly commit?: string }, 'name'>,
    'ctx' | 'project' | 'params' | 'headers' | 'body' | 'signal'
  >,
  kind: 'rollback' | 'pin',
) =>
  dryCommit(call.ctx, call.project, {
    name: call.params.name,
    commit: call.body.commit,
    kind,
    condition: conditionOf(call),
    signal: call.signal,
  });

export const repositoryRoutes: readonly Route[] = [
  serve(api.createRepository, async ({ ctx, project, actor, body, can }) => {
    const input = inputOf(body) as SettingsInput & { name: string; suspended?: boolean };
    const caller = { project, actor, ownsInstallation: can('folders:add') };
    const added = await addRepository(ctx, caller, input);
    return tagged(repositoryVersion(added), created(await showOne(ctx, added)));
  }),
  serve(api.listRepositories, async ({ ctx, project, query }) => {
    const { limit, after } = readTextPage(query);
    const { rows, isCut } = await listRepositories(ctx.db, project.id, { after: after ?? null, limit: limit + 1 });
    const page = pageOf(
      rows,
      limit,
      (row) => [row.name],
      (row) => row,
      isCut,
    );
    const total = query.counts === 'true' ? await countRepositories(ctx.db, project.id) : undefined;
    return ok({ ...page, items: await show(ctx, page.items), ...counted(total) });
  }),
  serve(api.getRepository, async ({ ctx, project, params }) => {
    const found = await findRepository(ctx.db, project, params.name);
    return shown(ctx, found);
  }),
  serve(api.updateRepository, async (call) => {
    const { ctx, project, actor, params, can } = call;
    const input = inputOf(call.body) as SettingsInput & { suspended?: boolean };
    const caller = { project, actor, condition: conditionOf(call), ownsInstallation: can('folders:add') };
    return shown(ctx, await changeRepository(ctx, caller, params.name, input));
  }),
  serve(api.deleteRepository, async (call) => {
    const { ctx, project, params, query } = call;
    const how = { keepResources: query.keepResources === 'true', condition: conditionOf(call) };
    if (query.dryRun === 'true') return ok(await dryRemoveRepository(ctx, project, params.name, how));
    await removeRepository(ctx, callerOf(call), params.name, how.keepResources);
    return noContent;
  }),
  serve(api.syncRepository, async ({ ctx, project, actor, params }) =>
    accepted(await requestSync(ctx, { project, actor }, params.name)),
  ),
  serve(api.suspendRepository, async (call) =>
    shown(call.ctx, await setSuspended(call.ctx, callerOf(call), call.params.name, true)),
  ),
  serve(api.resumeRepository, async (call) =>
    shown(call.ctx, await setSuspended(call.ctx, callerOf(call), call.params.name, false)),
  ),
  serve(api.rollbackRepository, async (call) => {
    const { commit } = call.body;
    if (call.query.dryRun === 'true') return ok(await lookFirst(call, 'rollback'));
    return accepted(await rollBack(call.ctx, callerOf(call), call.params.name, commit));
  }),
  serve(api.releaseRepository, async (call) => accepted(await release(call.ctx, callerOf(call), call.params.name))),
  serve(api.pinRepository, async (call) => {
    if (call.query.dryRun === 'true') return ok(await lookFirst(call, 'pin'));
    return accepted(await setPin(call.ctx, callerOf(call), call.params.name, call.body.commit));
  }),
  serve(api.unpinRepository, async (call) => accepted(await setPin(call.ctx, callerOf(call), call.params.name, null))),
  serve(api.approveReconcile, async (call) =>
    accepted(await approve(call.ctx, callerOf(call), call.params.name, call.body.reconcileId)),
  ),
  serve(api.probeRepository, async ({ ctx, project, body }) => ok(await probe(ctx, project, body))),
  serve(api.diagnoseProject, async ({ ctx, project, can }) => {
    const caller = { operates: can('jobs:retry') };
    return ok({
      checks: [
        ...(await diagnoseRoles(ctx)),
        ...(await diagnose(ctx, project, caller)),
        ...(await diagnoseConnections(ctx, project)),
        ...(await diagnoseConsents(ctx, project)),
        ...(await diagnoseSessions(ctx, project, caller)),
        ...(await diagnoseKeys(ctx, caller)),
      ],
    });
  }),
];
