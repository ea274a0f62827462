// Repositories: what is watched, and what people do to it.

import * as v from 'valibot';
import { branchCharsMax, branchPattern } from '../../internal/domain/git-ref.ts';
import {
  actReason,
  contextVariables,
  dryRun,
  dryRunQuery,
  integer,
  onOff,
  projectPath,
  reasonBody,
  storable,
} from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';
import { run, started } from './reconciles.ts';

const name = v.pipe(
  v.string(),
  // A name of dots alone is a step in a path, and no address would lead to it.
  v.regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/, 'Expected 1 to 128 characters of A-Za-z0-9_.-, not only dots'),
);
const url = v.pipe(v.string(), v.minLength(1), v.maxLength(2048), storable);
const shortCommit = v.pipe(
  v.string(),
  v.regex(/^(folder:)?[0-9a-fA-F]{4,64}$/, 'Expected a commit id, or four and more signs of its beginning'),
  v.toLowerCase(),
);
const auth = named(
  'RepositoryAuth',
  v.union(
    [
      v.strictObject({
        kind: v.literal('token'),
        secretRef: name,
        username: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(256), storable)),
      }),
      v.strictObject({ kind: v.literal('connection'), connection: name }),
    ],
    'Expected {kind: "token", secretRef, username?} or {kind: "connection", connection}',
  ),
);
const branch = v.pipe(
  v.string(),
  v.minLength(1),
  v.maxLength(branchCharsMax),
  v.regex(branchPattern, 'Expected the name of a branch'),
  storable,
);
const settings = {
  url: v.exactOptional(url),
  path: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096), storable)),
  branch: v.exactOptional(v.nullable(branch)),
  root: v.exactOptional(v.pipe(v.string(), v.maxLength(1024), storable)),
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
  plan: v.exactOptional(
    v.strictObject({
      comment: v.exactOptional(v.boolean()),
      check: v.exactOptional(v.boolean()),
      forks: v.exactOptional(v.boolean()),
    }),
  ),
  verify: v.exactOptional(
    v.nullable(
      v.strictObject({
        keys: v.pipe(
          v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(65_536), storable)),
          v.minLength(1),
          v.maxLength(100),
        ),
      }),
    ),
  ),
};
export const newRepository = named('NewRepository', v.strictObject({ name, ...settings }));
export type NewRepository = Shape<typeof newRepository>;
export const repositoryPatch = named(
  'RepositoryPatch',
  v.pipe(
    v.strictObject(settings),
    v.check((input) => Object.keys(input).length > 0, 'Expected at least one setting'),
  ),
);

const text = v.nullable(v.string());
export const repository = named(
  'Repository',
  v.object({
    id: v.string(),
    name: v.string(),
    /** Of a git server; null for a folder, which has a `path`. */
    url: text,
    path: text,
    branch: text,
    root: v.string(),
    intervalSeconds: integer,
    auth: v.nullable(auth),
    context: v.record(v.string(), v.string()),
    adopt: v.boolean(),
    guard: v.object({ deleteMax: v.optional(integer) }),
    verify: v.nullable(v.object({ keys: v.array(v.string()) })),
    /** What pull requests are told; absent is the default: comment and check true, forks false. */
    plan: v.object({
      comment: v.optional(v.boolean()),
      check: v.optional(v.boolean()),
      forks: v.optional(v.boolean()),
    }),
    suspended: v.boolean(),
    pinnedCommit: text,
    quarantinedCommit: text,
    /** Counts changes of its settings. */
    generation: integer,
    /** Of the latest run; null before the first. */
    status: text,
    commit: text,
    appliedCommit: text,
    appliedAt: text,
    seenCommit: text,
    /** Why its source cannot be followed; null where it can. */
    condition: text,
    conditionDetail: text,
    conditionSince: text,
    /** Failed looks in a row. */
    failures: integer,
    nextPollAt: text,
    /** Agents that it owns. */
    agents: integer,
    lastReconcile: v.nullable(run),
    createdAt: v.string(),
    updatedAt: v.string(),
  }),
);
export type Repository = Shape<typeof repository>;

const probeReport = named(
  'RepositoryProbe',
  v.variant('reachable', [
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
      traffic: v.object({ requests: integer, bytesDown: integer }),
      advice: v.array(v.string()),
    }),
    v.object({ reachable: v.literal(false), condition: v.string(), detail: v.string() }),
  ]),
);
export type RepositoryProbe = Shape<typeof probeReport>;

const doctorCheck = named(
  'DoctorCheck',
  v.object({
    name: v.string(),
    status: v.picklist(['ok', 'warning', 'error']),
    message: v.string(),
    /** What to do. */
    hint: v.optional(v.string()),
  }),
);
export type DoctorCheck = Shape<typeof doctorCheck>;

const common = { tag: 'repositories', scope: 'project' } as const;
const read = { ...common, method: 'GET', permission: 'repositories:read' } as const;
const write = { ...common, permission: 'repositories:write' } as const;
const act = { ...common, method: 'POST', permission: 'repositories:sync' } as const;
const one = `${projectPath}/repositories/:name` as const;

export const createRepository = operation({
  ...write,
  method: 'POST',
  id: 'createRepository',
  versioned: true,
  path: `${projectPath}/repositories`,
  summary: 'Watch a repository or a folder; its first sync starts at once',
  body: newRepository,
  answers: { 201: repository },
});

export const listRepositories = operation({
  ...read,
  id: 'listRepositories',
  path: `${projectPath}/repositories`,
  summary: 'Watched repositories by name',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('RepositoryPage', repository) },
});

export const getRepository = operation({
  ...read,
  id: 'getRepository',
  versioned: true,
  path: one,
  summary: 'One repository: settings, last commit, condition, last run',
  answers: { 200: repository },
});

export const updateRepository = operation({
  ...write,
  method: 'PATCH',
  id: 'updateRepository',
  versioned: true,
  path: one,
  summary: 'Change settings; a sync under them starts at once',
  body: repositoryPatch,
  answers: { 200: repository },
});

export const deleteRepository = operation({
  ...write,
  method: 'DELETE',
  id: 'deleteRepository',
  versioned: true,
  path: one,
  summary: 'Stop watching; what it owns goes with it unless keepResources',
  query: v.strictObject({ ...dryRunQuery, keepResources: v.optional(onOff) }),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});

export const syncRepository = operation({
  ...act,
  id: 'syncRepository',
  path: `${one}/sync`,
  summary: 'Sync now; the run is told under reconciles',
  answers: { 202: started },
});

export const suspendRepository = operation({
  ...act,
  id: 'suspendRepository',
  versioned: true,
  path: `${one}/suspend`,
  summary: 'No syncs until resumed',
  body: v.optional(v.strictObject({ reason: actReason }), {}),
  answers: { 200: repository },
});

export const resumeRepository = operation({
  ...act,
  id: 'resumeRepository',
  versioned: true,
  path: `${one}/resume`,
  summary: 'Sync again, starting now',
  body: v.optional(v.strictObject({ reason: actReason }), {}),
  answers: { 200: repository },
});

export const rollbackRepository = operation({
  ...act,
  id: 'rollbackRepository',
  versioned: true,
  path: `${one}/rollback`,
  summary: 'Re-apply the stored inputs of an earlier commit and quarantine the one that is left',
  body: v.optional(v.strictObject({ commit: v.exactOptional(shortCommit), reason: actReason }), {}),
  query: v.strictObject(dryRunQuery),
  answers: {
    200: dryRun,
    202: named(
      'StartedRollback',
      v.object({ reconcileId: v.string(), from: v.nullable(v.string()), to: v.string(), commit: v.string() }),
    ),
  },
});

export const releaseRepository = operation({
  ...act,
  id: 'releaseRepository',
  versioned: true,
  path: `${one}/release`,
  summary: 'Let the commit go that a rollback set aside, and sync it',
  body: v.optional(v.strictObject({ reason: actReason }), {}),
  answers: { 202: started },
});

export const pinRepository = operation({
  ...act,
  id: 'pinRepository',
  versioned: true,
  path: `${one}/pin`,
  summary: 'Stay at one commit, whatever the branch does',
  body: v.strictObject({ commit: shortCommit, reason: actReason }),
  query: v.strictObject(dryRunQuery),
  answers: { 200: dryRun, 202: started },
});

export const unpinRepository = operation({
  ...act,
  id: 'unpinRepository',
  versioned: true,
  path: `${one}/unpin`,
  summary: 'Follow the branch again',
  body: v.optional(v.strictObject({ reason: actReason }), {}),
  answers: { 202: started },
});

export const approveReconcile = operation({
  ...act,
  id: 'approveReconcile',
  versioned: true,
  path: `${one}/approve`,
  summary: 'Apply what the guard holds',
  body: v.strictObject({
    reconcileId: v.pipe(v.string(), v.uuid('Expected the id of a reconcile')),
    reason: actReason,
  }),
  answers: { 202: started },
});

export const probeRepository = operation({
  ...write,
  method: 'POST',
  id: 'probeRepository',
  path: `${projectPath}/repositories/probe`,
  summary: 'What a git server supports, before anything is registered',
  body: v.strictObject({ url, auth: v.exactOptional(v.nullable(auth)) }),
  answers: { 200: probeReport },
});

export const diagnoseProject = operation({
  ...read,
  tag: 'doctor',
  id: 'diagnoseProject',
  path: `${projectPath}/doctor`,
  summary: 'What is wrong with repositories, runs, events, schedules, jobs and sessions, and what to do',
  answers: { 200: named('DoctorReport', v.object({ checks: v.array(doctorCheck) })) },
});
