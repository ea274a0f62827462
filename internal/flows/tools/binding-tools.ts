// Tools about bindings: which target's events come to this session.

import type { AuditAction } from '../../domain/audit-actions.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { listBindings } from '../../adapters/store/routing/binding-reads.ts';
import { type Binding, findBindings } from '../../adapters/store/routing/bindings.ts';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { insertTies } from '../../adapters/store/sessions/sessions.ts';
import { dropSubscription, repositorySpelling } from '../../adapters/store/sessions/tool-callers.ts';
import { bindingTerms } from '../../core/route/route.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { bindingTargets, type BindingTarget, type EventContext } from '../../domain/spec.ts';
import { bindSession, requireLive, unbindSession } from '../sessions/sessions.ts';
import { tool, type ToolCall, type ToolSpec } from './table.ts';

interface Target {
  readonly type: BindingTarget;
  readonly key: string;
}

/**
 * Binds this session under its agent's policy for the target, over which what the call says is merged key by key; between
 * them what a claim that waits for a holder was made with, which passes to this session with it.
 */
async function bind(call: ToolCall, tx: RoutingTx, given: Target, inline: Parameters<typeof bindingTerms>[1] = {}) {
  const { ctx, caller } = call;
  const target = await asSpelled(call, tx, given);
  const [standing] = await findBindings(tx, { agentId: caller.agentId, target });
  const claim = standing?.sessionId === null ? standing : undefined;
  const terms = bindingTerms(caller.spec.bindings[target.type], inline, claim);
  const made = await bindSession(ctx, tx, { sessionId: caller.sessionId, target, ...terms });
  const { id, lifecycle, continuity, context } = made;
  await audit(call, tx, 'binding.made', made);
  return { bindingId: id, target: made.target, lifecycle, continuity, context };
}

const audit = ({ caller, actor }: ToolCall, tx: RoutingTx, action: AuditAction, { id, target, lifecycle }: Binding) =>
  recordAudit(tx, {
    orgId: caller.project.orgId,
    projectId: caller.project.id,
    principal: actor,
    action,
    subject: { kind: 'Binding', name: id },
    detail: { agent: caller.agent, target, sessionId: caller.sessionId, lifecycle },
  });

/** Names of the code host match in any case, and events of a target have the host's own: that is the one that is bound. */
async function asSpelled({ caller }: ToolCall, tx: RoutingTx, { type, key }: Target): Promise<Target> {
  if (type !== 'codehost.pull_request' && type !== 'codehost.issue') return { type, key };
  const at = key.lastIndexOf('#');
  const repository = key.slice(0, at);
  const own = caller.target?.type.startsWith('codehost.') === true ? caller.target.key.split('#')[0] : undefined;
  const isOwn = own?.toLowerCase() === repository.toLowerCase();
  const name = isOwn ? own : await repositorySpelling(tx, caller.project.id, repository);
  return { type, key: `${name ?? repository}${key.slice(at)}` };
}

/** Under the routing lock of the caller's project. */
const locked = <T>({ ctx, caller }: ToolCall, act: (tx: RoutingTx) => Promise<T>): Promise<T> =>
  inProject(ctx.db, caller.project.id, act);

/**
 * A tie brings the messages to `attributedSessions` routes, a binding to `bind` routes. Where another session of the agent
 * has the binding, it keeps it.
 */
async function subscribe(call: ToolCall, given: string | undefined) {
  const { ctx, caller } = call;
  const key = given ?? (caller.target?.type === 'chat.thread' ? caller.target.key : undefined);
  if (key === undefined) {
    throw new Fault('invalid', 'no-thread', 'This session was not started from a chat thread; give the key of one.');
  }
  return locked(call, async (tx) => {
    const { sessionId, agent, agentId, project } = caller;
    await requireLive(tx, sessionId);
    const target = { type: 'chat.thread', key } as const;
    const tie = { targetType: target.type, targetKey: key, sessionId, agent, relation: 'subscribed' } as const;
    await insertTies(tx, project.id, [tie], ctx.runtime.now());
    const [standing] = await findBindings(tx, { agentId, target });
    const holder = standing?.sessionId ?? null;
    if (holder === null) await bind(call, tx, target);
    return { subscribed: key, bound: holder === null || holder === sessionId };
  });
}

async function unbind(call: ToolCall, given: Target, context: JsonObject | undefined) {
  const { ctx, caller } = call;
  const { sessionId } = caller;
  return locked(call, async (tx) => {
    const release = (target: Target) =>
      unbindSession(ctx, tx, { by: { sessionId, target }, authority: 'session', eventContext: context });
    // First as it is given: it may have been bound before anything was known of it.
    const released = (await release(given)) ?? (await release(await asSpelled(call, tx, given)));
    if (released !== undefined) await audit(call, tx, 'binding.released', released);
    const wasSubscribed = await dropSubscription(tx, sessionId, given);
    return { released: released !== undefined || wasSubscribed };
  });
}

export const bindingTools: readonly ToolSpec[] = [
  tool({
    name: 'svc.bind',
    description:
      'Bind this session to a target. From then on, events of the target come to this session where a bind trigger of its ' +
      'agent listens for them. Fails where another live session of the same agent has the target. Binding again replaces ' +
      'the notes.',
    effect: 'adds',
    run: (call, { target, context, eventContext }) =>
      locked(call, (tx) =>
        bind(call, tx, target, {
          context: context as JsonObject | undefined,
          eventContext: eventContext as EventContext | undefined,
        }),
      ),
  }),
  tool({
    name: 'svc.unbind',
    description:
      'Release this session’s own binding, or subscription, to a target. A held binding is refused. Answers ' +
      'released: false where there was none.',
    effect: 'takes',
    run: (call, { target, context }) => unbind(call, target, context as JsonObject | undefined),
  }),
  tool({
    name: 'svc.bindings.list',
    description:
      'List the active bindings of this project, newest first. sessionId is null where an agent’s claim has no live session.',
    effect: 'none',
    run: async ({ ctx, caller }, { sessionId, limit }) => {
      const { rows, isCut } = await listBindings(ctx.db, caller.project.id, {
        all: false,
        sessionId,
        limit: limit + 1,
      });
      return {
        bindings: rows
          .slice(0, limit)
          .map(({ id, agent, sessionId: holder, target, lifecycle, continuity, context }) => ({
            id,
            agent,
            sessionId: holder,
            target,
            lifecycle,
            continuity,
            context,
          })),
        more: isCut || rows.length > limit,
      };
    },
  }),
  tool({
    name: 'svc.bindings.targets',
    description:
      'List the types of target that svc_bind takes, what this agent declares for each, and the target of the event that ' +
      'started this session (current; null where there is none).',
    effect: 'none',
    run: async ({ caller }) => ({
      types: bindingTargets.map((type) => {
        const { lifecycle, continuity } = bindingTerms(caller.spec.bindings[type], {});
        return { type, lifecycle, continuity };
      }),
      current: caller.target,
    }),
  }),
  tool({
    name: 'svc.chat.subscribe',
    description:
      'Follow a chat thread: later messages in it come to this session where a trigger of its agent listens for them. ' +
      'svc_unbind ends it.',
    effect: 'adds',
    run: (call, { key }) => subscribe(call, key),
  }),
];
