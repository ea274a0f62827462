// Webhook ingest (docs/reference/webhook-endpoints.md#requests). Public: each endpoint says how a caller proves itself. Open to any origin, and
// no cookie is ever read.

import { ingestWebhookEvent, signatureHeader } from '../../../../schemas/api/endpoints.ts';
import { ingestOf } from '../../../flows/context.ts';
import { logTurnedAway, takeWebhook } from '../../../flows/ingest/ingest.ts';
import { accepted, type Direct, ok, type Route, serve } from '../route.ts';

async function take({ ctx, param, raw, headers }: Direct) {
  const body = await takeWebhook(ctx, {
    slug: param,
    raw,
    signature: headers[signatureHeader],
    authorization: headers['authorization'],
  });
  return body.created ? accepted(body) : ok(body);
}

export const webhookRoutes: readonly Route[] = [
  serve(ingestWebhookEvent, ({ ctx, params, raw, headers }) => take({ ctx, param: params.slug, raw, headers }), {
    admit: (ctx, bytes, giveUp, slug) =>
      ingestOf(ctx).admit(bytes, giveUp, ingestOf(ctx).knownEndpoint(slug)?.projectId),
    admitMore: async (ctx) => ingestOf(ctx).admitRest(),
    direct: take,
    refused: (ctx, slug, fault) => logTurnedAway(ctx, { kind: 'endpoint', slug }, fault),
  }),
];
