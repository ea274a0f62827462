// Recorded events (docs/reference/http-api.md#conventions).

import * as api from '../../../../schemas/api/events.ts';
import {
  countAllEvents,
  endpointNamed,
  eventById,
  type EventFilter,
  type EventRoute,
  type EventRow,
  listEvents,
} from '../../../adapters/store/events/event-reads.ts';
import { explainEvent } from '../../../flows/routing/routing.ts';
import { replayEvent, shownPayload, shownPieces } from '../../../flows/ingest/ingest.ts';
import { canonicalEventKey } from '../../../domain/events.ts';
import { Fault } from '../../../domain/fault.ts';
import { messageOf } from '../../../domain/messages.ts';
import { cursorOf, pageOf, readNumberPage } from '../page.ts';
import { accepted, ok, okWith, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';

/** Bytes: so many of each event's payload a page carries; a larger one is read with the event itself. */
const listedPayloadMax = 16 * 1024;

const showDecided = ({ sessionIds, because, severity }: EventRoute) => ({
  ...(sessionIds.length > 0 && { sessionId: sessionIds[0] }),
  ...(sessionIds.length > 1 && { sessionIds }),
  ...(because !== null && { because }),
  ...(severity !== null && { severity }),
});

const show = (row: EventRow) => ({
  id: row.id,
  key: row.key,
  source: row.key.split('.', 1)[0] ?? '',
  // Null: retention has taken the body.
  payload: shownPayload(row) ?? null,
  target: row.target,
  routerStatus: row.routerStatus,
  ...(row.severity !== null && { severity: row.severity }),
  ...(row.reason !== null && { reason: row.reason }),
  ...(row.replayOf !== null && { replayOf: row.replayOf }),
  ...(row.endpoint !== null && { endpoint: row.endpoint }),
  receivedAt: row.receivedAt,
  routes: row.routes.map((one) => ({
    agent: one.agent,
    ordinal: one.ordinal,
    decision: one.decision,
    ...showDecided(one),
  })),
});
function showRow(row: EventRow) {
  const { payload: _payload, ...rest } = show(row);
  return rest;
}
function showListed(row: EventRow) {
  const { payload, ...rest } = show(row);
  const isLarge = row.payload === null && row.size > 0;
  return { ...rest, ...(isLarge ? { payloadTruncated: true as const } : { payload }) };
}

/** The id of a path, or Fault `not_found`: what is no id names nothing. */
function requireId({ id }: { readonly id: string }): string {
  if (!isUuid(id)) throw new Fault('not_found', 'event-not-found', messageOf('noEvent', id));
  return id.toLowerCase();
}

/** `webhook.received`, `webhook.*` for all that begin so, `!svc.*` for the others. */
function keyFilter(text: string | undefined): Pick<EventFilter, 'key' | 'keyLike'> {
  if (text === undefined) return {};
  const not = text.startsWith('!');
  const bare = not ? text.slice(1) : text;
  // Events are recorded under the one spelling, whichever of them a trigger is written with.
  const key = canonicalEventKey(bare);
  if (!not && !bare.includes('*')) return { key };
  return { keyLike: { pattern: key.replaceAll(/[\\%_]/g, '\\$&').replaceAll('*', '%'), not } };
}

export const eventRoutes: readonly Route[] = [
  serve(api.listEvents, async ({ ctx, project: where, query }) => {
    const { limit, before } = readNumberPage(query);
    const { status, severity } = query;
    const isRow = query.view === 'row';
    const endpointId = query.endpoint === undefined ? undefined : await endpointNamed(ctx.db, where.id, query.endpoint);
    // Nothing came in by an endpoint that is not there, as nothing has a key that was never seen.
    if (endpointId === null)
      return ok({ items: [], nextCursor: null, ...counted(query.counts === 'true' ? 0 : undefined) });
    const filter = {
      ...keyFilter(query.key),
      status,
      severity,
      endpointId,
      before,
      // A row shows no payload: then none leaves the database.
      payloadMax: isRow ? -1 : listedPayloadMax,
      limit: limit + 1,
    };
    const [{ rows, lookedTo }, total] = await Promise.all([
      listEvents(ctx.db, where.id, filter),
      query.counts === 'true' ? countAllEvents(ctx.db, where.id, filter) : undefined,
    ]);
    const page = { ...pageOf(rows, limit, (row) => [row.seq], isRow ? showRow : showListed), ...counted(total) };
    return ok(lookedTo === null ? page : { ...page, nextCursor: cursorOf([lookedTo]) });
  }),
  serve(api.getEvent, async ({ ctx, project: where, params }) => {
    const id = requireId(params);
    const row = await eventById(ctx.db, where.id, id);
    if (row === undefined) throw new Fault('not_found', 'event-not-found', messageOf('noEvent', id));
    const shown = show(row);
    if (row.large === undefined) return ok(shown);
    const { payload: _payload, ...rest } = shown;
    return okWith(rest, 'payload', shownPieces(row.large, row.attributions));
  }),
  serve(api.explainEvent, async ({ ctx, project: where, params }) => {
    const { triggers, ...rest } = await explainEvent(ctx, where, requireId(params));
    return ok({
      triggers: triggers.map(({ recorded, ...one }) => ({
        ...one,
        recorded: recorded !== undefined,
        ...(recorded !== undefined && showDecided(recorded)),
      })),
      ...rest,
    });
  }),
  serve(api.replayEvent, async ({ ctx, project: where, params, actor }) =>
    accepted(await replayEvent(ctx, where, requireId(params), actor)),
  ),
];
