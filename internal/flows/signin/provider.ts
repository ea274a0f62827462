// Sign-in by a provider's word: away with a cookie that everything is made from, back once, and the roles of the groups.

import { createHmac } from 'node:crypto';
import {
  authorizationUrl,
  type Person,
  personOf,
  type Proof,
  SigninRefused,
} from '../../adapters/providers/oauth/oauth.ts';
import {
  ensureIdentity,
  findIdentity,
  type Identity,
  insertAttempt,
  keepRefusedGroups,
  setGroupRoles,
  takeAttempt,
  takeRefusedGroups,
} from '../../adapters/store/signin/identities.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { SigninMethod } from '../../base/config/signin-settings.ts';
import type { FlowContext } from '../context.ts';
import { hashToken } from '../tenancy/tenancy.ts';
import { clientSecretOf, groupRoles, methodNamed } from './methods.ts';
import { keepRefreshToken } from './refresh.ts';
import { type MadeSession, openSession } from './web-session.ts';

const attemptMs = 600_000;

/** State, nonce and verifier of a browser's attempt; who has not its cookie makes none of them. */
function proofOf(ctx: FlowContext, method: SigninMethod, cookie: string): Proof {
  const made = (what: string): string => createHmac('sha256', cookie).update(what).digest('base64url');
  const redirectUri = `${ctx.baseUrl}/signin/callback/${method.name}`;
  return { redirectUri, state: made('state'), nonce: made('nonce'), verifier: made('verifier') };
}

/** Undefined: there is no such method. `failed`: the provider cannot be asked now. */
export async function beginSignin(
  ctx: FlowContext,
  name: string,
  next: string,
): Promise<{ readonly cookie: string; readonly location: string } | 'failed' | undefined> {
  const method = methodNamed(ctx, name);
  if (method === undefined) return undefined;
  const cookie = ctx.runtime.randomBytes(32).toString('base64url');
  try {
    const location = await authorizationUrl(method, await clientSecretOf(ctx, method), proofOf(ctx, method, cookie));
    const expiresAt = new Date(ctx.runtime.now().getTime() + attemptMs);
    await insertAttempt(ctx.db, { cookieSha256: hashToken(cookie), method: name, next, expiresAt });
    return { cookie, location };
  } catch (error) {
    return noteRefusal(ctx, name, error);
  }
}

/** A refusal is logged by its step; whatever else went wrong is not ours to hide. */
function noteRefusal(ctx: FlowContext, method: string, error: unknown): 'failed' {
  if (!(error instanceof SigninRefused)) throw error;
  ctx.runtime.log.warn({ method, step: error.step }, 'signin.refused');
  return 'failed';
}

export type CallbackOutcome =
  | { readonly kind: 'in'; readonly session: MadeSession; readonly next: string }
  | { readonly kind: 'no-role' }
  | { readonly kind: 'failed' };

/** A browser that is back from a provider. The code of an attempt goes to the provider once, whatever comes of it. */
export async function finishSignin(
  ctx: FlowContext,
  name: string,
  back: { readonly cookie: string | undefined; readonly search: string; readonly requestId: string },
): Promise<CallbackOutcome> {
  const method = methodNamed(ctx, name);
  if (method === undefined || back.cookie === undefined) return { kind: 'failed' };
  const proof = proofOf(ctx, method, back.cookie);
  // A callback that this browser did not ask for uses nothing up.
  if (new URLSearchParams(back.search).get('state') !== proof.state) return { kind: 'failed' };
  const sha256 = hashToken(back.cookie);
  const attempt = await takeAttempt(ctx.db, sha256, name, ctx.runtime.now());
  if (attempt === undefined) return { kind: 'failed' };
  let person: Person;
  try {
    person = await personOf(method, await clientSecretOf(ctx, method), proof, back.search);
  } catch (error) {
    return { kind: noteRefusal(ctx, name, error) };
  }
  const session = await ctx.db.tx((tx) => admit(ctx, tx, method, person, back.requestId));
  if (session !== undefined) return { kind: 'in', session, next: attempt.next };
  await keepRefusedGroups(ctx.db, sha256, person.groups.slice(0, 100));
  return { kind: 'no-role' };
}

/** Inside a transaction: the roles that the person's groups give now, and a session where there is any role. */
async function admit(
  ctx: FlowContext,
  tx: Sql,
  method: SigninMethod,
  person: Person,
  requestId: string,
): Promise<MadeSession | undefined> {
  const roles = groupRoles(ctx, person.groups);
  const known = await findIdentity(tx, person.issuer, person.subject);
  const identity =
    known === undefined && roles.length === 0
      ? undefined
      : await ensureIdentity(tx, { ...person, now: ctx.runtime.now() });
  const isIn = identity !== undefined && !identity.disabled && (await setGroupRoles(tx, identity.principalId, roles));
  if (!isIn) {
    await auditRefused(ctx, tx, { method: method.name, person, identity, requestId });
    return undefined;
  }
  await keepRefreshToken(ctx, tx, { ...person, method: method.name }, person.refreshToken);
  const who = { principalId: identity.principalId, principalName: identity.name, tokenId: null, tokenOrgId: null };
  const detail = { subject: person.subject };
  const how = { method: method.name, requestId, detail, keyLater: true };
  return openSession(ctx, tx, { ...who, tokenExpiresAt: null, installation: false }, how);
}

async function auditRefused(
  ctx: FlowContext,
  tx: Sql,
  at: {
    readonly method: string;
    readonly person: Person;
    readonly identity: Identity | undefined;
    readonly requestId: string;
  },
): Promise<void> {
  const { person, identity, requestId, method } = at;
  ctx.runtime.log.info({ method }, 'signin.no_role');
  await recordAudit(tx, {
    orgId: (await firstOrgId(tx)) ?? null,
    projectId: null,
    principal: { kind: 'user', id: identity?.principalId ?? null, name: person.name, requestId },
    action: 'auth.refused',
    subject: { kind: 'principal', name: person.name },
    detail: { method, subject: person.subject, groups: person.groups.slice(0, 100) },
  });
}

/** The groups of whoever was refused, once, to the browser that was. */
export async function refusedGroups(ctx: FlowContext, cookie: string | undefined): Promise<string[] | undefined> {
  return cookie === undefined ? undefined : takeRefusedGroups(ctx.db, hashToken(cookie), ctx.runtime.now());
}
