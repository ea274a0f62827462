// Sessions: lists, one, its transcript and its stream, and what people do with it (docs/reference/http-api.md#sessions).

import * as api from '../../../../schemas/api/sessions.ts';
import * as usage from '../../../../schemas/api/usage.ts';
import { countMessages, countSessions } from '../../../adapters/store/console/counts.ts';
import {
  listMessages,
  listSessions,
  sessionById,
  sessionState,
} from '../../../adapters/store/sessions/session-reads.ts';
import { forwardedRequest } from '../../../flows/peers.ts';
import {
  answerPermission,
  archiveSession,
  execInput,
  execInSession,
  interruptSession,
  noSession,
  sendMessage,
  type SessionEvent,
  spendingOf,
  startSession,
  watchSession,
} from '../../../flows/sessions/sessions.ts';
import { cursorOf, pageOf, readNumberPage } from '../page.ts';
import { accepted, created, noContent, ok, type Route, serve, type SseEvent, streaming } from '../route.ts';
import { showMessage, showSession, showSessionRow, showState, showWholeSession } from './session-shapes.ts';
import { counted, readIdPage, requireObject } from './shapes.ts';
import { isUuid } from '../../../domain/uuid.ts';
import { dryArchiveSession } from '../../../flows/console/console.ts';

/** The id of a path, or Fault `not_found`: what is no id names nothing. */
function requireId({ id }: { readonly id: string }): string {
  if (!isUuid(id)) throw noSession();
  return id.toLowerCase();
}

async function* shown(events: AsyncIterable<SessionEvent>): AsyncGenerator<SseEvent> {
  for await (const event of events) {
    if (event.event === 'message') yield { ...event, data: showMessage(event.data) };
    else yield { ...event, data: showState(event.data) };
  }
}

export const sessionRoutes: readonly Route[] = [
  serve(api.listSessions, async ({ ctx, project: where, query }) => {
    const { limit, before } = readIdPage(query);
    const { agent, state } = query;
    const live = query.live === undefined ? undefined : query.live === 'true';
    const filter = { agent, state, live };
    const [rows, total] = await Promise.all([
      listSessions(ctx.db, where.id, { ...filter, before, limit: limit + 1 }),
      query.counts === 'true' ? countSessions(ctx.db, where.id, filter) : undefined,
    ]);
    const shown = query.view === 'row' ? showSessionRow : showSession;
    return ok({ ...pageOf(rows, limit, (row) => [row.id], shown), ...counted(total) });
  }),
  serve(usage.getUsage, async ({ ctx, project: where }) => ok(await spendingOf(ctx, { projectId: where.id }))),
  serve(api.getSession, async ({ ctx, project: where, params }) => {
    const row = await sessionById(ctx.db, where.id, requireId(params));
    if (row === undefined) throw noSession();
    return ok(showWholeSession(row));
  }),
  serve(api.listMessages, async ({ ctx, project: where, params, query }) => {
    const id = requireId(params);
    const { limit, before: cursor } = readNumberPage(query);
    const after = cursor ?? (query.after === undefined ? undefined : Number(query.after));
    const order = query.after === undefined ? (query.order ?? 'asc') : 'asc';
    if ((await sessionState(ctx.db, where.id, id)) === undefined) throw noSession();
    const { rows, more } = await listMessages(ctx.db, id, { order, after, limit });
    const last = rows.at(-1);
    const nextCursor = more && last !== undefined ? cursorOf([last.seq]) : null;
    const from = query.after === undefined ? undefined : Number(query.after);
    const total = query.counts === 'true' ? await countMessages(ctx.db, id, from) : undefined;
    return ok({ items: rows.map(showMessage), nextCursor, ...counted(total) });
  }),
  serve(api.sendMessage, async ({ ctx, project: where, params, body, actor }) =>
    accepted(showMessage(await sendMessage(ctx, where, { sessionId: requireId(params), text: body.text, actor }))),
  ),
  serve(api.interruptSession, async ({ ctx, project: where, params, actor }) => {
    const id = requireId(params);
    return accepted({ id, ...(await interruptSession(ctx, where, id, actor)) });
  }),
  serve(api.execSession, async ({ ctx, project: where, params, body, actor, signal, headers }) => {
    const { argv, input: hasInput = false } = body;
    const stdin = body.stdin === undefined ? undefined : Buffer.from(body.stdin, 'base64');
    const handOn = forwardedRequest(headers, signal);
    const of = { sessionId: requireId(params), argv, stdin, hasInput, actor, signal, handOn };
    return { status: 200 as const, lines: await execInSession(ctx, where, of) };
  }),
  serve(api.execSessionInput, async ({ ctx, project: where, params, body, headers, signal }) => {
    const data = Buffer.from(body.data ?? '', 'base64');
    const handOn = forwardedRequest(headers, signal);
    const of = { sessionId: requireId(params), program: params.program, data, isLast: body.end === true, handOn };
    await execInput(ctx, where, of);
    return noContent;
  }),
  serve(api.archiveSession, async ({ ctx, project: where, params, query, body, actor }) => {
    const id = requireId(params);
    if (query.dryRun === 'true') return ok(await dryArchiveSession(ctx, where, id));
    return ok(showWholeSession(await archiveSession(ctx, where, id, actor, body.reason)));
  }),
  serve(api.answerPermission, async ({ ctx, project: where, params, body, actor }) => {
    const sessionId = requireId(params);
    const permissionId = params.permission.toLowerCase();
    await answerPermission(ctx, where, { sessionId, permissionId, decision: body.decision, actor });
    return noContent;
  }),
  serve(api.streamSession, async ({ ctx, project: where, params, query, lastEventId, signal }) => {
    const sessionId = requireId(params);
    if ((await sessionState(ctx.db, where.id, sessionId)) === undefined) throw noSession();
    const resumed = lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId) ? lastEventId : query.after;
    const events = watchSession(ctx, { projectId: where.id, sessionId, after: Number(resumed ?? 0), signal });
    return streaming(shown(events));
  }),
  serve(api.startSession, async ({ ctx, project: where, params, body, actor }) => {
    const { message } = body;
    const input = body.input === undefined ? undefined : requireObject(body.input, 'input', 'as an event’s payload');
    return created(showWholeSession(await startSession(ctx, where, { agent: params.name, message, input, actor })));
  }),
];
