// `svc org|project|member|token|audit …`: tenants and who may do what.

import { type Client, connect } from './client.ts';
import { auditFilters } from './command-account.ts';
import { Misuse, Refusal, refusal } from './failure.ts';
import { type Row, rowOf, showList } from './lists.ts';
import { scoped } from './scope.ts';
import { clean, relativeTime } from './text.ts';
import type { Call, Handler } from './types.ts';

const tenantList = (path: (client: Client) => string, empty: string): Handler => {
  return async (call) => {
    const client = await connect(call);
    const now = call.screen.now();
    return showList(call, client, {
      path: path(client),
      empty,
      head: ['slug', 'name', 'created', 'id'],
      row: (tenant) => [
        tenant.text('slug'),
        tenant.text('name'),
        relativeTime(tenant.raw('createdAt') as string, now),
        tenant.text('id'),
      ],
    });
  };
};

const tenantCreate = (path: (client: Client) => string, noun: string): Handler => {
  return async (call) => {
    const client = await connect(call);
    const slug = call.arg('SLUG');
    const answer = await client.request('POST', path(client), { body: { slug, name: call.text('name') ?? slug } });
    call.screen.emit(answer, () => `made the ${noun} ${slug}`);
    return 0;
  };
};

const orgs = (): string => '/api/v1/orgs';
const projects = (client: Client): string => client.org('/projects');
export const orgList = tenantList(orgs, 'no organizations');
export const orgCreate = tenantCreate(orgs, 'organization');
export const projectList = tenantList(projects, 'no projects');
export const projectCreate = tenantCreate(projects, 'project');

export const memberList: Handler = async (call) => {
  const client = await connect(call);
  return showList(call, client, {
    path: scoped(call, client, '/members'),
    empty: call.flag('org') ? 'no members' : 'no members; administrators of the organization need no role here',
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
function whoIs(text: string): object {
  if (text.includes('@')) return { email: text };
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(text) ? { principalId: text } : { serviceAccount: text };
}

export const memberSet: Handler = async (call) => {
  const role = call.text('role');
  const roles = call.flag('org') ? ['member', 'admin'] : ['viewer', 'operator', 'admin'];
  if (role === undefined || !roles.includes(role)) throw new Misuse(`--role takes ${roles.join(', ')}`);
  const client = await connect(call);
  const body = { ...whoIs(call.arg('WHO')), role };
  const answer = await client.request('POST', scoped(call, client, '/members'), { body });
  call.screen.emit(
    answer,
    () => `${call.arg('WHO')} is ${role} of the ${call.flag('org') ? 'organization' : 'project'}`,
  );
  return 0;
};

/** The member that an address or a name means; an id is taken as it is. */
async function memberId(call: Call, client: Client, who: string): Promise<string> {
  if ('principalId' in whoIs(who)) return who;
  const { items } = await client.list(scoped(call, client, '/members'));
  const isMeant = (member: Row): boolean =>
    member.text('name') === who || member.text('email').toLowerCase() === who.toLowerCase();
  const found = items.map(rowOf).filter(isMeant);
  const [one] = found;
  if (one === undefined) throw refusal('unknown-member', `nobody here is ${who}`, '`svc member list` shows who is');
  if (found.length > 1) throw refusal('ambiguous-member', `more than one is ${who}`, 'name one by its id');
  return one.text('principalId');
}

export const memberRemove: Handler = async (call) => {
  const client = await connect(call);
  const who = call.arg('WHO');
  const id = await memberId(call, client, who);
  const answer = await client.request('DELETE', scoped(call, client, `/members/${encodeURIComponent(id)}`));
  call.screen.emit(answer ?? { id, status: 'removed' }, () => `removed ${who}`);
  return 0;
};

export const tokenCreate: Handler = async (call) => {
  const expiresAt = call.text('expires-at');
  if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
    throw new Misuse('--expires-at takes an ISO time');
  const client = await connect(call);
  const who = call.text('for');
  const body = {
    name: call.arg('NAME'),
    ...(who !== undefined && whoIs(who)),
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt).toISOString() }),
  };
  const path = who === undefined ? '/api/v1/tokens' : client.org('/tokens');
  const answer = await client.request('POST', path, { body });
  call.screen.emit(answer, () => clean(rowOf(answer).text('token'), true));
  if (!call.json) call.screen.note('this is the only time that it is shown');
  return 0;
};

const tokensPath = (call: Call, client: Client): string =>
  call.flag('org') ? scoped(call, client, '/tokens') : '/api/v1/tokens';

export const tokenList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: tokensPath(call, client),
    empty: 'no tokens',
    head: ['name', 'of', 'created', 'used', 'expires', 'revoked', 'id'],
    row: (token) => [
      token.text('name'),
      token.text('principal.name'),
      ...['createdAt', 'lastUsedAt', 'expiresAt', 'revokedAt'].map((field) =>
        relativeTime(token.raw(field) as string | null, now),
      ),
      token.text('id'),
    ],
  });
};

export const tokenRevoke: Handler = async (call) => {
  const client = await connect(call);
  const id = call.arg('ID');
  const path = `${tokensPath(call, client)}/${encodeURIComponent(id)}`;
  const answer = await client.request('DELETE', path).catch((error: unknown) => {
    if (!(error instanceof Refusal && error.problem.status === 404)) throw error;
    const hint = call.flag('org') ? '' : '; that of somebody else is revoked with --org';
    throw new Refusal(error.problem, `\`svc token list\` shows the ids${hint}`);
  });
  call.screen.emit(answer ?? { id, status: 'revoked' }, () => `revoked ${id}`);
  return 0;
};

export const auditList: Handler = async (call) => {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    path: scoped(call, client, '/audit'),
    query: auditFilters(call),
    limit: 50,
    empty: 'nothing yet',
    head: ['at', 'who', 'action', 'subject', 'request'],
    row: (entry) => [
      relativeTime(entry.raw('at') as string, now),
      entry.text('principal.name'),
      entry.text('action'),
      entry.raw('subject') === null ? '-' : `${entry.text('subject.kind')} ${entry.text('subject.name')}`,
      entry.text('requestId'),
    ],
  });
};
