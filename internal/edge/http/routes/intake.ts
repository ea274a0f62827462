// Deliveries of providers (contract, section 4). Public: each proves itself with its signature.

import * as v from 'valibot';
import { ingestOf } from '../../../flows/context.ts';
import {
  deliveryBytesMax,
  type Intake,
  type IntakeProvider,
  reserveBodyBytes,
  takeChat,
  takeCodehost,
  takeTracker,
} from '../../../flows/ingest/ingest.ts';
import { type Answer, type Call, defineRoute, type Route, type RouteSpec } from '../route.ts';
import { recorded } from './shapes.ts';

const ignored = v.object({ ignored: v.literal(true), reason: v.string() });
const challenge = v.object({ challenge: v.string() });

const from = (provider: IntakeProvider) =>
  ({
    method: 'POST',
    path: `/api/v1/intake/${provider}/:connectionId`,
    scope: 'public',
    permission: null,
    rawBody: true,
    bodyLimitBytes: deliveryBytesMax[provider],
    admit: (ctx, bytes) => ingestOf(ctx).admit(bytes),
    admitMore: (ctx, params, bytes) => reserveBodyBytes(ctx, provider, params['connectionId'] ?? '', bytes),
  }) satisfies Partial<RouteSpec<undefined, undefined>>;
const deliveryOf = ({ params, raw, headers }: Call<Record<string, never>, undefined>) => ({
  connectionId: params['connectionId'] ?? '',
  raw,
  headers,
});
const answer = (taken: Intake): Answer => ({ status: 'created' in taken && !taken.created ? 200 : 202, body: taken });

export const intakeRoutes: readonly Route[] = [
  defineRoute({
    ...from('codehost'),
    summary: 'Webhooks of a code host; recorded once per delivery',
    answers: { 200: recorded, 202: v.union([recorded, ignored]) },
    handle: async (call) => answer(await takeCodehost(call.ctx, deliveryOf(call))),
  }),
  defineRoute({
    ...from('tracker'),
    summary: 'Webhooks of an issue tracker; recorded once per delivery',
    answers: { 200: recorded, 202: v.union([recorded, ignored]) },
    handle: async (call) => answer(await takeTracker(call.ctx, deliveryOf(call))),
  }),
  defineRoute({
    ...from('chat'),
    summary: 'Events of a chat provider; recorded once each. Answers its challenge',
    answers: { 200: v.union([recorded, challenge]), 202: v.union([recorded, ignored]) },
    async handle(call) {
      const taken = await takeChat(call.ctx, deliveryOf(call));
      return 'challenge' in taken ? { status: 200, body: taken } : answer(taken);
    },
  }),
];
