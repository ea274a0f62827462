// Browsers on their way to a provider and back. Each ends in a redirect that carries nothing of what came.

import { sha256Bytes } from '../../base/hash.ts';
import { attemptByState, type AttemptRow, scopeOf } from '../../adapters/store/connections/errtrack-attempts.ts';
import { type SetupCaller, takeCallback } from '../../flows/connections/connections.ts';
import { beginSignin, finishSignin, refusedGroups, signedIn } from '../../flows/signin/signin.ts';
import { type Access, sessionAccess } from '../../flows/tenancy/tenancy.ts';
import { Fault } from '../../domain/fault.ts';
import { errorPage, messagePage } from './pages.ts';
import { cookieOf, seeOther, sessionCookieName, setCookie, signinCookieName, type Visit } from './visit.ts';

const attemptSeconds = 600;

export async function signinBegin(visit: Visit, method: string, next: string): Promise<void> {
  const begun = await beginSignin(visit.ctx, method, next);
  if (begun === undefined) return errorPage(visit, 404);
  if (begun === 'failed') return seeOther(visit, '/signin/error');
  seeOther(visit, begun.location, { 'set-cookie': setCookie(signinCookieName, begun.cookie, attemptSeconds) });
}

export async function signinCallback(visit: Visit, method: string): Promise<void> {
  const cookie = cookieOf(visit.request.headers, signinCookieName);
  const { url, requestId } = visit;
  const outcome = await finishSignin(visit.ctx, method, { cookie, search: url.search, requestId });
  if (outcome.kind === 'no-role') return seeOther(visit, '/signin/no-role');
  if (outcome.kind === 'failed') return seeOther(visit, '/signin/error');
  const cookies = [setCookie(sessionCookieName, outcome.session.cookie), setCookie(signinCookieName, '', 0)];
  seeOther(visit, outcome.next, { 'set-cookie': cookies });
}

export async function signinNoRole(visit: Visit): Promise<void> {
  const groups = await refusedGroups(visit.ctx, cookieOf(visit.request.headers, signinCookieName));
  const seen =
    groups === undefined
      ? []
      : [groups.length === 0 ? 'The provider names no groups of yours.' : `Groups seen: ${groups.join(', ')}`];
  const lines = [
    'No group of yours has a role here, and nobody gave you one.',
    ...seen,
    'An administrator can give a role to you or to one of your groups.',
  ];
  messagePage(visit, 200, 'You have no role here', lines, { 'set-cookie': setCookie(signinCookieName, '', 0) });
}

const shapes = {
  state: /^[A-Za-z0-9_-]{43}$/,
  installationId: /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/,
  code: /^[\x20-\x7e]{1,8192}$/,
};

/** What the provider's redirect brings; undefined where it is malformed. Whatever else it carries is not looked at. */
function readCallback(query: URLSearchParams): { state: string; installationId: string; code: string } | undefined {
  const given = { state: '', installationId: '', code: '' };
  for (const name of ['state', 'installationId', 'code'] as const) {
    const [value, ...more] = query.getAll(name);
    if (value === undefined || more.length > 0 || !shapes[name].test(value)) return undefined;
    given[name] = value;
  }
  return given;
}

const errorPath = '/connections/errtrack/error';
const goesOn: readonly AttemptRow['state'][] = ['awaiting_selection', 'exchanging', 'completing', 'uncertain'];

export async function errtrackCallback(visit: Visit): Promise<void> {
  const { ctx, url, request, requestId } = visit;
  const given = readCallback(url.searchParams);
  const session = await signedIn(ctx, cookieOf(request.headers, sessionCookieName));
  const access = session === undefined ? undefined : await sessionAccess(ctx, session.id, {});
  if (given === undefined || access === undefined) return seeOther(visit, errorPath);
  try {
    const row = await takeCallback(ctx, callerOf(access, requestId), given);
    // What the provider refused has its reason on the page of the attempt's own person.
    return await toConnections(visit, row, row.state === 'failed');
  } catch (error) {
    // Where the database is away nothing is known of the attempt: the address is good when it is back.
    if (!(error instanceof Fault) || error.kind === 'internal' || error.code === 'unavailable') throw error;
    return reopened(visit, access, given.state, error);
  }
}

const callerOf = ({ principal }: Access, requestId: string): SetupCaller => ({
  actor: { kind: principal.kind, id: principal.id, name: principal.name, requestId },
  principalId: principal.id,
  kind: principal.kind,
  tokenOrgId: principal.tokenOrgId,
});

/** A callback that exchanges nothing: the person's own attempt that goes on or is done, else the fixed page. */
async function reopened(visit: Visit, access: Access, state: string, fault: Fault): Promise<void> {
  const row = fault.kind === 'conflict' ? await attemptByState(visit.ctx.db, sha256Bytes(state)) : undefined;
  if (row === undefined || row.userId !== access.principal.id) return seeOther(visit, errorPath);
  return toConnections(visit, row, false);
}

async function toConnections(visit: Visit, row: AttemptRow, isShown: boolean): Promise<void> {
  const place = await scopeOf(visit.ctx.db, row.orgId, row.projectId);
  const isPending = isShown || goesOn.includes(row.state);
  if (place === undefined || (!isPending && row.state !== 'completed')) return seeOther(visit, errorPath);
  const query = isPending ? `errtrackAttempt=${row.id}` : 'connectionOAuth=success&provider=errtrack';
  seeOther(visit, `/${place.orgSlug}/${place.projectSlug}/connections?${query}`);
}
