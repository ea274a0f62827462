// Tools about sessions: who am I, which agents and sessions there are, spawning, speaking to and stopping them.

import { agentFaces } from '../../adapters/store/resources/agents.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import {
  listMessages,
  listSessions,
  type MessageRow,
  sessionById,
  wakeSession,
} from '../../adapters/store/sessions/session-reads.ts';
import { agentOfSession } from '../../adapters/store/sessions/tool-callers.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { deliver, endSession, messageFrom, noSession, requireLive, spawnFromSession } from '../sessions/sessions.ts';
import { tool, type ToolCall, type ToolSpec } from './table.ts';

const agentsMax = 200;

async function whole({ ctx, caller }: ToolCall, id: string) {
  const found = await sessionById(ctx.db, caller.project.id, id);
  if (found === undefined) throw noSession();
  const {
    agent,
    revision,
    state,
    reason,
    position,
    loaded,
    displayTitle,
    origin,
    createdAt,
    activeAt,
    bindings,
    hasMoreBindings,
    live,
    parentId,
  } = found;
  const bound = bindings.map(({ target, lifecycle, continuity, context }) => ({
    target,
    lifecycle,
    continuity,
    context,
  }));
  return {
    id,
    agent,
    revision,
    state,
    live,
    loaded,
    reason,
    ...(position !== null && { position }),
    displayTitle,
    origin,
    parentId,
    createdAt,
    activeAt,
    bindings: bound,
    ...(hasMoreBindings && { moreBindings: true }),
  };
}

/** Bounds of what a page of a conversation tells: a model reads all of it. */
const told = { textChars: 8_000, pageChars: 60_000 } as const;

/** Messages with their texts cut, as many as a page may hold, and whether there are more. */
function cut(rows: readonly MessageRow[], more: boolean) {
  const messages = [];
  let left: number = told.pageChars;
  for (const { seq, role, kind, text, at } of rows) {
    const omitted = text.length - told.textChars;
    const shown = omitted > 0 ? text.slice(0, told.textChars).toWellFormed() : text;
    if (messages.length > 0 && shown.length > left) return { messages, more: true };
    left -= shown.length;
    messages.push({ seq, role, kind, text: shown, ...(omitted > 0 && { omittedChars: omitted }), at });
  }
  return { messages, more };
}

async function conversation(
  { ctx, caller }: ToolCall,
  {
    sessionId,
    after,
    limit,
  }: { readonly sessionId: string; readonly after?: number | undefined; readonly limit: number },
) {
  if ((await agentOfSession(ctx.db, caller.project.id, sessionId)) === undefined) throw noSession();
  const { rows, more } = await listMessages(ctx.db, sessionId, { order: 'asc', after: after ?? 0, limit });
  return cut(rows, more);
}

export const sessionTools: readonly ToolSpec[] = [
  tool({
    name: 'svc.session.get',
    description:
      'Who am I: this session’s id, agent, project, bindings, what started it (event, target or parent session), and which ' +
      'agents’ sessions it may stop (manages).',
    effect: 'none',
    run: async (call) => {
      const { caller } = call;
      const { id, ...rest } = await whole(call, caller.sessionId);
      return {
        sessionId: id,
        ...rest,
        project: caller.project.slug,
        organization: caller.project.orgSlug,
        manages: caller.spec.manages ?? [],
        eventId: caller.eventId,
        target: caller.target,
      };
    },
  }),
  tool({
    name: 'svc.agents.list',
    description:
      'List the agents of this project. concurrency 1: at most one live session. manageable: this session may stop its sessions.',
    effect: 'none',
    run: async ({ ctx, caller }) => {
      const rows = await agentFaces(ctx.db, caller.project.id, agentsMax + 1);
      return {
        agents: rows.slice(0, agentsMax).map((agent) => ({
          ...agent,
          manageable: caller.spec.manages?.includes(agent.name) === true,
        })),
        more: rows.length > agentsMax,
      };
    },
  }),
  tool({
    name: 'svc.sessions.spawn',
    description:
      'Start a session of an agent with a first message, and answer with its id at once; it works on its own. An agent with ' +
      'concurrency 1 that has a live session gets the message there instead (created: false). Read what came of it with ' +
      'svc_sessions_conversation.',
    effect: 'adds',
    run: ({ ctx, caller, actor }, input) =>
      spawnFromSession(ctx, caller, actor, { ...input, input: input.input as JsonObject | undefined }),
  }),
  tool({
    name: 'svc.sessions.list',
    description: 'List sessions of this project, newest first.',
    effect: 'none',
    run: async ({ ctx, caller }, { agent, live, before, limit }) => {
      const rows = await listSessions(ctx.db, caller.project.id, { agent, live, before, limit: limit + 1 });
      return {
        sessions: rows.slice(0, limit).map((row) => ({
          id: row.id,
          agent: row.agent,
          state: row.state,
          live: row.live,
          displayTitle: row.displayTitle,
          createdAt: row.createdAt,
          activeAt: row.activeAt,
        })),
        more: rows.length > limit,
      };
    },
  }),
  tool({
    name: 'svc.sessions.get',
    description: 'Show one session of this project: agent, state, why it ended, what it is bound to.',
    effect: 'none',
    run: (call, { sessionId }) => whole(call, sessionId),
  }),
  tool({
    name: 'svc.sessions.conversation',
    description:
      'Read what a session of this project was told, did and answered, oldest first. Long texts are cut (omittedChars). ' +
      'more: true means there is more behind the last seq; pass that as after.',
    effect: 'none',
    run: conversation,
  }),
  tool({
    name: 'svc.sessions.message',
    description:
      'Say something to another live session of this project. It interrupts what that session is doing, and tells it your ' +
      'session id, so that it can answer the same way.',
    effect: 'adds',
    run: message,
  }),
  tool({
    name: 'svc.sessions.stop',
    description:
      'Stop a session for good: yourself, when your work is done, or a live session of an agent that this one manages. It ' +
      'cannot be started again.',
    effect: 'takes',
    run: stop,
  }),
];

/** The audit entry of what a session does to a session, in the transaction that does it. */
function recordControl(
  tx: Sql,
  { caller: { project, sessionId: by }, actor: principal }: ToolCall,
  action: 'session.messaged' | 'session.archived',
  { sessionId: name, agent }: { readonly sessionId: string; readonly agent: string },
): Promise<void> {
  const { orgId, id: projectId } = project;
  const subject = { kind: 'Session', name };
  return recordAudit(tx, { orgId, projectId, principal, action, subject, detail: { agent, by } });
}

async function message(
  call: ToolCall,
  { sessionId, text }: { readonly sessionId: string; readonly text: string },
): Promise<unknown> {
  const { ctx, caller } = call;
  if (sessionId === caller.sessionId) {
    throw new Fault('invalid', 'own-session', 'A session does not send messages to itself.');
  }
  const { project } = caller;
  return inProject(ctx.db, project.id, async (tx) => {
    await requireLive(tx, caller.sessionId);
    const { agent } = await requireLive(tx, sessionId);
    await deliver(ctx, tx, [messageFrom(caller, sessionId, text)]);
    await recordControl(tx, call, 'session.messaged', { sessionId, agent });
    await wakeSession(tx, sessionId);
    return { delivered: true };
  });
}

async function stop(
  call: ToolCall,
  { sessionId, reason }: { readonly sessionId: string; readonly reason?: string | undefined },
): Promise<unknown> {
  const { ctx, caller } = call;
  const { project, spec } = caller;
  if (sessionId === caller.sessionId) ctx.host?.listings.parting(sessionId);
  return inProject(ctx.db, project.id, async (tx) => {
    // One that has just been ended itself ends nobody any more.
    await requireLive(tx, caller.sessionId);
    const { agent } = await requireLive(tx, sessionId);
    const isSelf = sessionId === caller.sessionId;
    if (!isSelf && spec.manages?.includes(agent) !== true) {
      throw new Fault(
        'forbidden',
        'not-managed',
        `Agent ${caller.agent} does not manage ${agent}; its manages list has to name it.`,
      );
    }
    const why = reason ?? (isSelf ? 'stopped by itself' : `stopped by session ${caller.sessionId} of ${caller.agent}`);
    await endSession(ctx, tx, sessionId, 'archived', why);
    await recordControl(tx, call, 'session.archived', { sessionId, agent });
    await wakeSession(tx, sessionId);
    return { stopped: sessionId };
  });
}
