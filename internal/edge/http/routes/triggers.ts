// Stored triggers (docs/reference/http-api.md#conventions): one row per event key and heartbeat.

import * as api from '../../../../schemas/api/triggers.ts';
import { countTriggers } from '../../../adapters/store/console/counts.ts';
import { lastMatches } from '../../../adapters/store/events/event-routes.ts';
import { listTriggers, type TriggerRow } from '../../../adapters/store/resources/triggers.ts';
import type { Trigger } from '../../../domain/spec.ts';
import { Fault } from '../../../domain/fault.ts';
import { nameDelivery } from '../../../flows/ingest/ingest.ts';
import { explainTriggers } from '../../../flows/routing/routing.ts';
import { findTrigger, originsOfTriggers } from '../../../flows/sync/sync.ts';
import { pageOf } from '../page.ts';
import { ok, type Route, serve } from '../route.ts';
import { counted, readOrdinalPage, requireObject } from './shapes.ts';

function show(row: TriggerRow) {
  // What is stored is what compile gave.
  const spec = row.spec as unknown as Trigger;
  const { where, fallback, routing } = spec;
  return {
    agent: row.agent,
    ordinal: row.ordinal,
    kind: row.kind,
    event: row.event,
    ...(row.endpoint !== null && { endpoint: row.endpoint }),
    ...(row.connection !== null && { connection: row.connection }),
    ...(spec.kind === 'heartbeat' && { cron: spec.cron, timezone: spec.timezone }),
    where,
    fallback,
    routing,
    status: row.status,
  };
}

export const triggerRoutes: readonly Route[] = [
  serve(api.listTriggers, async ({ ctx, project: where, query }) => {
    const { limit, after } = readOrdinalPage(query);
    const { rows, isCut } = await listTriggers(ctx.db, where.id, { limit: limit + 1, after, agent: query.agent });
    const total = query.counts === 'true' ? await countTriggers(ctx.db, where.id, query.agent) : undefined;
    const shown = rows.slice(0, limit);
    const [sourceOf, matchOf] = await Promise.all([
      query.origins === 'true'
        ? originsOfTriggers(
            ctx,
            where,
            shown.map(({ agent }) => agent),
          )
        : undefined,
      query.matches === 'true' ? lastMatches(ctx.db, shown) : undefined,
    ]);
    const item = (row: TriggerRow) => ({
      ...show(row),
      ...(sourceOf !== undefined && { source: sourceOf(row.agent, row.ordinal) }),
      ...matchOf?.(row),
    });
    return ok({ ...pageOf(rows, limit, (row) => [row.agent, row.ordinal], item, isCut), ...counted(total) });
  }),
  serve(api.getTrigger, async ({ ctx, project: where, params }) => {
    const { row, spec, origin, last } = await findTrigger(ctx, where, params.agent, params.ordinal);
    return ok({
      ...show(row),
      ...('message' in spec && spec.message !== undefined && { message: spec.message }),
      source: origin,
      ...last,
    });
  }),
  serve(api.explainTriggers, async ({ ctx, project: where, body }) => {
    const { event, endpoint, raw, connection } = body;
    const payload = requireObject(body.payload, 'payload', 'as events carry');
    if (raw === true) {
      if (connection === undefined)
        throw new Fault('invalid', 'invalid-body', 'connection: name it for a raw delivery');
      const named = await nameDelivery(ctx, where, { connection, event, body: payload });
      if (named.ignored !== undefined) return ok({ triggers: [], ignored: named.ignored });
      const { key, payload: carried } = named.event;
      const told = await explainTriggers(ctx, where, { event: key, payload: carried, connection });
      return ok({ ...told, event: key, payload: { ...carried, raw: undefined } });
    }
    if (event === undefined) throw new Fault('invalid', 'invalid-body', 'event: the key is needed');
    return ok(await explainTriggers(ctx, where, { event, payload, endpoint, connection }));
  }),
];
