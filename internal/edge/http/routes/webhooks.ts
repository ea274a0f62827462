// Webhook ingest (spec, Webhook ingest). Public: each endpoint says how a caller proves itself. Open to any origin, and
// no cookie is ever read.

import { ingestOf } from '../../../flows/context.ts';
import { takeWebhook } from '../../../flows/ingest/ingest.ts';
import { type Answer, defineRoute, type Direct, type Route } from '../route.ts';
import { recorded } from './shapes.ts';

async function take({ ctx, param, raw, headers }: Direct): Promise<Answer> {
  const body = await takeWebhook(ctx, {
    slug: param,
    raw,
    signature: headers['x-svc-signature-256'],
    authorization: headers['authorization'],
  });
  return { status: body.created ? 202 : 200, body };
}

export const webhookRoutes: readonly Route[] = [
  defineRoute({
    method: 'POST',
    path: '/api/v1/webhook-endpoints/:slug/events',
    summary: 'An event for a webhook endpoint; recorded once per dedupKey',
    scope: 'public',
    permission: null,
    rawBody: true,
    cors: true,
    admit: (ctx, bytes) => ingestOf(ctx).admit(bytes),
    admitMore: async (ctx) => ingestOf(ctx).admitRest(),
    answers: { 200: recorded, 202: recorded },
    handle: ({ ctx, params, raw, headers }) => take({ ctx, param: params['slug'] ?? '', raw, headers }),
    direct: take,
  }),
];
