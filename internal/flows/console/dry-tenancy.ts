// What would follow if somebody took away who may do what, or a tenant: members, service accounts, tokens, receivers, projects
// and organizations. The same checks and the same faults as the act itself; changes nothing.

import {
  browsersOfToken,
  hangingOnOrg,
  hangingOnPrincipal,
  hangingOnProject,
  hangingOnReceiver,
  restingInProject,
} from '../../adapters/store/console/consequences.ts';
import type { TokenScope } from '../../adapters/store/tenancy/principals.ts';
import type { Membership } from '../../adapters/store/tenancy/tenancy.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { readReceiver } from '../notify/notify.ts';
import { checkMemberRemoval, checkOrgRemoval, readServiceAccount, revocableToken } from '../tenancy/tenancy.ts';
import { amount, type Consequence, type DryRun, said, told } from './consequence.ts';

export async function dryDeleteProject(ctx: FlowContext, project: ProjectRef): Promise<DryRun> {
  const { agents, repositories, schedules, sessions, secrets, connections, endpoints } = await hangingOnProject(
    ctx.db,
    project.id,
  );
  return {
    consequences: [
      said('projects', `Project ${project.slug} goes, with its events, transcripts and runs; nobody gets it back`, 1),
      ...told('agents', agents, 'agent', 'is deleted', 'are deleted'),
      ...told('sessions', sessions, 'live session', 'ends', 'end'),
      ...told('repositories', repositories, 'repository', 'is not watched any more', 'are not watched any more'),
      ...told('schedules', schedules, 'schedule', 'goes', 'go'),
      ...told('endpoints', endpoints, 'endpoint', 'answers 404', 'answer 404'),
      ...told('secrets', secrets, 'secret', 'goes', 'go'),
      ...told('connections', connections, 'connection', 'goes', 'go'),
    ],
  };
}

/** Of archiving a project, bringing it back, or changing what it is called and may. */
export async function dryChangeProject(
  ctx: FlowContext,
  project: ProjectRef,
  archived: boolean | undefined,
): Promise<DryRun> {
  if (archived === undefined) return { consequences: [said('projects', 'Its settings are written', 1)] };
  const { repositories, schedules, endpoints, connections, sessions } = await restingInProject(ctx.db, project.id);
  if (!archived)
    return {
      consequences: [
        said('projects', `Project ${project.slug} is at work again`, 1),
        ...told('repositories', repositories, 'repository', 'is synced again', 'are synced again'),
        ...told('schedules', schedules, 'schedule', 'fires again', 'fire again'),
        ...told('endpoints', endpoints, 'endpoint', 'answers again', 'answer again'),
      ],
    };
  return {
    consequences: [
      said('projects', `Project ${project.slug} stays as it is, to be read: nobody changes anything in it`, 1),
      ...told('repositories', repositories, 'repository', 'is not synced', 'are not synced'),
      ...told('schedules', schedules, 'schedule', 'does not fire', 'do not fire'),
      ...told('endpoints', endpoints, 'endpoint', 'answers 404', 'answer 404'),
      ...told('connections', connections, 'connection', 'is not used', 'are not used'),
      ...told(
        'sessions',
        sessions,
        'live session',
        'goes on until its turn ends, and is sent nothing',
        'go on until their turns end, and are sent nothing',
      ),
    ],
  };
}

export async function dryRemoveMember(ctx: FlowContext, membership: Membership, principalId: string): Promise<DryRun> {
  const { orgId, projectId } = membership;
  const { member, isOrgAdmin } = await checkMemberRemoval(ctx, membership, principalId);
  const found = await hangingOnPrincipal(ctx.db, orgId, member.principalId, ctx.runtime.now());
  const { projects, tokens, browsers, alone } = found;
  if (projectId !== undefined && isOrgAdmin)
    return {
      consequences: [
        said('members', `${member.name} has no role of the project any more`, 1),
        said('members', 'As administrator of the organization every right in it is kept'),
      ],
    };
  const what = projectId === undefined ? 'organization' : 'project';
  return {
    consequences: [
      said('members', `${member.name} is ${member.role} of the ${what} no more, from the next request on`, 1),
      ...(projectId === undefined ? told('projects', projects, 'project', 'is left with it', 'are left with it') : []),
      ...told('tokens', tokens, 'token', `opens the ${what} no more`, `open the ${what} no more`),
      ...told('browsers', browsers, 'signed-in browser', `sees the ${what} no more`, `see the ${what} no more`),
      ...(projectId === undefined
        ? told('projects', alone, 'project', 'is left without a member', 'are left without a member')
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
  const { projects, tokens } = await hangingOnPrincipal(ctx.db, orgId, id, ctx.runtime.now());
  const own: Consequence =
    end === 'delete'
      ? said('service-accounts', `Service account ${name} goes; nobody gets it back`, 1)
      : said('service-accounts', `Service account ${name} is ${end}d`, 1);
  if (end === 'enable')
    return { consequences: [own, ...told('tokens', tokens, 'token', 'is valid again', 'are valid again')] };
  return {
    consequences: [
      own,
      ...(end === 'delete'
        ? told('tokens', tokens, 'token', 'goes with it', 'go with it')
        : told('tokens', tokens, 'token', 'is refused until it is enabled', 'are refused until it is enabled')),
      ...(end === 'delete' ? told('projects', projects, 'project', 'loses it', 'lose it') : []),
    ],
  };
}

export async function dryRevokeToken(
  ctx: FlowContext,
  actor: Actor,
  scope: TokenScope,
  tokenId: string,
): Promise<DryRun> {
  const { id, name, principalName, revokedAt, lastUsedAt } = await revocableToken(ctx.db, actor, scope, tokenId);
  if (revokedAt !== null) return { consequences: [said('tokens', 'It is revoked already')] };
  const browsers = await browsersOfToken(ctx.db, id, ctx.runtime.now());
  const used = lastUsedAt === null ? 'It was never used' : `It was used last at ${lastUsedAt.toISOString()}`;
  return {
    consequences: [
      said('tokens', `Whatever uses ${name} of ${principalName} is refused from its next request on`, 1),
      said('tokens', used),
      ...(browsers === 0
        ? []
        : [
            said(
              'browsers',
              `${amount(browsers, 'browser')} opened with it ${browsers === 1 ? 'is' : 'are'} signed out`,
              browsers,
            ),
          ]),
    ],
  };
}

export async function dryRemoveReceiver(ctx: FlowContext, project: ProjectRef, name: string): Promise<DryRun> {
  await readReceiver(ctx, project, name);
  const { pending, others } = await hangingOnReceiver(ctx.db, project.id, name);
  const installation = (ctx.outbox?.receivers ?? []).length;
  return {
    consequences: [
      said('receivers', `${name} is told nothing any more`, 1),
      ...told('notifications', pending, 'notification', 'is not sent', 'are not sent'),
      ...(others.count + installation === 0
        ? [said('receivers', 'Nobody else is told of what goes wrong in the project')]
        : []),
    ],
  };
}

export async function dryDeleteOrg(ctx: FlowContext, org: { id: string; slug: string }): Promise<DryRun> {
  await checkOrgRemoval(ctx, org.id);
  const { members, accounts, secrets, tokens } = await hangingOnOrg(ctx.db, org.id, ctx.runtime.now());
  return {
    consequences: [
      said('organizations', `Organization ${org.slug} goes; nobody gets it back, its name is free`, 1),
      ...told('members', members, 'member', 'belongs to it no more', 'belong to it no more'),
      ...told('service-accounts', accounts, 'service account', 'goes', 'go'),
      ...told('tokens', tokens, 'token', 'opens nothing any more', 'open nothing any more'),
      ...told('secrets', secrets, 'secret', 'goes, with its value', 'go, with their values'),
    ],
  };
}
