// Calls to the outside: those of a session, and those of no session. No inputs, no results.

import * as v from 'valibot';
import { projectPath, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery } from './operation.ts';

export const call = named(
  'Call',
  v.object({
    id: v.string(),
    /** Null: no session asked for it. */
    session: v.nullable(v.string()),
    alias: v.string(),
    tool: v.string(),
    write: v.boolean(),
    status: v.picklist(['sending', 'done', 'refused', 'unknown']),
    /** Why it was refused, or that its outcome is not known. */
    code: v.optional(v.string()),
    /** Of what was made. */
    url: v.optional(v.string()),
    at: timestamp,
  }),
);

const page = pageOf('CallPage', call);
const read = { tag: 'calls', method: 'GET', scope: 'project', permission: 'sessions:read' } as const;

export const listSessionCalls = operation({
  ...read,
  id: 'listSessionCalls',
  path: `${projectPath}/sessions/:id/calls`,
  summary: 'What a session has called outside, newest first: reads and writes, without inputs and results',
  query: v.strictObject(pageQuery),
  answers: { 200: page },
});

export const listCalls = operation({
  ...read,
  id: 'listCalls',
  path: `${projectPath}/calls`,
  summary: 'What the service itself has sent outside (plans, checks, statuses, notifications), newest first',
  query: v.strictObject(pageQuery),
  answers: { 200: page },
});
