// Deliveries of providers (docs/reference/connections.md#intakes). Public: each proves itself with its signature.

import * as api from '../../../../schemas/api/intake.ts';
import { ingestOf } from '../../../flows/context.ts';
import {
  deliveryBytesMax,
  type IntakeProvider,
  logTurnedAway,
  reserveBodyBytes,
  takeChat,
  takeCodehost,
  takeErrtrack,
  takeTracker,
} from '../../../flows/ingest/ingest.ts';
import type { Intake } from '../../../flows/ingest/outcome.ts';
import { accepted, type Call, ok, type Route, serve, type Serving } from '../route.ts';

const from = (provider: IntakeProvider): Serving => ({
  bodyLimitBytes: deliveryBytesMax[provider],
  admit: (ctx, bytes, giveUp) => ingestOf(ctx).admit(bytes, giveUp),
  admitMore: (ctx, params, bytes, giveUp) =>
    reserveBodyBytes(ctx, provider, params['connectionId'] ?? '', bytes, giveUp),
  refused: (ctx, id, fault) => logTurnedAway(ctx, { kind: 'connection', id }, fault),
});
const deliveryOf = ({
  params,
  raw,
  headers,
}: Pick<Call<unknown, unknown, 'connectionId'>, 'params' | 'raw' | 'headers'>) => ({
  connectionId: params.connectionId,
  raw,
  headers,
});

/** Of one connection, whoever sends to it. */
const sentTo = ({ ctx, params }: Pick<Call<unknown, unknown, 'connectionId'>, 'ctx' | 'params'>) => ({
  ...ctx,
  db: ctx.db.ownedBy(params.connectionId),
});

/** 200 for what was recorded before; 202 for what is new, and for what is ignored. */
const answer = (taken: Intake) => ('created' in taken && !taken.created ? ok(taken) : accepted(taken));

export const intakeRoutes: readonly Route[] = [
  serve(
    api.takeCodehostDelivery,
    async (call) => answer(await takeCodehost(sentTo(call), deliveryOf(call))),
    from('codehost'),
  ),
  serve(
    api.takeTrackerDelivery,
    async (call) => answer(await takeTracker(sentTo(call), deliveryOf(call))),
    from('tracker'),
  ),
  serve(
    api.takeChatDelivery,
    async (call) => {
      const taken = await takeChat(sentTo(call), deliveryOf(call));
      return 'challenge' in taken ? ok(taken) : answer(taken);
    },
    from('chat'),
  ),
  serve(api.takeErrtrackDelivery, async ({ ctx, raw, headers }) => answer(await takeErrtrack(ctx, { raw, headers })), {
    admit: (ctx, bytes, giveUp) => ingestOf(ctx).admit(bytes, giveUp),
    refused: (ctx, _none, fault) => logTurnedAway(ctx, { kind: 'connection', name: 'the error tracker' }, fault),
  }),
];
