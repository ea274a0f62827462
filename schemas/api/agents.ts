// Stored agents and their revisions.

import * as v from 'valibot';
import { agentSpec } from './agent-spec.ts';
import {
  change,
  dryRun,
  dryRunQuery,
  integer,
  onOff,
  owner,
  projectPath,
  reasonBody,
  source,
  spending,
  timestamp,
} from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const entries = {
  name: v.string(),
  /** Stays while the agent is there, whatever its owner. */
  resourceId: v.string(),
  revision: integer,
  owner,
  source,
  /** Of the apply that brought its revision, and that run; null: applied by hand, or not kept. */
  commit: v.nullable(v.string()),
  reconcileId: v.nullable(v.string()),
  createdAt: timestamp,
  updatedAt: timestamp,
};
/** Where a value comes from; a default stands in no file. */
export const origin = named(
  'Origin',
  v.object({
    file: v.nullable(v.string()),
    line: v.nullable(integer),
    /** The agent's own document, one that it imports, an `append`, what is left out, or a variable of the context. */
    layer: v.picklist(['document', 'import', 'append', 'default', 'context']),
  }),
);
export type Origin = Shape<typeof origin>;
const originsEntry = {
  /** With origins=true: by the paths of `spec`, `triggers[0].where["$.a"]`. Null: what it was made of is not kept. */
  origins: v.optional(v.nullable(v.record(v.string(), origin))),
};
const originsQuery = {
  origins: v.optional(v.pipe(onOff, v.description('`true`: `origins` says where each value of `spec` comes from.'))),
};
/** How it appears to people; of its picture the path in the tree and the hash of what is stored. */
const identity = named(
  'AgentIdentity',
  v.object({
    displayName: v.exactOptional(v.string()),
    username: v.exactOptional(v.string()),
    avatar: v.exactOptional(v.object({ asset: v.string(), sha256: v.exactOptional(v.string()) })),
    description: v.exactOptional(v.string()),
  }),
);
export type AgentIdentity = Shape<typeof identity>;
export const agent = named(
  'Agent',
  v.object({
    ...entries,
    spec: agentSpec,
    /** What stands under the name in `spec.identity` now, whichever agent of the project declares it. */
    identity: v.exactOptional(identity),
    ...originsEntry,
    /** With counts=true: how many triggers it has, and sessions that are kept. */
    counts: v.optional(v.object({ triggers: integer, sessions: integer, liveSessions: integer })),
  }),
);
export const listedAgent = named(
  'ListedAgent',
  v.object({
    ...entries,
    /** Absent with view=row. */
    spec: v.exactOptional(agentSpec),
    ...originsEntry,
  }),
);
export type ListedAgent = Shape<typeof listedAgent>;
export type Agent = Shape<typeof agent>;
export const revision = named(
  'AgentRevision',
  v.object({
    revision: integer,
    /** Absent with view=row. */
    spec: v.exactOptional(agentSpec),
    commit: v.nullable(v.string()),
    reconcileId: v.nullable(v.string()),
    createdAt: timestamp,
  }),
);
export type AgentRevision = Shape<typeof revision>;

const read = { tag: 'agents', method: 'GET', scope: 'project', permission: 'agents:read' } as const;
const one = `${projectPath}/agents/:name` as const;

export const listAgents = operation({
  ...read,
  id: 'listAgents',
  path: `${projectPath}/agents`,
  summary: 'Stored agents, by name',
  query: v.strictObject({ ...pageQuery, ...originsQuery }),
  answers: { 200: pageOf('AgentPage', listedAgent) },
});

export const getAgent = operation({
  ...read,
  id: 'getAgent',
  versioned: true,
  path: one,
  summary: 'One stored agent',
  query: v.strictObject({
    ...originsQuery,
    counts: v.optional(v.pipe(onOff, v.description('`true`: `counts` says how many triggers and sessions it has.'))),
  }),
  answers: { 200: agent },
});

export const getAgentUsage = operation({
  ...read,
  id: 'getAgentUsage',
  path: `${one}/usage`,
  summary: 'What the model calls of its sessions have used this UTC day, this month and ever',
  answers: { 200: spending },
});

export const listAgentRevisions = operation({
  ...read,
  id: 'listAgentRevisions',
  path: `${one}/revisions`,
  summary: 'Every spec that an agent has had, newest first',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('AgentRevisionPage', revision) },
});

export const diffAgentRevisions = operation({
  ...read,
  id: 'diffAgentRevisions',
  path: `${one}/revisions/:a/diff/:b`,
  summary: 'What differs between any two specs that an agent has had, from `a` to `b`',
  answers: { 200: named('AgentRevisionDiff', v.object({ changes: v.array(change) })) },
});

export const deleteAgent = operation({
  tag: 'agents',
  method: 'DELETE',
  scope: 'project',
  permission: 'agents:write',
  id: 'deleteAgent',
  versioned: true,
  path: one,
  summary: 'Delete an agent that was applied by hand; 409 names the repository that owns it',
  query: v.strictObject(dryRunQuery),
  body: reasonBody,
  answers: { 200: dryRun, 204: null },
});
