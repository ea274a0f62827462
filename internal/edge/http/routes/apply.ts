// `POST P/apply`: files in, plan or outcome out (contract, section 3).

import * as v from 'valibot';
import { applyFiles } from '../../../flows/sync/sync.ts';
import { defineRoute, ok, type Route } from '../route.ts';
import { action, contextText, contextVariables, diagnostic, json, project, receipt, timestamp } from './shapes.ts';

/** Room for the largest tree that compile accepts with its avatars, in base64. */
const BODY_LIMIT_BYTES = 64 * 1024 * 1024;
const FILES_MAX = 20_000;

const body = v.strictObject({
  files: v.pipe(
    v.array(
      v.strictObject({
        path: v.pipe(v.string(), v.minLength(1), v.maxLength(4_096)),
        content: v.string(),
        encoding: v.optional(v.picklist(['utf8', 'base64'])),
      }),
    ),
    v.maxLength(FILES_MAX),
  ),
  /** Context variables, beneath each document's own. */
  context: v.optional(contextVariables),
  dryRun: v.optional(v.boolean()),
  prune: v.optional(v.boolean()),
  adopt: v.optional(v.boolean()),
});

const impactCount = v.object({ count: v.number(), eventIds: v.array(v.string()) });
/** Of a dry run: which events of the last seven days would newly match a trigger, or stop matching it. */
const eventImpact = v.object({
  since: timestamp,
  /** Events on the keys of changed triggers that were matched again. */
  events: v.number(),
  /** There are more of them. */
  truncated: v.boolean(),
  triggers: v.array(
    v.object({
      agent: v.string(),
      ordinal: v.number(),
      event: v.string(),
      newly: impactCount,
      stopped: impactCount,
    }),
  ),
});
const answer = v.object({
  applyId: v.string(),
  status: v.picklist(['applied', 'unchanged', 'planned']),
  actions: v.array(action),
  consequences: json,
  webhooks: v.array(receipt),
  diagnostics: v.array(diagnostic),
  eventImpact: v.optional(eventImpact),
});

export const applyRoutes: readonly Route[] = [
  defineRoute({
    method: 'POST',
    scope: 'project',
    permission: 'resources:apply',
    path: `${project}/apply`,
    summary: 'Apply files with the owner manual; 422 with diagnostics when nothing could be changed',
    body,
    bodyLimitBytes: BODY_LIMIT_BYTES,
    answers: { 200: answer },
    handle: async ({ ctx, project: where, body: sent, actor }) => {
      const result = await applyFiles(ctx, {
        project: where,
        files: sent.files,
        context: contextText(sent.context ?? {}),
        dryRun: sent.dryRun ?? false,
        prune: sent.prune ?? true,
        adopt: sent.adopt ?? false,
        actor,
      });
      const { applyId, status, actions, consequences, webhooks, diagnostics, eventImpact: impact } = result;
      return ok({
        applyId,
        status,
        actions,
        consequences,
        webhooks,
        diagnostics,
        ...(impact && { eventImpact: impact }),
      });
    },
  }),
];
