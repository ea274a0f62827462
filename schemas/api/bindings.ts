// Bindings: who holds which target.

import * as v from 'valibot';
import { dryRun, dryRunQuery, json, nameText, onOff, projectPath, reasonText, target, timestamp } from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const entries = {
  id: v.string(),
  agent: v.string(),
  /** Null: an agent's claim that waits for a replacement. */
  sessionId: v.nullable(v.string()),
  target,
  state: v.picklist(['active', 'released']),
  lifecycle: v.picklist(['manual', 'held']),
  continuity: v.picklist(['session', 'agent']),
  createdAt: timestamp,
  updatedAt: timestamp,
  releasedAt: v.optional(timestamp),
};
export const binding = named('Binding', v.object({ ...entries, context: v.nullable(json) }));
/** Without its context with view=row. */
const listedBinding = named('ListedBinding', v.object({ ...entries, context: v.exactOptional(v.nullable(json)) }));
export type Binding = Shape<typeof binding>;

export const listBindings = operation({
  tag: 'bindings',
  method: 'GET',
  scope: 'project',
  permission: 'bindings:read',
  id: 'listBindings',
  path: `${projectPath}/bindings`,
  summary: 'Active bindings, newest first; with all=true released ones too',
  query: v.strictObject({
    ...pageQuery,
    all: v.optional(onOff),
    agent: v.optional(nameText),
    session: v.optional(v.string()),
  }),
  answers: { 200: pageOf('BindingPage', listedBinding) },
});

export const releaseBinding = operation({
  tag: 'bindings',
  method: 'DELETE',
  scope: 'project',
  permission: 'bindings:release',
  id: 'releaseBinding',
  path: `${projectPath}/bindings/:id`,
  summary: 'Release a binding, also a held one; one that is released stays as it is',
  body: v.strictObject({ reason: v.optional(reasonText) }),
  query: v.strictObject(dryRunQuery),
  answers: { 200: dryRun, 204: null },
});
