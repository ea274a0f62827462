// From a token to what it may do: one statement, then the roles table.

import { timingSafeEqual } from 'node:crypto';
import { sha256Bytes } from '../../base/hash.ts';
import { findWebSession, type LiveSession, touchWebSession } from '../../adapters/store/signin/web-sessions.ts';
import { type AccessRow, findAccess, findSessionAccess, touchToken } from '../../adapters/store/tenancy/access.ts';
import { signinSettings } from '../../base/config/signin-settings.ts';
import { Fault } from '../../domain/fault.ts';
import { orgRoles, type Permission, projectRoles, type SelfPermission } from '../../domain/permission.ts';
import { messagesTable } from '../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

/** Who calls, and by what. */
export interface Principal {
  readonly id: string;
  readonly kind: 'user' | 'service_account';
  readonly name: string;
  readonly email: string | null;
  /** The organization that a service account belongs to. */
  readonly orgId: string | null;
  /** Null: a web session that a provider vouches for. */
  readonly tokenId: string | null;
  /** The one organization that the token opens, null for all of the principal's. */
  readonly tokenOrgId: string | null;
  readonly tokenExpiresAt: Date | null;
}

export interface Access {
  readonly principal: Principal;
  /** Present when an organization was named and the principal can see it. */
  readonly org?: { readonly id: string; readonly slug: string; readonly name: string };
  /** Present when a project was named and the principal can see it. */
  readonly project?: ProjectRef & { readonly archived: boolean };
  /** At the narrowest scope that was named. */
  readonly permissions: ReadonlySet<Permission>;
  /** Present when a browser calls. */
  readonly session?: LiveSession;
}

const tokenShape = /^svc_[A-Za-z0-9_-]{43}$/;

/** SHA-256 of the whole token text, as it is stored. */
export function hashToken(token: string): Buffer {
  return sha256Bytes(token);
}

/** No live token. `isGuess`: something was presented that never was a token; worth counting against whoever sent it. */
export class TokenFault extends Fault {
  readonly isGuess: boolean;

  constructor(isGuess: boolean) {
    super('unauthenticated', 'invalid-token', 'A valid API token is required: Authorization: Bearer svc_….');
    this.isGuess = isGuess;
  }
}

/** The one answer for whatever the caller may not see and whatever does not exist (docs/reference/http-api.md#roles). */
export function notVisible(): Fault {
  return new Fault('not_found', 'not-found', messagesTable.notVisible);
}

/**
 * Resolves a token at a scope. Throws TokenFault (`unauthenticated`) without a live token and `not_found` where the
 * organization or project does not exist or is not visible. Whether a permission is held is the caller's to check.
 */
export async function resolveAccess(
  ctx: FlowContext,
  token: string | undefined,
  scope: { readonly org?: string; readonly project?: string },
): Promise<Access> {
  const now = ctx.runtime.now();
  const row =
    token !== undefined && tokenShape.test(token)
      ? await findAccess(ctx.db, hashToken(token), now, scope.org, scope.project)
      : undefined;
  if (row === undefined || !row.live) throw new TokenFault(token !== undefined && row === undefined);
  if (row.stale && row.tokenId !== null) await touchToken(ctx.db, row.tokenId, now);
  return accessOf(row, scope);
}

const secretShape = /^[A-Za-z0-9_-]{43}$/;

/**
 * Resolves a browser's session at a scope, as `resolveAccess` does a token. Throws Fault `unauthenticated`: `key-required`
 * where the key is not the session's, `session-ended` where the session is not alive. A look at whether it still is (`isLook`)
 * is no use of it.
 */
export async function resolveSession(
  ctx: FlowContext,
  given: { readonly cookie: string; readonly key: string | undefined; readonly isLook?: boolean },
  scope: { readonly org?: string; readonly project?: string },
): Promise<Access> {
  if (given.key === undefined) throw keyRequired();
  const now = ctx.runtime.now();
  const { idleSeconds } = signinSettings(ctx.config);
  const session = secretShape.test(given.cookie)
    ? await findWebSession(ctx.db, hashToken(given.cookie), { now, idleSeconds })
    : undefined;
  if (session === undefined) throw sessionEnded();
  if (session.keySha256 === null || !timingSafeEqual(session.keySha256, hashToken(given.key))) throw keyRequired();
  const row = await findSessionAccess(ctx.db, session.id, now, scope.org, scope.project);
  if (row === undefined) throw sessionEnded();
  if (given.isLook !== true) await touchWebSession(ctx.db, session.id, { now, idleSeconds });
  return { ...accessOf(row, scope), session };
}

/** What a session that is alive speaks for, without its key: for pages and callbacks, which a browser asks for by itself. */
export async function sessionAccess(
  ctx: FlowContext,
  sessionId: string,
  scope: { readonly org?: string; readonly project?: string },
): Promise<Access | undefined> {
  const row = await findSessionAccess(ctx.db, sessionId, ctx.runtime.now(), scope.org, scope.project);
  return row === undefined ? undefined : accessOf(row, scope);
}

/** Whether the person of a session sees a project. */
export async function sessionSees(
  ctx: FlowContext,
  sessionId: string,
  scope: { readonly org: string; readonly project: string },
): Promise<boolean> {
  try {
    return (await sessionAccess(ctx, sessionId, scope)) !== undefined;
  } catch (error) {
    if (error instanceof Fault && error.kind === 'not_found') return false;
    throw error;
  }
}

const keyRequired = (): Fault =>
  new Fault('unauthenticated', 'key-required', 'A signed-in browser also sends the key of its session: x-svc-key.');
const sessionEnded = (): Fault =>
  new Fault('unauthenticated', 'session-ended', 'This browser is not signed in, or not any more.');

function accessOf(row: AccessRow, scope: { readonly org?: string; readonly project?: string }): Access {
  const principal = {
    id: row.principalId,
    kind: row.kind,
    name: row.principalName,
    email: row.email,
    orgId: row.principalOrgId,
    tokenId: row.tokenId,
    tokenOrgId: row.tokenOrgId,
    tokenExpiresAt: row.tokenExpiresAt,
  };
  const org = seenOrg(row);
  const project = org === undefined ? undefined : seenProject(row);
  if (scope.org !== undefined && org === undefined) throw notVisible();
  if (scope.project !== undefined && project === undefined) throw notVisible();
  return {
    principal,
    ...(org !== undefined && { org }),
    ...(project !== undefined && { project }),
    permissions: new Set([
      ...selfPermissions(row),
      ...(scope.org !== undefined && scope.project === undefined ? orgPermissions(row) : []),
      ...(scope.project === undefined ? [] : projectPermissions(row)),
    ]),
  };
}

function seenOrg(row: AccessRow): Access['org'] {
  if (row.orgId === null || row.orgSlug === null || row.orgName === null) return undefined;
  const belongs = row.orgRole !== null || row.inSomeProject || row.principalOrgId === row.orgId;
  return belongs ? { id: row.orgId, slug: row.orgSlug, name: row.orgName } : undefined;
}

function seenProject(row: AccessRow): Access['project'] {
  if (row.projectId === null || row.projectSlug === null || row.orgId === null || row.orgSlug === null)
    return undefined;
  if (row.orgRole !== 'admin' && row.projectRole === null) return undefined;
  return {
    id: row.projectId,
    slug: row.projectSlug,
    orgId: row.orgId,
    orgSlug: row.orgSlug,
    archived: row.projectArchived,
  };
}

/** New organizations are for people who administer one already; a service account stays in its own. */
function selfPermissions(row: AccessRow): SelfPermission[] {
  const own: SelfPermission[] = ['self:read', 'self:write', 'orgs:list'];
  if (row.kind === 'user' && row.adminSomewhere) own.push('orgs:create');
  if (row.adminOfFirst) own.push('keys:rotate', 'jobs:retry', 'folders:add');
  return own;
}

function orgPermissions(row: AccessRow): readonly Permission[] {
  return orgRoles[row.orgRole ?? 'member'];
}

function projectPermissions(row: AccessRow): readonly Permission[] {
  if (row.orgRole === 'admin') return projectRoles.admin;
  return row.projectRole === null ? [] : projectRoles[row.projectRole];
}
