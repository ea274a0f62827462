// `svc org|project|member|token|audit …`: tenants and who may do what.

import { auditActions } from '../../domain/audit-actions.ts';
import * as audit from '../../../schemas/api/audit.ts';
import type { DryRun } from '../../../schemas/api/common.ts';
import * as members from '../../../schemas/api/members.ts';
import * as tenancy from '../../../schemas/api/tenancy.ts';
import * as tokens from '../../../schemas/api/tokens.ts';
import { type Client, connect } from './client.ts';
import { auditFilters } from './command-account.ts';
import { reasonBody, dryRun, isMeant } from './confirm.ts';
import { UsageError, Refusal, refusal } from './failure.ts';
import { isoTime } from './iso-time.ts';
import { type Row, short, showList } from './lists.ts';
import { scopeOf } from './scope.ts';
import { clean, nearest, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';
import { isUuid } from '../../domain/uuid.ts';

/** A line of an organization or a project. */
const tenantRow = (call: Call) => {
  const now = call.screen.now();
  return (tenant: Row<tenancy.Organization>) => [
    tenant.text('slug'),
    tenant.text('name'),
    relativeTime(tenant.at('createdAt'), now),
    tenant.text('id'),
  ];
};
const tenantHead = ['slug', 'name', 'created', 'id'];
/** The name is the slug where none is given. */
const newTenant = (call: Call) => ({ slug: call.arg('SLUG'), name: call.text('name') ?? call.arg('SLUG') });

export const orgList: Handler = async (call) => {
  const operation = tenancy.listOrganizations;
  const empty = 'no organizations';
  return showList(call, await connect(call), { operation, empty, head: tenantHead, row: tenantRow(call) });
};

export const projectList: Handler = async (call) => {
  const operation = tenancy.listProjects;
  return showList(call, await connect(call), {
    operation,
    empty: 'no projects',
    head: [...tenantHead, 'archived'],
    row: (tenant) => [...tenantRow(call)(tenant), relativeTime(tenant.at('archivedAt'), call.screen.now())],
  });
};

export const orgCreate: Handler = async (call) => {
  const client = await connect(call);
  const made = await client.call(tenancy.createOrganization, { body: newTenant(call) });
  call.screen.emit(made, () => `made the organization ${call.arg('SLUG')}`);
  return 0;
};

export const projectCreate: Handler = async (call) => {
  const client = await connect(call);
  const made = await client.call(tenancy.createProject, { body: newTenant(call) });
  call.screen.emit(made, () => `made the project ${call.arg('SLUG')}`);
  return 0;
};

export const orgDelete: Handler = async (call) => {
  const client = await connect(call);
  const slug = call.arg('SLUG');
  const of = { params: { org: slug } };
  const look = async () => (await client.call(tenancy.deleteOrganization, { ...of, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `deleting ${slug}`, look))) return 0;
  await client.call(tenancy.deleteOrganization, { ...of, ...reasonBody(call) });
  call.screen.emit({ slug, status: 'deleted' }, () => `deleted the organization ${slug}`);
  return 0;
};

export const memberList: Handler = async (call) => {
  const client = await connect(call);
  const { isOrg, params } = scopeOf(call);
  return showList(call, client, {
    operation: isOrg ? members.listOrganizationMembers : members.listMembers,
    input: { params },
    empty: isOrg ? 'no members' : 'no members; administrators of the organization need no role here',
    head: ['name', 'kind', 'role', 'email', 'id'],
    row: (member) => [
      member.text('name'),
      member.text('kind'),
      member.text('role'),
      member.text('email'),
      member.text('principalId'),
    ],
  });
};

// A person by e-mail address, a principal by id, else a service account by name.
function whoIs(text: string): { email?: string; principalId?: string; serviceAccount?: string } {
  if (text.includes('@')) return { email: text };
  return isUuid(text) ? { principalId: text } : { serviceAccount: text };
}

export const memberSet: Handler = async (call) => {
  const role = call.text('role');
  const roles = call.flag('org') ? ['member', 'admin'] : ['viewer', 'operator', 'admin'];
  if (role === undefined || !roles.includes(role)) throw new UsageError(`--role takes ${roles.join(', ')}`);
  const client = await connect(call);
  const { isOrg, params } = scopeOf(call);
  const who = whoIs(call.arg('WHO'));
  // Which roles go with which scope was seen to above.
  const answer = isOrg
    ? await client.call(members.setOrganizationMember, { params, body: { ...who, role: role as 'admin' } })
    : await client.call(members.setMember, { params, body: { ...who, role: role as 'admin' } });
  call.screen.emit(
    answer,
    () => `${call.arg('WHO')} is ${role} of the ${call.flag('org') ? 'organization' : 'project'}`,
  );
  return 0;
};

/** The member that an address or a name means; an id is taken as it is. */
async function memberId(call: Call, client: Client, who: string): Promise<string> {
  if ('principalId' in whoIs(who)) return who;
  const { isOrg, params } = scopeOf(call);
  const operation = isOrg ? members.listOrganizationMembers : members.listMembers;
  const { items } = await client.list(operation, { params });
  const found = items.filter(({ name, email }) => name === who || email?.toLowerCase() === who.toLowerCase());
  const [one] = found;
  if (one === undefined) throw refusal('unknown-member', `nobody here is ${who}`, '`svc member list` shows who is');
  if (found.length > 1) throw refusal('ambiguous-member', `more than one is ${who}`, 'name one by its id');
  return one.principalId;
}

export const memberRemove: Handler = async (call) => {
  const client = await connect(call);
  const who = call.arg('WHO');
  const id = await memberId(call, client, who);
  const { isOrg, params } = scopeOf(call);
  const operation = isOrg ? members.removeOrganizationMember : members.removeMember;
  const of = { params: { ...params, member: id } };
  const look = async () => (await client.call(operation, { ...of, query: dryRun })) as DryRun;
  if (!(await isMeant(call, `removing ${who}`, look))) return 0;
  await client.call(operation, { ...of, ...reasonBody(call) });
  call.screen.emit({ id, status: 'removed' }, () => `removed ${who}`);
  return 0;
};

export const tokenCreate: Handler = async (call) => {
  const given = call.text('expires-at');
  const expiresAt = given === undefined ? undefined : isoTime(given);
  if (given !== undefined && expiresAt === undefined) throw new UsageError('--expires-at takes an ISO time');
  const client = await connect(call);
  const who = call.text('for');
  const body = {
    name: call.arg('NAME'),
    ...(expiresAt !== undefined && { expiresAt }),
  };
  const answer =
    who === undefined
      ? await client.call(tokens.createOwnToken, { body })
      : await client.call(tokens.createToken, { body: { ...body, ...whoIs(who) } });
  call.screen.emit(answer, () => clean(answer.token, true));
  if (!call.json) call.screen.note('this is the only time that it is shown');
  return 0;
};

export const tokenList: Handler = async (call) => {
  const client = await connect(call);
  const scope = scopeOf(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: scope.isOrg ? tokens.listTokens : tokens.listOwnTokens,
    input: { params: scope.params },
    empty: 'no tokens',
    head: ['name', 'of', 'created', 'used', 'expires', 'revoked', 'id'],
    row: (token) => [
      token.text('name'),
      token.text('principal.name'),
      ...(['createdAt', 'lastUsedAt', 'expiresAt', 'revokedAt'] as const).map((field) =>
        relativeTime(token.at(field), now),
      ),
      token.text('id'),
    ],
  });
};

export const tokenRevoke: Handler = async (call) => {
  const client = await connect(call);
  const id = call.arg('ID');
  const { isOrg, params } = scopeOf(call);
  const operation = isOrg ? tokens.revokeToken : tokens.revokeOwnToken;
  const of = { params: { ...params, token: id } };
  const explain = (error: unknown): never => {
    if (!(error instanceof Refusal && error.problem.status === 404)) throw error;
    const hint = isOrg ? '' : '; that of somebody else is revoked with --org';
    throw new Refusal(error.problem, `\`svc token list\` shows the ids${hint}`);
  };
  const look = async () => (await client.call(operation, { ...of, query: dryRun }).catch(explain)) as DryRun;
  if (!(await isMeant(call, `revoking ${id}`, look))) return 0;
  await client.call(operation, { ...of, ...reasonBody(call) }).catch(explain);
  call.screen.emit({ id, status: 'revoked' }, () => `revoked ${id}`);
  return 0;
};

/** An empty answer would read as if nothing of the kind had happened: an action that is nearly one of those there are is refused. */
async function checkAction(call: Call, latest: () => Promise<readonly { readonly action: string }[]>): Promise<void> {
  const action = call.text('action');
  if (action === undefined) return;
  const known = [...new Set([...Object.keys(auditActions), ...(await latest()).map((entry) => entry.action)])];
  const near = known.includes(action) ? undefined : nearest(action, known);
  if (near !== undefined) throw new UsageError(`no entry has the action ${action}`, `did you mean ${near}?`);
}

/** Why it was done, where whoever did it has said so. */
function whyOf(detail: unknown): string {
  const reason: unknown = Object(detail).reason;
  return typeof reason === 'string' ? short(reason) : '-';
}

export const auditList: Handler = async (call) => {
  const client = await connect(call);
  const scope = scopeOf(call);
  const now = call.screen.now();
  const operation = scope.isOrg ? audit.listOrganizationAudit : audit.listAudit;
  return showList(call, client, {
    operation,
    input: { params: scope.params, query: auditFilters(call) },
    limit: 50,
    whenEmpty: () =>
      checkAction(call, async () => (await client.list(operation, { params: scope.params }, 1_000)).items),
    empty: Object.values(auditFilters(call)).every((value) => value === undefined) ? 'nothing yet' : 'no such entries',
    head: ['at', 'who', 'action', 'subject', 'why', 'request'],
    row: (entry) => [
      relativeTime(entry.at('at'), now),
      entry.text('principal.name'),
      entry.text('action'),
      entry.at('subject') === null ? '-' : `${entry.text('subject.kind')} ${entry.text('subject.name')}`,
      whyOf(entry.at('detail')),
      entry.text('requestId'),
    ],
  });
};
