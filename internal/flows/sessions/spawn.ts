// A session that makes another (docs/reference/sessions.md#spawning): once per idempotency key, converted into a message to
// the one that lives where the agent has one session at a time (docs/reference/routing.md#spawn), and observed by the one
// that made it unless its agent says otherwise.

import { type AgentRow, agentByName } from '../../adapters/store/resources/agents.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { MessageInsert } from '../../adapters/store/sessions/inbox.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { wakeSession } from '../../adapters/store/sessions/session-reads.ts';
import { slotOf } from '../../adapters/store/sessions/slots.ts';
import { familyOf, noteConverted, spawnedUnder, type ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { sessionSettings } from '../../base/config/session-settings.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { bindingTerms } from '../../core/route/route.ts';
import { displayTitle } from '../../core/session/session.ts';
import { renderWithin } from '../../core/template/template.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { AgentSpec } from '../../domain/spec.ts';
import { messageOf } from '../../domain/messages.ts';
import type { Actor, FlowContext } from '../context.ts';
import { bindSession, createSessions, deliver, type NewSession, requireLive } from './records.ts';
import { renderRefs } from './refs.ts';

export interface SpawnRequest {
  readonly agent: string;
  readonly message: string;
  readonly input?: JsonObject | undefined;
  readonly idempotencyKey?: string | undefined;
}
export interface Spawned {
  readonly sessionId: string;
  /** False: the message went to a session that was there, or the key had made one before. */
  readonly created: boolean;
}

/**
 * Throws Fault `not_found` without such an agent, `unprocessable` where the ref of a mount cannot be resolved, `conflict`
 * where the caller itself is the one session that its agent may have.
 */
export async function spawnFromSession(
  ctx: FlowContext,
  caller: ToolCaller,
  actor: Actor,
  request: SpawnRequest,
): Promise<Spawned> {
  const { project } = caller;
  return inProject(ctx.db, project.id, async (tx) => {
    await requireLive(tx, caller.sessionId);
    const { idempotencyKey, message } = request;
    if (idempotencyKey !== undefined) {
      const known = await spawnedUnder(tx, caller.sessionId, idempotencyKey);
      if (known !== undefined) return { sessionId: known, created: false };
    }
    const agent = await agentByName(tx, project.id, request.agent);
    if (agent === undefined) throw new Fault('not_found', 'agent-not-found', messageOf('noAgent', request.agent));
    const spec = agent.spec as unknown as AgentSpec;
    const holder = spec.concurrency === 1 ? (await slotOf(tx, agent.id)).sessionId : null;
    if (holder !== null) return convert(ctx, tx, caller, { actor, agent: agent.name, holder, message, idempotencyKey });
    await requireSpawn(ctx, tx, caller.sessionId);
    const id = timeOrderedId(ctx.runtime);
    await createSessions(ctx, tx, [childOf(caller, { id, agent, spec }, request)]);
    if (caller.spec.session.observeSpawnedSessions !== false) await observe(ctx, tx, caller, id);
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'session.spawned',
      subject: { kind: 'Session', name: id },
      detail: { agent: agent.name, revision: agent.revision, by: caller.sessionId },
    });
    await wakeSession(tx, id);
    return { sessionId: id, created: true };
  });
}

/** Throws Fault `conflict` with code `spawn-limit` where the session may spawn no more now. */
async function requireSpawn(ctx: FlowContext, tx: RoutingTx, sessionId: string): Promise<void> {
  const limits = sessionSettings(ctx.config.file).spawn;
  const minuteAgo = new Date(ctx.runtime.now().getTime() - 60_000);
  const family = await familyOf(tx, { sessionId, since: minuteAgo, depthMax: limits.depth });
  const why =
    family.depth >= limits.depth
      ? `sessions spawn sessions ${limits.depth} deep at most`
      : family.live >= limits.live
        ? `${family.live} sessions that this one spawned live, and ${limits.live} may`
        : family.recent >= limits.perMinute
          ? `this session spawned ${family.recent} within a minute, and ${limits.perMinute} are allowed`
          : undefined;
  if (why !== undefined) throw new Fault('conflict', 'spawn-limit', `No session was spawned: ${why}.`);
}

const senderOf = ({ sessionId, agent }: ToolCaller) => ({ sender: 'session', detail: { sessionId, agent } }) as const;

/** What a session says to another; `from` is what the other is told of who speaks. */
export function messageFrom({ sessionId, agent }: ToolCaller, to: string, text: string): MessageInsert {
  const from = { sessionId, agent };
  return { sessionId: to, text, mode: 'interrupt', sender: 'session', detail: { ...from, from } };
}

/** The message goes to the session that has the slot (docs/reference/routing.md#spawn). */
async function convert(
  ctx: FlowContext,
  tx: RoutingTx,
  caller: ToolCaller,
  spawn: Pick<SpawnRequest, 'agent' | 'message' | 'idempotencyKey'> & {
    readonly actor: Actor;
    readonly holder: string;
  },
): Promise<Spawned> {
  const { actor, agent, holder, message, idempotencyKey } = spawn;
  if (holder === caller.sessionId) {
    const text = `Agent ${caller.agent} has one session at a time, and that is this one: a session does not message itself.`;
    throw new Fault('conflict', 'own-session', text);
  }
  await deliver(ctx, tx, [messageFrom(caller, holder, message)]);
  if (idempotencyKey !== undefined) {
    await noteConverted(tx, { parentId: caller.sessionId, key: idempotencyKey, sessionId: holder });
  }
  const { project } = caller;
  await recordAudit(tx, {
    orgId: project.orgId,
    projectId: project.id,
    principal: actor,
    action: 'session.messaged',
    subject: { kind: 'Session', name: holder },
    // In the words of an event's route that came to the same.
    detail: { agent, by: caller.sessionId, decision: 'converted', because: 'slot' },
  });
  await wakeSession(tx, holder);
  return { sessionId: holder, created: false };
}

function childOf(
  caller: ToolCaller,
  { id, agent, spec }: { readonly id: string; readonly agent: AgentRow; readonly spec: AgentSpec },
  { message, input, idempotencyKey }: SpawnRequest,
): NewSession {
  const payload = input ?? {};
  const rendered = renderRefs(spec.mounts, { triggerEventId: null, payload });
  if (!rendered.ok) {
    const { mountPath, ref, missing } = rendered;
    throw new Fault(
      'unprocessable',
      'unresolved-ref',
      `The mount ${mountPath} of agent ${agent.name} needs ${missing.join(', ')} for its ref ${JSON.stringify(ref)}; give it in input (without the payload. prefix).`,
    );
  }
  const title = { titleSeed: message, payload, fallback: agent.name };
  return {
    id,
    agentId: agent.id,
    agent: agent.name,
    revision: agent.revision,
    origin: 'session',
    parentId: caller.sessionId,
    idempotencyKey,
    displayTitle: displayTitle(spec.displayTitle, title, renderWithin),
    hiddenContext: null,
    mountRefs: rendered.refs,
    slot: spec.concurrency === 1,
    threads: [],
    start: { text: message, ...senderOf(caller) },
  };
}

/** The caller's session gets the events of the one that it made (docs/reference/sessions.md#observing). */
async function observe(ctx: FlowContext, tx: RoutingTx, caller: ToolCaller, id: string): Promise<void> {
  const terms = bindingTerms(caller.spec.bindings['svc.session'], {});
  await bindSession(ctx, tx, { sessionId: caller.sessionId, target: { type: 'svc.session', key: id }, ...terms });
}
