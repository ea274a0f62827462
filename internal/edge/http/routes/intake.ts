// Deliveries of providers (contract, section 4). Public: each proves itself with its signature.

import * as v from 'valibot';
import { takeCodehost } from '../../../flows/ingest/ingest.ts';
import { defineRoute, type Route } from '../route.ts';
import { recorded } from './shapes.ts';

const ignored = v.object({ ignored: v.literal(true), reason: v.string() });

export const intakeRoutes: readonly Route[] = [
  defineRoute({
    method: 'POST',
    path: '/api/v1/intake/codehost/:connectionId',
    summary: 'Webhooks of a code host; recorded once per delivery',
    scope: 'public',
    permission: null,
    rawBody: true,
    answers: { 200: recorded, 202: v.union([recorded, ignored]) },
    async handle({ ctx, params, raw, headers }) {
      const taken = await takeCodehost(ctx, {
        connectionId: params['connectionId'] ?? '',
        raw,
        signature: headers['x-hub-signature-256'],
        event: headers['x-github-event'],
        deliveryId: headers['x-github-delivery'],
      });
      return { status: 'created' in taken && !taken.created ? 200 : 202, body: taken };
    },
  }),
];
