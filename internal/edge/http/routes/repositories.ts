// Repositories: what is watched, and what people do to it (contract, section 3).

import * as v from 'valibot';
import { nextPolls } from '../../../adapters/store/repositories/polls.ts';
import { lastRuns } from '../../../adapters/store/repositories/reconciles.ts';
import { listRepositories, ownedAgents, type Repository } from '../../../adapters/store/repositories/repositories.ts';
import {
  addRepository,
  approve,
  changeRepository,
  diagnose,
  findRepository,
  probe,
  removeRepository,
  requestSync,
  rollBack,
  type SettingsInput,
  setPin,
  setSuspended,
  showRepository,
} from '../../../flows/sync/sync.ts';
import type { FlowContext } from '../../../flows/context.ts';
import { diagnoseSessions } from '../../../flows/session-host/session-host.ts';
import { pageOf, pageQuery, pageSchema, readTextPage } from '../page.ts';
import { created, defineRoute, noContent, ok, type Route } from '../route.ts';
import { runSchema } from './reconciles.ts';
import { contextText, contextVariables } from './shapes.ts';

const P = '/api/v1/orgs/:org/projects/:project';

const name = v.pipe(
  v.string(),
  // A name of dots alone is a step in a path, and no address would lead to it.
  v.regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-, not only dots'),
);
const shortCommit = v.pipe(
  v.string(),
  v.regex(/^(folder:)?[0-9a-fA-F]{4,64}$/, 'Expected a commit id, or the beginning of one'),
  v.toLowerCase(),
);
const auth = v.union(
  [
    v.strictObject({
      kind: v.literal('token'),
      secretRef: name,
      username: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(256))),
    }),
    v.strictObject({ kind: v.literal('connection'), connection: name }),
  ],
  'Expected {kind: "token", secretRef, username?} or {kind: "connection", connection}',
);
const branch = v.pipe(
  v.string(),
  v.minLength(1),
  v.maxLength(255),
  v.regex(/^[^\s~^:?*[\\\0-\x1f]+$/, 'Expected the name of a branch'),
);
const settings = {
  url: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(2048))),
  path: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096))),
  branch: v.exactOptional(v.nullable(branch)),
  root: v.exactOptional(v.pipe(v.string(), v.maxLength(1024))),
  intervalSeconds: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400))),
  auth: v.exactOptional(v.nullable(auth)),
  context: v.exactOptional(contextVariables),
  adopt: v.exactOptional(v.boolean()),
  suspended: v.exactOptional(v.boolean()),
  guard: v.exactOptional(
    v.strictObject({
      deleteMax: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000))),
    }),
  ),
  verify: v.exactOptional(
    v.nullable(
      v.strictObject({
        keys: v.pipe(
          v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(65_536))),
          v.minLength(1),
          v.maxLength(100),
        ),
      }),
    ),
  ),
};
const newRepository = v.strictObject({ name, ...settings });
const patchRepository = v.pipe(
  v.strictObject(settings),
  v.check((input) => Object.keys(input).length > 0, 'Expected at least one setting'),
);

const text = v.nullable(v.string());
const repositorySchema = v.object({
  id: v.string(),
  name: v.string(),
  url: text,
  path: text,
  branch: text,
  root: v.string(),
  intervalSeconds: v.number(),
  auth: v.nullable(auth),
  context: v.record(v.string(), v.string()),
  adopt: v.boolean(),
  guard: v.object({ deleteMax: v.optional(v.number()) }),
  verify: v.nullable(v.object({ keys: v.array(v.string()) })),
  suspended: v.boolean(),
  pinnedCommit: text,
  quarantinedCommit: text,
  generation: v.number(),
  status: text,
  commit: text,
  appliedCommit: text,
  appliedAt: text,
  seenCommit: text,
  condition: text,
  conditionDetail: text,
  conditionSince: text,
  failures: v.number(),
  nextPollAt: text,
  agents: v.number(),
  lastReconcile: v.nullable(runSchema),
  createdAt: v.string(),
  updatedAt: v.string(),
});
const started = v.object({ reconcileId: v.string() });
const probed = v.variant('reachable', [
  v.object({
    reachable: v.literal(true),
    url: v.string(),
    protocol: v.picklist([0, 1, 2]),
    agent: text,
    objectFormat: v.string(),
    filter: v.boolean(),
    via: v.nullable(v.picklist(['sparse3', 'sparse4', 'blobless', 'spool'])),
    defaultBranch: text,
    commit: text,
    hasSvc: v.nullable(v.boolean()),
    movedTo: text,
    traffic: v.record(v.string(), v.number()),
    advice: v.array(v.string()),
  }),
  v.object({ reachable: v.literal(false), condition: v.string(), detail: v.string() }),
]);

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

const showOne = async (ctx: FlowContext, repository: Repository) => (await show(ctx, [repository]))[0];

const basics: readonly Route[] = [
  defineRoute({
    method: 'POST',
    path: `${P}/repositories`,
    summary: 'Watch a repository or a folder; its first sync starts at once',
    scope: 'project',
    permission: 'repositories:write',
    body: newRepository,
    answers: { 201: repositorySchema },
    async handle({ ctx, project, actor, body }) {
      const input = inputOf(body) as SettingsInput & { name: string; suspended?: boolean };
      return created(await showOne(ctx, await addRepository(ctx, { project, actor }, input)));
    },
  }),
  defineRoute({
    method: 'GET',
    path: `${P}/repositories`,
    summary: 'Watched repositories by name',
    scope: 'project',
    permission: 'repositories:read',
    query: v.strictObject(pageQuery),
    answers: { 200: pageSchema(repositorySchema) },
    async handle({ ctx, project, query }) {
      const { limit, after } = readTextPage(query);
      const rows = await listRepositories(ctx.db, project.id, { after: after ?? null, limit: limit + 1 });
      const shown = new Map((await show(ctx, rows)).map((row) => [row.id, row]));
      return ok(
        pageOf(
          rows,
          limit,
          (row) => [row.name],
          (row) => shown.get(row.id),
        ),
      );
    },
  }),
  defineRoute({
    method: 'GET',
    path: `${P}/repositories/:name`,
    summary: 'One repository: settings, last commit, condition, last run',
    scope: 'project',
    permission: 'repositories:read',
    answers: { 200: repositorySchema },
    handle: async ({ ctx, project, params }) =>
      ok(await showOne(ctx, await findRepository(ctx.db, project, params['name'] ?? ''))),
  }),
  defineRoute({
    method: 'PATCH',
    path: `${P}/repositories/:name`,
    summary: 'Change settings; a sync under them starts at once',
    scope: 'project',
    permission: 'repositories:write',
    body: patchRepository,
    answers: { 200: repositorySchema },
    async handle({ ctx, project, actor, params, body }) {
      const input = inputOf(body) as SettingsInput & { suspended?: boolean };
      return ok(await showOne(ctx, await changeRepository(ctx, { project, actor }, params['name'] ?? '', input)));
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: `${P}/repositories/:name`,
    summary: 'Stop watching; what it owns goes with it unless keepResources',
    scope: 'project',
    permission: 'repositories:write',
    query: v.strictObject({ keepResources: v.optional(v.picklist(['true', 'false'])) }),
    answers: { 204: null },
    async handle({ ctx, project, actor, params, query }) {
      await removeRepository(ctx, { project, actor }, params['name'] ?? '', query.keepResources === 'true');
      return noContent;
    },
  }),
];

const actions: readonly Route[] = [
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/:name/sync`,
    summary: 'Sync now; the run is told under reconciles',
    scope: 'project',
    permission: 'repositories:sync',
    answers: { 202: started },
    handle: async ({ ctx, project, actor, params }) => ({
      status: 202,
      body: await requestSync(ctx, { project, actor }, params['name'] ?? ''),
    }),
  }),
  ...(['suspend', 'resume'] as const).map((word) =>
    defineRoute({
      method: 'POST',
      path: `${P}/repositories/:name/${word}`,
      summary: word === 'suspend' ? 'No syncs until resumed' : 'Sync again, starting now',
      scope: 'project',
      permission: 'repositories:sync',
      answers: { 200: repositorySchema },
      handle: async ({ ctx, project, actor, params }) =>
        ok(await showOne(ctx, await setSuspended(ctx, { project, actor }, params['name'] ?? '', word === 'suspend'))),
    }),
  ),
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/:name/rollback`,
    summary: 'Re-apply the stored inputs of an earlier commit and quarantine the one that is left',
    scope: 'project',
    permission: 'repositories:sync',
    body: v.optional(v.strictObject({ commit: v.exactOptional(shortCommit) }), {}),
    answers: { 202: v.object({ reconcileId: v.string(), commit: v.string() }) },
    handle: async ({ ctx, project, actor, params, body }) => ({
      status: 202,
      body: await rollBack(ctx, { project, actor }, params['name'] ?? '', body.commit),
    }),
  }),
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/:name/pin`,
    summary: 'Stay at one commit, whatever the branch does',
    scope: 'project',
    permission: 'repositories:sync',
    body: v.strictObject({ commit: shortCommit }),
    answers: { 202: started },
    handle: async ({ ctx, project, actor, params, body }) => ({
      status: 202,
      body: await setPin(ctx, { project, actor }, params['name'] ?? '', body.commit),
    }),
  }),
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/:name/unpin`,
    summary: 'Follow the branch again',
    scope: 'project',
    permission: 'repositories:sync',
    answers: { 202: started },
    handle: async ({ ctx, project, actor, params }) => ({
      status: 202,
      body: await setPin(ctx, { project, actor }, params['name'] ?? '', null),
    }),
  }),
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/:name/approve`,
    summary: 'Apply what the guard holds',
    scope: 'project',
    permission: 'repositories:sync',
    body: v.strictObject({ reconcileId: v.pipe(v.string(), v.uuid('Expected the id of a reconcile')) }),
    answers: { 202: started },
    handle: async ({ ctx, project, actor, params, body }) => ({
      status: 202,
      body: await approve(ctx, { project, actor }, params['name'] ?? '', body.reconcileId),
    }),
  }),
  defineRoute({
    method: 'POST',
    path: `${P}/repositories/probe`,
    summary: 'What a git server supports, before anything is registered',
    scope: 'project',
    permission: 'repositories:write',
    body: v.strictObject({
      url: v.pipe(v.string(), v.minLength(1), v.maxLength(2048)),
      auth: v.exactOptional(v.nullable(auth)),
    }),
    answers: { 200: probed },
    handle: async ({ ctx, project, body }) => ok(await probe(ctx, project, body)),
  }),
  defineRoute({
    method: 'GET',
    path: `${P}/doctor`,
    summary: 'What is wrong with repositories, runs, events, schedules, jobs and sessions, and what to do',
    scope: 'project',
    permission: 'repositories:read',
    answers: {
      200: v.object({
        checks: v.array(
          v.object({
            name: v.string(),
            status: v.picklist(['ok', 'warning', 'error']),
            message: v.string(),
            hint: v.optional(v.string()),
          }),
        ),
      }),
    },
    handle: async ({ ctx, project }) =>
      ok({ checks: [...(await diagnose(ctx, project)), ...(await diagnoseSessions(ctx, project))] }),
  }),
];

export const repositoryRoutes: readonly Route[] = [...basics, ...actions];
