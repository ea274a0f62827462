// Files in, plan or outcome out.

import * as v from 'valibot';
import { action, contextVariables, diagnostic, projectPath, receipt } from './common.ts';
import { named, operation, type Shape } from './operation.ts';
import { consequences, eventImpact } from './reconciles.ts';

const filesMax = 20_000;

const file = named(
  'ApplyFile',
  v.strictObject({
    path: v.pipe(v.string(), v.minLength(1), v.maxLength(4_096)),
    content: v.string(),
    /** Of `content`; `utf8` where it is left out. */
    encoding: v.optional(v.picklist(['utf8', 'base64'])),
  }),
);
export type ApplyFile = Shape<typeof file>;

export const applyRequest = named(
  'ApplyRequest',
  v.strictObject({
    files: v.pipe(v.array(file), v.maxLength(filesMax)),
    /** Context variables, beneath each document's own. */
    context: v.optional(contextVariables),
    dryRun: v.optional(v.boolean()),
    prune: v.optional(v.boolean()),
    adopt: v.optional(v.boolean()),
  }),
);

export const applyResult = named(
  'ApplyResult',
  v.object({
    applyId: v.string(),
    status: v.picklist(['applied', 'unchanged', 'planned']),
    actions: v.array(action),
    consequences,
    webhooks: v.array(receipt),
    diagnostics: v.array(diagnostic),
    /** Of a dry run. */
    eventImpact: v.optional(eventImpact),
  }),
);
export type ApplyResult = Shape<typeof applyResult>;

export const applyFiles = operation({
  tag: 'apply',
  method: 'POST',
  scope: 'project',
  permission: 'resources:apply',
  id: 'applyFiles',
  path: `${projectPath}/apply`,
  summary: 'Apply files with the owner manual; 422 with diagnostics when nothing could be changed',
  body: applyRequest,
  answers: { 200: applyResult },
});
