// What would follow if somebody took a thing away, for whoever is asked whether they mean it: the same checks and the same
// faults as the act itself, then what hangs on the thing, counted and named. Changes nothing.

import {
  callsOfEndpoint,
  type Counted,
  dependentsOfAgents,
  dependentsOfConnection,
  dependentsOfSecret,
} from '../../adapters/store/console/consequences.ts';
import { bindingById } from '../../adapters/store/routing/binding-reads.ts';
import type { SecretScope } from '../../adapters/store/secrets/secrets.ts';
import { readSecret } from '../../adapters/store/secrets/secrets.ts';
import { sessionById } from '../../adapters/store/sessions/session-reads.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';
import { type Condition, requireVersion } from '../../domain/version.ts';
import { checkRemoval, isConsented } from '../connections/connections.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import {
  findRepository,
  planOfCommit,
  planOfRemoval,
  planOfRollback,
  repositoryVersion,
} from '../repositories/repositories.ts';
import { agentVersion, requireDeletable, requireUnused } from '../resources.ts';
import { secretVersion } from '../secrets/secrets.ts';
import { amount, type Consequence, type DryRun, plainConsequence, countedConsequence } from './consequence.ts';

async function goneWith(ctx: FlowContext, projectId: string, agents: readonly string[]): Promise<Consequence[]> {
  const { triggers, schedules, sessions, endpoints } = await dependentsOfAgents(ctx.db, projectId, agents);
  return [
    ...countedConsequence('triggers', triggers, 'trigger', 'goes', 'go'),
    ...countedConsequence('schedules', schedules, 'schedule', 'goes', 'go'),
    ...countedConsequence('sessions', sessions, 'live session', 'is archived', 'are archived'),
    ...countedConsequence('endpoints', endpoints, 'endpoint', 'wakes nobody any more', 'wake nobody any more'),
  ];
}

/** What goes with an agent. Throws the faults of its deletion. */
export async function dryDeleteAgent(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  condition: Condition,
): Promise<DryRun> {
  requireVersion(condition, agentVersion(await requireDeletable(ctx.db, project, name)));
  const own = plainConsequence('agents', `Agent ${name} goes; its revisions stay`, 1);
  return { consequences: [own, ...(await goneWith(ctx, project.id, [name]))] };
}

/** What lacks a secret that goes. Throws the faults of its deletion. */
export async function dryDeleteSecret(
  ctx: FlowContext,
  scope: SecretScope,
  name: string,
  condition: Condition,
): Promise<DryRun> {
  const found = await readSecret(ctx.db, scope, name, ctx.runtime.now());
  if (found === undefined) throw new Fault('not_found', 'not-found', messagesTable.notVisible);
  requireVersion(condition, secretVersion(found));
  const { agents, endpoints, repositories, sessions, isBacked } = await dependentsOfSecret(ctx.db, scope, name);
  /** Of one, and of several. */
  const what = (...alone: readonly [string, string]): readonly [string, string] =>
    isBacked
      ? [
          "reads the organization's secret of that name from then on",
          "read the organization's secret of that name from then on",
        ]
      : alone;
  const missing = what(
    'no longer finds it: a launch that needs it fails',
    'no longer find it: launches that need it fail',
  );
  const unread = what('cannot be read any more', 'cannot be read any more');
  return {
    consequences: [
      plainConsequence('secrets', `Secret ${name} goes, with its value; nobody gets it back`, 1),
      ...countedConsequence('agents', agents, 'agent', ...missing),
      ...countedConsequence(
        'sessions',
        sessions,
        'live session',
        'keeps the value until its next launch',
        'keep the value until their next launch',
      ),
      ...countedConsequence('endpoints', endpoints, 'endpoint', ...what('refuses every call', 'refuse every call')),
      ...countedConsequence('repositories', repositories, 'repository', ...unread),
    ],
  };
}

/** What goes with a repository, or stays and is owned by hand. Throws the faults of its removal. */
export async function dryRemoveRepository(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  { keepResources, condition }: { readonly keepResources: boolean; readonly condition: Condition },
): Promise<DryRun> {
  const repository = await findRepository(ctx.db, project, name);
  requireVersion(condition, repositoryVersion(repository));
  const own = plainConsequence('repositories', `${name} is not watched any more; its runs stay`, 1);
  const { actions } = await planOfRemoval(ctx, repository);
  const agents = actions.filter(({ op, kind }) => op === 'delete' && kind === 'Agent').map((action) => action.name);
  const names = { count: agents.length, names: agents.slice(0, 20) };
  if (keepResources) {
    const stays = countedConsequence(
      'agents',
      names,
      'agent',
      'stays and is owned by hand',
      'stay and are owned by hand',
    );
    return { consequences: [own, ...stays], actions: [] };
  }
  const gone = await goneWith(ctx, project.id, agents);
  const deleted = countedConsequence('agents', names, 'agent', 'that it owns is deleted', 'that it owns are deleted');
  return { consequences: [own, ...deleted, ...gone], actions: actions.filter(({ op }) => op !== 'unchanged') };
}

/** What lacks a connection that goes. Throws the faults of its removal. */
export async function dryRemoveConnection(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  const row = await checkRemoval(ctx, project, name);
  const { triggers, agents, mounts, repositories, receivers } = await dependentsOfConnection(ctx.db, project.id, row);
  const unmounted = 'whose mounts it opens cannot start without another';
  const unread = 'cannot be read any more';
  return {
    consequences: [
      plainConsequence('connections', `Connection ${name} goes, with its credentials; its webhooks answer 404`, 1),
      ...(isConsented(ctx, row.provider)
        ? [plainConsequence('tokens', 'Its tokens are revoked at the provider where that works, and destroyed here')]
        : []),
      ...countedConsequence('triggers', triggers, 'optional trigger', 'is skipped', 'are skipped'),
      ...countedConsequence(
        'agents',
        agents,
        'agent',
        'that uses it has its calls refused',
        'that use it have their calls refused',
      ),
      ...countedConsequence('mounts', mounts, 'agent', unmounted),
      ...countedConsequence('repositories', repositories, 'repository', unread),
      ...countedConsequence(
        'receivers',
        receivers,
        'receiver',
        'is told nothing any more',
        'are told nothing any more',
      ),
    ],
  };
}

/** What no longer comes in where an endpoint goes. Throws the faults of its deletion. */
export async function dryDeleteEndpoint(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  const { id, status } = await requireUnused(ctx, ctx.db, project, name);
  const calls = await callsOfEndpoint(ctx.db, project.id, id);
  const gone = status === 'reserved' ? 'The reservation is given up' : 'Its address answers 404 from then on';
  const recent = plainConsequence('events', `${amount(calls, 'event')} of the newest 10,000 came in by it`, calls);
  return { consequences: [plainConsequence('endpoints', gone, 1), ...(calls === 0 ? [] : [recent])] };
}

/** What follows where a binding is released. Throws the faults of the release. */
export async function dryReleaseBinding(ctx: FlowContext, project: ProjectRef, id: string): Promise<DryRun> {
  const found = await bindingById(ctx.db, project.id, id);
  if (found === undefined) throw new Fault('not_found', 'not-found', messagesTable.noBinding);
  if (found.state === 'released') return { consequences: [plainConsequence('bindings', 'It is released already')] };
  const { target, agent, sessionId, lifecycle } = found;
  return {
    consequences: [
      plainConsequence(
        'bindings',
        `${target.type} ${target.key} is not bound to ${agent} any more; its next event goes by onUnmatched`,
        1,
      ),
      ...(sessionId === null
        ? []
        : [{ kind: 'sessions', count: 1, text: 'The session that holds it goes on, and is told', names: [sessionId] }]),
      ...(lifecycle === 'held'
        ? [plainConsequence('bindings', 'It is held: its own trigger would have released it')]
        : []),
    ],
  };
}

/** What ends with a session. Throws the faults of its archiving. */
export async function dryArchiveSession(ctx: FlowContext, project: ProjectRef, id: string): Promise<DryRun> {
  const row = await sessionById(ctx.db, project.id, id);
  if (row === undefined) throw new Fault('not_found', 'not-found', messagesTable.noSession);
  if (row.state === 'archived') return { consequences: [plainConsequence('sessions', 'It is archived already')] };
  if (!row.live) throw new Fault('conflict', 'session-ended', `The session is ${row.state}.`);
  const isAtWork = ['running', 'waiting_permission', 'interrupting'].includes(row.state);
  const keys = (continuity: 'session' | 'agent'): Counted => {
    const names = row.bindings.filter((one) => one.continuity === continuity).map(({ target }) => target.key);
    return { count: names.length, names: names.slice(0, 20) };
  };
  const unread = row.inbox.pending + row.inbox.inFlight;
  return {
    consequences: [
      plainConsequence(
        'sessions',
        `The session ends${isAtWork ? ' in the middle of its turn' : ''}; what it said and left stays`,
        1,
      ),
      ...countedConsequence('messages', { count: unread, names: [] }, 'waiting message', 'is not read', 'are not read'),
      ...countedConsequence('bindings', keys('session'), 'binding', 'is released', 'are released'),
      ...countedConsequence(
        'bindings',
        keys('agent'),
        'binding',
        'waits for another session of its agent',
        'wait for another session of their agent',
      ),
      ...countedConsequence(
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
    readonly condition: Condition;
    readonly signal: AbortSignal;
  },
): Promise<DryRun> {
  const { name, commit, kind, condition, signal } = of;
  const caller = { project, condition };
  const planned =
    kind === 'rollback'
      ? await planOfRollback(ctx, caller, name, commit, signal)
      : await planOfCommit(ctx, caller, name, commit ?? '', signal);
  const { result, to, leaves } = planned;
  if (result.status === 'failed')
    return {
      commit: to,
      consequences: [
        plainConsequence('mistakes', 'Its files do not compile: nothing would change', result.diagnostics.length),
      ],
    };
  const changes = result.actions.filter(({ op }) => op !== 'unchanged');
  const deleted = changes.filter(({ op, kind: what }) => op === 'delete' && what === 'Agent').map((one) => one.name);
  const by = (op: string): Counted => {
    const names = changes.filter((one) => one.op === op).map((one) => one.name);
    return { count: names.length, names: names.slice(0, 20) };
  };
  return {
    consequences: [
      plainConsequence(
        'commits',
        kind === 'pin' ? `It stays at ${to}, whatever the branch does` : `The stored inputs of ${to} are applied again`,
        1,
      ),
      ...(leaves === null
        ? []
        : [plainConsequence('commits', `${leaves} is set aside: the first newer commit is followed by itself`, 1)]),
      ...countedConsequence('resources', by('create'), 'resource', 'is made', 'are made'),
      ...countedConsequence('resources', by('update'), 'resource', 'is changed', 'are changed'),
      ...countedConsequence('resources', by('delete'), 'resource', 'is deleted', 'are deleted'),
      ...(deleted.length === 0 ? [] : await goneWith(ctx, project.id, deleted)),
      ...(changes.length === 0 ? [plainConsequence('resources', 'Nothing that runs differs from it')] : []),
    ],
    actions: changes,
    commit: to,
  };
}
