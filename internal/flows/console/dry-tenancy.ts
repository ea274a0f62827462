// What would follow if somebody took away who may do what, or a tenant: members, service accounts, tokens, receivers, projects
// and organizations. The same checks and the same faults as the act itself; changes nothing.

import {
  browsersOfToken,
  dependentsOfOrg,
  dependentsOfPrincipal,
  dependentsOfProject,
  dependentsOfReceiver,
  restingInProject,
} from '../../adapters/store/console/consequences.ts';
import type { TokenScope } from '../../adapters/store/tenancy/principals.ts';
import type { Membership } from '../../adapters/store/tenancy/tenancy.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { readReceiver } from '../notify/notify.ts';
import {
  checkMemberRemoval,
  checkOrgRemoval,
  checkProjectChange,
  readServiceAccount,
  revocableToken,
} from '../tenancy/tenancy.ts';
import { amount, type Consequence, type DryRun, plainConsequence, countedConsequence } from './consequence.ts';

/** What deleting the project would do; nothing is changed. */
export async function dryDeleteProject(ctx: FlowContext, project: ProjectRef): Promise<DryRun> {
  const { agents, repositories, schedules, sessions, secrets, connections, endpoints } = await dependentsOfProject(
    ctx.db,
    project.id,
  );
  return {
    consequences: [
      plainConsequence(
        'projects',
        `Project ${project.slug} goes, with its events, transcripts and runs; nobody gets it back`,
        1,
      ),
      ...countedConsequence('agents', agents, 'agent', 'is deleted', 'are deleted'),
      ...countedConsequence('sessions', sessions, 'live session', 'ends', 'end'),
      ...countedConsequence(
        'repositories',
        repositories,
        'repository',
        'is not watched any more',
        'are not watched any more',
      ),
      ...countedConsequence('schedules', schedules, 'schedule', 'goes', 'go'),
      ...countedConsequence('endpoints', endpoints, 'endpoint', 'answers 404', 'answer 404'),
      ...countedConsequence('secrets', secrets, 'secret', 'goes', 'go'),
      ...countedConsequence('connections', connections, 'connection', 'goes', 'go'),
    ],
  };
}

/** Of archiving a project, bringing it back, or changing what it is called and may. */
export async function dryChangeProject(
  ctx: FlowContext,
  project: ProjectRef,
  change: { readonly slug?: string | undefined; readonly archived?: boolean | undefined },
): Promise<DryRun> {
  const { slug, archived } = change;
  await checkProjectChange(ctx, project, { ...(slug !== undefined && { slug }) });
  if (archived === undefined) return { consequences: [plainConsequence('projects', 'Its settings are written', 1)] };
  const { repositories, schedules, endpoints, connections, sessions } = await restingInProject(ctx.db, project.id);
  if (!archived)
    return {
      consequences: [
        plainConsequence('projects', `Project ${project.slug} is at work again`, 1),
        ...countedConsequence('repositories', repositories, 'repository', 'is synced again', 'are synced again'),
        ...countedConsequence('schedules', schedules, 'schedule', 'fires again', 'fire again'),
        ...countedConsequence('endpoints', endpoints, 'endpoint', 'answers again', 'answer again'),
      ],
    };
  return {
    consequences: [
      plainConsequence(
        'projects',
        `Project ${project.slug} stays as it is, to be read: nobody changes anything in it`,
        1,
      ),
      ...countedConsequence('repositories', repositories, 'repository', 'is not synced', 'are not synced'),
      ...countedConsequence('schedules', schedules, 'schedule', 'does not fire', 'do not fire'),
      ...countedConsequence('endpoints', endpoints, 'endpoint', 'answers 404', 'answer 404'),
      ...countedConsequence('connections', connections, 'connection', 'is not used', 'are not used'),
      ...countedConsequence(
        'sessions',
        sessions,
        'live session',
        'goes on until its turn ends, and is sent nothing',
        'go on until their turns end, and are sent nothing',
      ),
    ],
  };
}

/** What taking the role away would do; nothing is changed. Throws the faults of `removeMember`. */
export async function dryRemoveMember(ctx: FlowContext, membership: Membership, principalId: string): Promise<DryRun> {
  const { orgId, projectId } = membership;
  const { member, isOrgAdmin } = await checkMemberRemoval(ctx, membership, principalId);
  const found = await dependentsOfPrincipal(ctx.db, orgId, member.principalId, ctx.runtime.now());
  const { projects, tokens, browsers, alone } = found;
  if (projectId !== undefined && isOrgAdmin)
    return {
      consequences: [
        plainConsequence('members', `${member.name} has no role of the project any more`, 1),
        plainConsequence('members', 'As administrator of the organization every right in it is kept'),
      ],
    };
  const what = projectId === undefined ? 'organization' : 'project';
  return {
    consequences: [
      plainConsequence(
        'members',
        `${member.name} is ${member.role} of the ${what} no more, from the next request on`,
        1,
      ),
      ...(projectId === undefined
        ? countedConsequence('projects', projects, 'project', 'is left with it', 'are left with it')
        : []),
      ...countedConsequence('tokens', tokens, 'token', `opens the ${what} no more`, `open the ${what} no more`),
      ...countedConsequence(
        'browsers',
        browsers,
        'signed-in browser',
        `sees the ${what} no more`,
        `see the ${what} no more`,
      ),
      ...(projectId === undefined
        ? countedConsequence('projects', alone, 'project', 'is left without a member', 'are left without a member')
        : []),
    ],
  };
}

/** Of one that is deleted, or disabled until somebody enables it. */
export async function dryEndServiceAccount(
  ctx: FlowContext,
  orgId: string,
  account: string,
  end: 'delete' | 'disable' | 'enable',
): Promise<DryRun> {
  const { id, name } = await readServiceAccount(ctx, orgId, account);
  const { projects, tokens } = await dependentsOfPrincipal(ctx.db, orgId, id, ctx.runtime.now());
  const own: Consequence =
    end === 'delete'
      ? plainConsequence('service-accounts', `Service account ${name} goes; nobody gets it back`, 1)
      : plainConsequence('service-accounts', `Service account ${name} is ${end}d`, 1);
  if (end === 'enable')
    return {
      consequences: [own, ...countedConsequence('tokens', tokens, 'token', 'is valid again', 'are valid again')],
    };
  return {
    consequences: [
      own,
      ...(end === 'delete'
        ? countedConsequence('tokens', tokens, 'token', 'goes with it', 'go with it')
        : countedConsequence(
            'tokens',
            tokens,
            'token',
            'is refused until it is enabled',
            'are refused until it is enabled',
          )),
      ...(end === 'delete' ? countedConsequence('projects', projects, 'project', 'loses it', 'lose it') : []),
    ],
  };
}

/** What revoking the token would do; nothing is changed. Throws Fault `not_found` for one that the caller may not revoke. */
export async function dryRevokeToken(
  ctx: FlowContext,
  actor: Actor,
  scope: TokenScope,
  tokenId: string,
): Promise<DryRun> {
  const { id, name, principalName, revokedAt, lastUsedAt } = await revocableToken(ctx.db, actor, scope, tokenId);
  if (revokedAt !== null) return { consequences: [plainConsequence('tokens', 'It is revoked already')] };
  const browsers = await browsersOfToken(ctx.db, id, ctx.runtime.now());
  const used = lastUsedAt === null ? 'It was never used' : `It was used last at ${lastUsedAt.toISOString()}`;
  return {
    consequences: [
      plainConsequence('tokens', `Whatever uses ${name} of ${principalName} is refused from its next request on`, 1),
      plainConsequence('tokens', used),
      ...(browsers === 0
        ? []
        : [
            plainConsequence(
              'browsers',
              `${amount(browsers, 'browser')} opened with it ${browsers === 1 ? 'is' : 'are'} signed out`,
              browsers,
            ),
          ]),
    ],
  };
}

/** What removing the receiver would do; nothing is changed. Throws Fault `not_found`. */
export async function dryRemoveReceiver(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  await readReceiver(ctx, project, name);
  const { pending, others } = await dependentsOfReceiver(ctx.db, project.id, name);
  const installation = (ctx.outbox?.receivers ?? []).length;
  return {
    consequences: [
      plainConsequence('receivers', `${name} is told nothing any more`, 1),
      ...countedConsequence('notifications', pending, 'notification', 'is not sent', 'are not sent'),
      ...(others.count + installation === 0
        ? [plainConsequence('receivers', 'Nobody else is told of what goes wrong in the project')]
        : []),
    ],
  };
}

/** What deleting the organization would do; nothing is changed. Throws the faults of `removeOrg`. */
export async function dryDeleteOrg(ctx: FlowContext, org: { id: string; slug: string }): Promise<DryRun> {
  await checkOrgRemoval(ctx, org.id);
  const { members, accounts, secrets, tokens } = await dependentsOfOrg(ctx.db, org.id, ctx.runtime.now());
  return {
    consequences: [
      plainConsequence('organizations', `Organization ${org.slug} goes; nobody gets it back, its name is free`, 1),
      ...countedConsequence('members', members, 'member', 'belongs to it no more', 'belong to it no more'),
      ...countedConsequence('service-accounts', accounts, 'service account', 'goes', 'go'),
      ...countedConsequence('tokens', tokens, 'token', 'opens nothing any more', 'open nothing any more'),
      ...countedConsequence('secrets', secrets, 'secret', 'goes, with its value', 'go, with their values'),
    ],
  };
}
