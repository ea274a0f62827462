// What people do with sessions: start one by hand, speak to it, end it, and take a binding from it. Each is audited in
// the transaction that does it.

import type { AuditAction } from '../../domain/audit-actions.ts';
import { isUuid } from '../../domain/uuid.ts';
import { type AgentRow, agentByName } from '../../adapters/store/resources/agents.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { bindingById } from '../../adapters/store/routing/binding-reads.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { decidePermission, isAskedBy } from '../../adapters/store/sessions/permissions.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import {
  latestMessage,
  type MessageRow,
  sessionById,
  sessionState,
  wakeSession,
  type WholeSession,
} from '../../adapters/store/sessions/session-reads.ts';
import { slotOf } from '../../adapters/store/sessions/slots.ts';
import { askStop } from '../../adapters/store/sessions/turns.ts';
import { sessionSettings } from '../../base/config/session-settings.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { displayTitle } from '../../core/session/session.ts';
import { renderWithin } from '../../core/template/template.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { AgentSpec } from '../../domain/spec.ts';
import { cutText } from '../../domain/utf8.ts';
import { messagesTable, messageOf } from '../../domain/messages.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { createSessions, deliver, endSession, requireLive, unbindSession } from './records.ts';
import { renderRefs } from './refs.ts';

export const noSession = (): Fault => new Fault('not_found', 'not-found', messagesTable.noSession);

interface Act {
  readonly actor: Actor;
  readonly action: AuditAction;
  readonly subject: { readonly kind: string; readonly name: string };
  readonly detail: JsonObject;
}
const audit = (tx: Sql, project: ProjectRef, { actor, ...act }: Act): Promise<void> =>
  recordAudit(tx, { orgId: project.orgId, projectId: project.id, principal: actor, ...act });

/**
 * Says something to a live session: it interrupts the turn in flight. Throws Fault `not_found`, and `conflict` where the
 * session has ended.
 */
export async function sendMessage(
  ctx: FlowContext,
  project: ProjectRef,
  sent: { readonly sessionId: string; readonly text: string; readonly actor: Actor },
): Promise<MessageRow> {
  const { sessionId, text, actor } = sent;
  return inProject(ctx.db, project.id, async (tx) => {
    const { agent } = await requireLive(tx, sessionId);
    await deliver(ctx, tx, [{ sessionId, text, sender: 'operator', mode: 'interrupt', detail: { name: actor.name } }]);
    const said = await latestMessage(tx, sessionId, 'operator');
    if (said === undefined) throw new Error('a message that was just written is not there');
    const subject = { kind: 'Session', name: sessionId };
    await audit(tx, project, { actor, action: 'session.messaged', subject, detail: { agent, seq: said.seq } });
    await wakeSession(tx, sessionId);
    return said;
  });
}

/**
 * Stops the turn that runs in a session, whose message then counts as read; nothing where none runs. Answers with the number
 * of the turn. Throws Fault `not_found`, and `conflict` where the session has ended.
 */
export async function interruptSession(
  ctx: FlowContext,
  project: ProjectRef,
  sessionId: string,
  actor: Actor,
): Promise<{ readonly turn: number | null }> {
  return ctx.db.tx(async (tx) => {
    const before = await sessionState(tx, project.id, sessionId);
    if (before === undefined) throw noSession();
    if (!before.live) throw new Fault('conflict', 'session-ended', `The session is ${before.state}.`);
    const turn = (await askStop(tx, sessionId)) ?? null;
    const subject = { kind: 'Session', name: sessionId };
    await audit(tx, project, { actor, action: 'session.interrupted', subject, detail: { turn } });
    return { turn };
  });
}

/**
 * Ends a live session. One that is archived already stays as it is. Throws Fault `not_found`, and `conflict` where it
 * ended otherwise.
 */
export async function archiveSession(
  ctx: FlowContext,
  project: ProjectRef,
  sessionId: string,
  actor: Actor,
  reason?: string,
): Promise<WholeSession> {
  return inProject(ctx.db, project.id, async (tx) => {
    const before = await sessionById(tx, project.id, sessionId);
    if (before === undefined) throw noSession();
    if (before.state === 'archived') return before;
    if (!before.live) throw new Fault('conflict', 'session-ended', `The session is ${before.state}.`);
    await endSession(ctx, tx, sessionId, 'archived', `archived by ${actor.name}`);
    const subject = { kind: 'Session', name: sessionId };
    const detail = { agent: before.agent, state: before.state, ...(reason !== undefined && { reason }) };
    await audit(tx, project, { actor, action: 'session.archived', subject, detail });
    await wakeSession(tx, sessionId);
    return (await sessionById(tx, project.id, sessionId)) ?? before;
  });
}

export interface StartRequest {
  readonly agent: string;
  /** Said verbatim; absent: the agent's `initialPrompt`, else what it was started with. */
  readonly message?: string | undefined;
  /** Stands where an event's payload would. */
  readonly input?: JsonObject | undefined;
  readonly actor: Actor;
}

/**
 * Starts a session of an agent by hand. Faults: `not_found`; `unprocessable` where the input cannot resolve the ref of a
 * mount (docs/reference/compile.md#mounts); `conflict` where the agent has one session at a time and one is live.
 */
export async function startSession(
  ctx: FlowContext,
  project: ProjectRef,
  request: StartRequest,
): Promise<WholeSession> {
  return inProject(ctx.db, project.id, async (tx) => {
    const agent = await agentByName(tx, project.id, request.agent);
    if (agent === undefined) {
      throw new Fault('not_found', 'agent-not-found', messageOf('noAgent', request.agent));
    }
    const spec = agent.spec as unknown as AgentSpec;
    if (spec.concurrency === 1) await requireFreeSlot(tx, agent);
    const id = timeOrderedId(ctx.runtime);
    const { actor } = request;
    const start = { sender: 'operator', detail: { name: actor.name }, text: firstMessage(ctx, spec, request) } as const;
    await createSessions(ctx, tx, [
      {
        id,
        agentId: agent.id,
        agent: agent.name,
        revision: agent.revision,
        origin: 'manual',
        displayTitle: titleOf(agent, spec, request, start.text),
        hiddenContext: null,
        mountRefs: refsOf(spec, request),
        slot: spec.concurrency === 1,
        threads: [],
        start,
      },
    ]);
    const subject = { kind: 'Session', name: id };
    const detail = { agent: agent.name, revision: agent.revision };
    await audit(tx, project, { actor, action: 'session.started', subject, detail });
    await wakeSession(tx, id);
    const made = await sessionById(tx, project.id, id);
    if (made === undefined) throw new Error('a session that was just made is not there');
    return made;
  });
}

async function requireFreeSlot(tx: Sql, agent: AgentRow): Promise<void> {
  const { sessionId: holder } = await slotOf(tx, agent.id);
  if (holder === null) return;
  const message = `Agent ${agent.name} has one session at a time, and ${holder} is live: send it a message, or archive it.`;
  throw new Fault('conflict', 'slot-taken', message);
}

const isBlank = (text: string): boolean => text.trim() === '';

/** Characters of an input that is shown with line breaks: indented, a deep one has a hundred times its size. */
const indentedMax = 65_536;

function firstMessage({ config }: FlowContext, spec: AgentSpec, { message, input }: StartRequest): string {
  if (message !== undefined) return message;
  const bytesMax = sessionSettings(config.file).messageMaxBytes;
  if (spec.initialPrompt !== undefined) {
    const { text, beyond } = renderWithin(spec.initialPrompt, input ?? {}, bytesMax);
    const prompt = cutText(text, bytesMax, beyond());
    if (!isBlank(prompt)) return prompt;
  }
  if (input === undefined) return 'You were started by hand, without a message. Act as your instructions say.';
  const line = JSON.stringify(input);
  const shown = line.length > indentedMax ? line : JSON.stringify(input, null, 2);
  const about = 'You were started by hand with this input. Review it and act as your instructions say.';
  return cutText(`${about}\n\n${shown}`, bytesMax);
}

function titleOf(agent: AgentRow, spec: AgentSpec, { message, input }: StartRequest, text: string): string {
  const hasWords = message !== undefined || spec.initialPrompt !== undefined;
  const start = { titleSeed: hasWords ? text : '', payload: input ?? {}, fallback: `${agent.name}, started by hand` };
  return displayTitle(spec.displayTitle, start, renderWithin);
}

function refsOf(spec: AgentSpec, { input }: StartRequest): { readonly [mountPath: string]: string } {
  const rendered = renderRefs(spec.mounts, { triggerEventId: null, payload: input ?? {} });
  if (rendered.ok) return rendered.refs;
  const { mountPath, ref, missing } = rendered;
  throw new Fault(
    'unprocessable',
    'unresolved-ref',
    `The mount ${mountPath} needs ${missing.join(', ')} for its ref ${JSON.stringify(ref)}, and the input has none; give it as input.`,
  );
}

/**
 * Decides what a harness asks under `approvals: prompt`; its turn goes on. Throws Fault `not_found`, and `conflict` where
 * the request is not open any more.
 */
export async function answerPermission(
  ctx: FlowContext,
  project: ProjectRef,
  answer: {
    readonly sessionId: string;
    readonly permissionId: string;
    readonly decision: 'allow' | 'allow_always' | 'reject';
    readonly actor: Actor;
  },
): Promise<void> {
  const { sessionId, permissionId, decision, actor } = answer;
  await ctx.db.tx(async (tx) => {
    const state = await sessionState(tx, project.id, sessionId);
    if (state === undefined) throw noSession();
    const request = { id: permissionId, sessionId };
    const by = { state: decision, by: actor.name, now: ctx.runtime.now() };
    const isDecided = isUuid(permissionId) && (await decidePermission(tx, request, by));
    if (!isDecided && isUuid(permissionId) && (await isAskedBy(tx, request)))
      throw new Fault('conflict', 'permission-closed', 'This request is not open any more; it may be decided already.');
    if (!isDecided) throw new Fault('not_found', 'not-found', 'This session has no such request.');
    const subject = { kind: 'Session', name: sessionId };
    await audit(tx, project, {
      actor,
      action: 'session.permission_decided',
      subject,
      detail: { permissionId, decision },
    });
  });
}

/** Releases an active binding, also a `held` one, and tells it. Throws Fault `not_found`. */
export async function releaseBinding(
  ctx: FlowContext,
  project: ProjectRef,
  id: string,
  actor: Actor,
  reason?: string,
): Promise<void> {
  await inProject(ctx.db, project.id, async (tx) => {
    const standing = await bindingById(tx, project.id, id);
    if (standing === undefined) throw new Fault('not_found', 'not-found', messagesTable.noBinding);
    if (standing.state === 'released') return;
    const { agent, target, sessionId, lifecycle } = standing;
    await unbindSession(ctx, tx, { by: { id }, authority: 'operator' });
    const subject = { kind: 'Binding', name: id };
    const detail = { agent, target, sessionId, lifecycle, ...(reason !== undefined && { reason }) };
    await audit(tx, project, { actor, action: 'binding.released', subject, detail });
    if (sessionId !== null) await wakeSession(tx, sessionId);
  });
}
