// `POST P/apply`: files in, plan or outcome out (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/apply.ts';
import { applyFiles } from '../../../flows/sync/sync.ts';
import { textsOf } from '../large-body.ts';
import { ok, type Route, serve } from '../route.ts';
import { contextText } from './shapes.ts';

/** Room for the largest tree that compile accepts with its avatars, in base64. */
const bodyLimitBytes = 64 * 1024 * 1024;

export const applyRoutes: readonly Route[] = [
  serve(
    api.applyFiles,
    async ({ ctx, project: where, body: sent, raw, actor }) => {
      const texts = textsOf(raw);
      const result = await applyFiles(ctx, {
        project: where,
        files: sent.files.map((file) => ({ ...file, content: texts.get(file.content) ?? file.content })),
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
    { bodyLimitBytes: bodyLimitBytes, takesTexts: true },
  ),
];
