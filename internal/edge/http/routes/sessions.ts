// Sessions: lists, one, its transcript and its stream, and what people do with it (contract, sections 3 and 6).

import * as v from 'valibot';
import {
  listMessages,
  listSessions,
  sessionById,
  sessionState,
} from '../../../adapters/store/sessions/session-reads.ts';
import {
  answerPermission,
  archiveSession,
  noSession,
  sendMessage,
  type SessionEvent,
  spendingOf,
  startSession,
  watchSession,
} from '../../../flows/sessions/sessions.ts';
import { cursorOf, pageOf, pageQuery, pageSchema, readNumberPage } from '../page.ts';
import { created, defineRoute, noContent, ok, type Route, type SseEvent } from '../route.ts';
import {
  listedSession,
  message,
  sessionState as stateWord,
  showMessage,
  showSession,
  showState,
  showWholeSession,
  spending,
  wholeSession,
} from './session-shapes.ts';
import { isUuid, project, readIdPage, requireObject } from './shapes.ts';

const read = { method: 'GET', scope: 'project', permission: 'sessions:read' } as const;
const control = { method: 'POST', scope: 'project', permission: 'sessions:control' } as const;
const textMax = 100_000;

/** The id of a path, or Fault `not_found`: what is no id names nothing. */
function requireId(params: { readonly [name: string]: string }): string {
  const id = params['id'] ?? '';
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
  defineRoute({
    ...read,
    path: `${project}/sessions`,
    summary: 'Sessions, newest first',
    query: v.strictObject({
      ...pageQuery,
      agent: v.optional(v.pipe(v.string(), v.maxLength(128))),
      state: v.optional(stateWord),
      live: v.optional(v.picklist(['true', 'false'])),
    }),
    answers: { 200: pageSchema(listedSession) },
    handle: async ({ ctx, project: where, query }) => {
      const { limit, before } = readIdPage(query);
      const { agent, state } = query;
      const live = query.live === undefined ? undefined : query.live === 'true';
      const rows = await listSessions(ctx.db, where.id, { agent, state, live, before, limit: limit + 1 });
      return ok(pageOf(rows, limit, (row) => [row.id], showSession));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/usage`,
    summary: 'What the project’s model calls have used this UTC day, this month and ever',
    answers: { 200: spending },
    handle: async ({ ctx, project: where }) => ok(await spendingOf(ctx, { projectId: where.id })),
  }),
  defineRoute({
    ...read,
    path: `${project}/sessions/:id`,
    summary: 'One session with what it holds: bindings, claims, checks, its inbox in numbers, its latest turn',
    answers: { 200: wholeSession },
    handle: async ({ ctx, project: where, params }) => {
      const id = requireId(params);
      const row = await sessionById(ctx.db, where.id, id);
      if (row === undefined) throw noSession();
      return ok(showWholeSession(row));
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/sessions/:id/messages`,
    summary:
      'A session’s transcript by seq: from its start, or with order=desc from its newest message; a page ends early at 4 MiB',
    query: v.strictObject({ ...pageQuery, order: v.optional(v.picklist(['asc', 'desc'])) }),
    answers: { 200: pageSchema(message) },
    handle: async ({ ctx, project: where, params, query }) => {
      const id = requireId(params);
      const { limit, before: after } = readNumberPage(query);
      if ((await sessionState(ctx.db, where.id, id)) === undefined) throw noSession();
      const { rows, more } = await listMessages(ctx.db, id, { order: query.order ?? 'asc', after, limit });
      const last = rows.at(-1);
      const nextCursor = more && last !== undefined ? cursorOf([last.seq]) : null;
      return ok({ items: rows.map(showMessage), nextCursor });
    },
  }),
  defineRoute({
    ...control,
    path: `${project}/sessions/:id/messages`,
    summary: 'Say something to a live session: it interrupts the turn in flight; 409 for one that has ended',
    body: v.strictObject({ text: v.pipe(v.string(), v.maxLength(textMax), v.regex(/\S/, 'Expected words')) }),
    answers: { 202: message },
    handle: async ({ ctx, project: where, params, body, actor }) => {
      const said = await sendMessage(ctx, where, { sessionId: requireId(params), text: body.text, actor });
      return { status: 202, body: showMessage(said) };
    },
  }),
  defineRoute({
    ...control,
    path: `${project}/sessions/:id/archive`,
    summary: 'End a session; one that is archived stays as it is, 409 for one that ended otherwise',
    answers: { 200: wholeSession },
    handle: async ({ ctx, project: where, params, actor }) =>
      ok(showWholeSession(await archiveSession(ctx, where, requireId(params), actor))),
  }),
  defineRoute({
    ...control,
    path: `${project}/sessions/:id/permissions/:permission`,
    summary: 'Answer what a session’s harness asks; 409 where that is not open any more',
    body: v.strictObject({ decision: v.picklist(['allow', 'allow_always', 'reject']) }),
    answers: { 204: null },
    handle: async ({ ctx, project: where, params, body, actor }) => {
      const sessionId = requireId(params);
      const permissionId = (params['permission'] ?? '').toLowerCase();
      if (!isUuid(permissionId)) throw noSession();
      await answerPermission(ctx, where, { sessionId, permissionId, decision: body.decision, actor });
      return noContent;
    },
  }),
  defineRoute({
    ...read,
    path: `${project}/sessions/:id/stream`,
    summary:
      'Server-sent events: the session’s state, each message from its first and each change of state; resumes after Last-Event-ID, or after=SEQ; ends when the session does',
    query: v.strictObject({ after: v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/, 'Expected a seq'))) }),
    answers: { 200: null },
    stream: true,
    handle: async ({ ctx, project: where, params, query, lastEventId, signal }) => {
      const sessionId = requireId(params);
      if ((await sessionState(ctx.db, where.id, sessionId)) === undefined) throw noSession();
      const resumed = lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId) ? lastEventId : query.after;
      const events = watchSession(ctx, { projectId: where.id, sessionId, after: Number(resumed ?? 0), signal });
      return { status: 200, stream: shown(events) };
    },
  }),
  defineRoute({
    method: 'POST',
    scope: 'project',
    permission: 'agents:start',
    path: `${project}/agents/:name/sessions`,
    summary: 'Start a session by hand; `input` stands where an event’s payload would',
    body: v.strictObject({
      message: v.optional(v.pipe(v.string(), v.maxLength(textMax), v.regex(/\S/, 'Expected words'))),
      input: v.optional(v.unknown()),
    }),
    exactNumbers: true,
    answers: { 201: wholeSession },
    handle: async ({ ctx, project: where, params, body, actor }) => {
      const { message: said } = body;
      const input = body.input === undefined ? undefined : requireObject(body.input, 'input', 'as an event’s payload');
      const request = { agent: params['name'] ?? '', message: said, input, actor };
      return created(showWholeSession(await startSession(ctx, where, request)));
    },
  }),
];
