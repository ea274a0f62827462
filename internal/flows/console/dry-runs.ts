// What would follow if somebody took a thing away, for whoever is asked whether they mean it: the same checks and the same
// faults as the act itself, then what hangs on the thing, counted and named. Changes nothing.

import {
  callsOfEndpoint,
  type Counted,
  hangingOnAgents,
  hangingOnConnection,
  hangingOnSecret,
} from '../../adapters/store/console/consequences.ts';
import { bindingById } from '../../adapters/store/routing/binding-reads.ts';
import type { SecretScope } from '../../adapters/store/secrets/secrets.ts';
import { readSecret } from '../../adapters/store/secrets/secrets.ts';
import { sessionById } from '../../adapters/store/sessions/session-reads.ts';
import { Fault } from '../../domain/fault.ts';
import { MESSAGES } from '../../domain/messages.ts';
import { checkRemoval, isConsented } from '../connections/connections.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { findRepository, planOfCommit, planOfRemoval, planOfRollback } from '../repositories/repositories.ts';
import { requireDeletable, requireUnused } from '../resources.ts';
import { amount, type Consequence, type DryRun, said, told } from './consequence.ts';

async function goneWith(ctx: FlowContext, projectId: string, agents: readonly string[]): Promise<Consequence[]> {
  const { triggers, schedules, sessions, endpoints } = await hangingOnAgents(ctx.db, projectId, agents);
  return [
    ...told('triggers', triggers, 'trigger', 'goes', 'go'),
    ...told('schedules', schedules, 'schedule', 'goes', 'go'),
    ...told('sessions', sessions, 'live session', 'is archived', 'are archived'),
    ...told('endpoints', endpoints, 'endpoint', 'wakes nobody any more', 'wake nobody any more'),
  ];
}

export async function dryDeleteAgent(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  await requireDeletable(ctx.db, project, name);
  const own = said('agents', `Agent ${name} goes; its revisions stay`, 1);
  return { consequences: [own, ...(await goneWith(ctx, project.id, [name]))] };
}

export async function dryDeleteSecret(ctx: FlowContext, scope: SecretScope, name: string): Promise<DryRun> {
  const found = await readSecret(ctx.db, scope, name, ctx.runtime.now());
  if (found === undefined) throw new Fault('not_found', 'not-found', MESSAGES.notVisible);
  const { agents, endpoints, repositories, sessions, isBacked } = await hangingOnSecret(ctx.db, scope, name);
  const reads = isBacked
    ? [
        "reads the organization's secret of that name from then on",
        "read the organization's secret of that name from then on",
      ]
    : ['no longer finds it: a launch that needs it fails', 'no longer find it: launches that need it fail'];
  const [singular = '', plural = ''] = reads;
  return {
    consequences: [
      said('secrets', `Secret ${name} goes, with its value; nobody gets it back`, 1),
      ...told('agents', agents, 'agent', singular, plural),
      ...told(
        'sessions',
        sessions,
        'live session',
        'keeps the value until its next launch',
        'keep the value until their next launch',
      ),
      ...(isBacked
        ? []
        : [
            ...told('endpoints', endpoints, 'endpoint', 'refuses every call', 'refuse every call'),
            ...told('repositories', repositories, 'repository', 'cannot be read any more', 'cannot be read any more'),
          ]),
    ],
  };
}

export async function dryRemoveRepository(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  keepResources: boolean,
): Promise<DryRun> {
  const repository = await findRepository(ctx.db, project, name);
  const own = said('repositories', `${name} is not watched any more; its runs stay`, 1);
  const { actions } = await planOfRemoval(ctx, repository);
  const agents = actions.filter(({ op, kind }) => op === 'delete' && kind === 'Agent').map((action) => action.name);
  const names = { count: agents.length, names: agents.slice(0, 20) };
  if (keepResources) {
    const stays = told('agents', names, 'agent', 'stays and is owned by hand', 'stay and are owned by hand');
    return { consequences: [own, ...stays], actions: [] };
  }
  const gone = await goneWith(ctx, project.id, agents);
  const deleted = told('agents', names, 'agent', 'that it owns is deleted', 'that it owns are deleted');
  return { consequences: [own, ...deleted, ...gone], actions: actions.filter(({ op }) => op !== 'unchanged') };
}

export async function dryRemoveConnection(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  const row = await checkRemoval(ctx, project, name);
  const { triggers, agents } = await hangingOnConnection(ctx.db, project.id, row);
  return {
    consequences: [
      said('connections', `Connection ${name} goes, with its credentials; its webhooks answer 404`, 1),
      ...(isConsented(ctx, row.provider)
        ? [said('tokens', 'Its tokens are revoked at the provider where that works, and destroyed here')]
        : []),
      ...told('triggers', triggers, 'optional trigger', 'is skipped', 'are skipped'),
      ...told('agents', agents, 'agent', 'that uses it has its calls refused', 'that use it have their calls refused'),
    ],
  };
}

export async function dryDeleteEndpoint(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  const { id, status } = await requireUnused(ctx, ctx.db, project, name);
  const calls = await callsOfEndpoint(ctx.db, project.id, id);
  const gone = status === 'reserved' ? 'The reservation is given up' : 'Its address answers 404 from then on';
  const recent = said('events', `${amount(calls, 'event')} of the newest 10,000 came in by it`, calls);
  return { consequences: [said('endpoints', gone, 1), ...(calls === 0 ? [] : [recent])] };
}

export async function dryReleaseBinding(ctx: FlowContext, project: ProjectRef, id: string): Promise<DryRun> {
  const found = await bindingById(ctx.db, project.id, id);
  if (found === undefined) throw new Fault('not_found', 'not-found', MESSAGES.noBinding);
  if (found.state === 'released') return { consequences: [said('bindings', 'It is released already')] };
  const { target, agent, sessionId, lifecycle } = found;
  return {
    consequences: [
      said(
        'bindings',
        `${target.type} ${target.key} is not bound to ${agent} any more; its next event goes by onUnmatched`,
        1,
      ),
      ...(sessionId === null
        ? []
        : [{ kind: 'sessions', count: 1, text: 'The session that holds it goes on, and is told', names: [sessionId] }]),
      ...(lifecycle === 'held' ? [said('bindings', 'It is held: its own trigger would have released it')] : []),
    ],
  };
}

export async function dryArchiveSession(ctx: FlowContext, project: ProjectRef, id: string): Promise<DryRun> {
  const row = await sessionById(ctx.db, project.id, id);
  if (row === undefined) throw new Fault('not_found', 'not-found', MESSAGES.noSession);
  if (row.state === 'archived') return { consequences: [said('sessions', 'It is archived already')] };
  if (!row.live) throw new Fault('conflict', 'session-ended', `The session is ${row.state}.`);
  const isAtWork = ['running', 'waiting_permission', 'interrupting'].includes(row.state);
  const keys = (continuity: 'session' | 'agent'): Counted => {
    const names = row.bindings.filter((one) => one.continuity === continuity).map(({ target }) => target.key);
    return { count: names.length, names: names.slice(0, 20) };
  };
  const unread = row.inbox.pending + row.inbox.inFlight;
  return {
    consequences: [
      said(
        'sessions',
        `The session ends${isAtWork ? ' in the middle of its turn' : ''}; what it said and left stays`,
        1,
      ),
      ...told('messages', { count: unread, names: [] }, 'waiting message', 'is not read', 'are not read'),
      ...told('bindings', keys('session'), 'binding', 'is released', 'are released'),
      ...told(
        'bindings',
        keys('agent'),
        'binding',
        'waits for another session of its agent',
        'wait for another session of their agent',
      ),
      ...told(
        'questions',
        { count: row.permissions.length, names: [] },
        'question',
        'is not answered',
        'are not answered',
      ),
    ],
  };
}

/** Of a rollback (`to` undefined: to what ran before), or of a pin. */
export async function dryCommit(
  ctx: FlowContext,
  project: ProjectRef,
  of: {
    readonly name: string;
    readonly commit: string | undefined;
    readonly kind: 'rollback' | 'pin';
    readonly signal: AbortSignal;
  },
): Promise<DryRun> {
  const { name, commit, kind, signal } = of;
  const planned =
    kind === 'rollback'
      ? await planOfRollback(ctx, project, name, commit, signal)
      : await planOfCommit(ctx, project, name, commit ?? '', signal);
  const { result, to, leaves } = planned;
  if (result.status === 'failed')
    return {
      consequences: [said('mistakes', 'Its files do not compile: nothing would change', result.diagnostics.length)],
    };
  const changes = result.actions.filter(({ op }) => op !== 'unchanged');
  const deleted = changes.filter(({ op, kind: what }) => op === 'delete' && what === 'Agent').map((one) => one.name);
  const by = (op: string): Counted => {
    const names = changes.filter((one) => one.op === op).map((one) => one.name);
    return { count: names.length, names: names.slice(0, 20) };
  };
  return {
    consequences: [
      said(
        'commits',
        kind === 'pin' ? `It stays at ${to}, whatever the branch does` : `The stored inputs of ${to} are applied again`,
        1,
      ),
      ...(leaves === null
        ? []
        : [said('commits', `${leaves} is set aside: the first newer commit is followed by itself`, 1)]),
      ...told('resources', by('create'), 'resource', 'is made', 'are made'),
      ...told('resources', by('update'), 'resource', 'is changed', 'are changed'),
      ...told('resources', by('delete'), 'resource', 'is deleted', 'are deleted'),
      ...(deleted.length === 0 ? [] : await goneWith(ctx, project.id, deleted)),
      ...(changes.length === 0 ? [said('resources', 'Nothing that runs differs from it')] : []),
    ],
    actions: changes,
  };
}
