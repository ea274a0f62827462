// Sessions of browsers: opened with a token, a hand-off or a provider's word, listed, ended.

import type { AuditAction } from '../../domain/audit-actions.ts';
import {
  endWebSession,
  findWebSession,
  insertHandoff,
  insertWebSession,
  type LiveSession,
  listWebSessions,
  orgsOf,
  type Presented,
  presentedToken,
  type SessionRow,
  type SessionScope,
  setSessionKey,
  takeHandoff,
} from '../../adapters/store/signin/web-sessions.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { signinSettings } from '../../base/config/signin-settings.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Actor, FlowContext } from '../context.ts';
import { hashToken, notVisible } from '../tenancy/tenancy.ts';

const handoffMs = 60_000;

export interface MadeSession {
  /** The cookie's value. */
  readonly cookie: string;
  /** For the key header. */
  readonly key: string;
  readonly expiresAt: Date;
}

export interface SignedIn {
  readonly id: string;
  readonly principalId: string;
  readonly method: string;
  readonly expiresAt: Date;
  readonly breakGlass: boolean;
  readonly hasKey: boolean;
}

const random = (ctx: FlowContext): string => ctx.runtime.randomBytes(32).toString('base64url');
const notAccepted = (): Fault =>
  new Fault('unauthenticated', 'signin-refused', 'This does not sign in, or not any more.');

/** Whether the session of the data directory's token is told apart: where there is another way in. */
export const tellsBreakGlass = (ctx: FlowContext): boolean => signinSettings(ctx.config).methods.length > 0;

/** The ways in, for the page of sign-in. */
export function methodsOf(ctx: FlowContext) {
  const { methods, tokens } = signinSettings(ctx.config);
  const own = methods.map(({ kind, name, label }) => ({ kind, name, label, url: `/signin/${name}` }));
  return { methods: own, tokens };
}

/** The session of a cookie, whoever sent it; undefined where it is not alive. What it may do is not said. */
export async function signedIn(ctx: FlowContext, cookie: string | undefined): Promise<SignedIn | undefined> {
  if (cookie === undefined || !/^[A-Za-z0-9_-]{43}$/.test(cookie)) return undefined;
  const { idleSeconds } = signinSettings(ctx.config);
  const row = await findWebSession(ctx.db, hashToken(cookie), { now: ctx.runtime.now(), idleSeconds });
  return row === undefined ? undefined : shown(ctx, row);
}

const shown = (ctx: FlowContext, row: LiveSession): SignedIn => ({
  id: row.id,
  principalId: row.principalId,
  method: row.method,
  expiresAt: row.expiresAt,
  breakGlass: row.installation && tellsBreakGlass(ctx),
  hasKey: row.keySha256 !== null,
});

/** Opens a session. Throws Fault `unauthenticated`, or `forbidden` for whoever is no person. */
export async function signIn(
  ctx: FlowContext,
  given: { readonly token: string } | { readonly handoff: string },
  requestId: string,
): Promise<MadeSession> {
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const who =
      'token' in given
        ? await presentedToken(tx, hashToken(given.token), now)
        : await takeHandoff(tx, hashToken(given.handoff), now);
    if (who === undefined) throw notAccepted();
    if (who.kind !== 'user') throw personRequired();
    if ('token' in given && !signinSettings(ctx.config).tokens && !who.installation)
      throw new Fault('forbidden', 'tokens-off', 'Tokens do not sign in here; use one of the other ways.');
    return openSession(ctx, tx, who, { method: 'token' in given ? 'token' : 'handoff', requestId });
  });
}

export const personRequired = (): Fault =>
  new Fault('forbidden', 'person-required', 'Only a person signs in with a browser.');

type Opened = Omit<Presented, 'kind'>;

/** Inside a transaction: the session's row and its audit entries. With `keyLater` no key is good before `giveKey` gives it. */
export async function openSession(
  ctx: FlowContext,
  tx: Sql,
  who: Opened,
  how: {
    readonly method: string;
    readonly requestId: string;
    readonly detail?: JsonObject;
    readonly keyLater?: boolean;
  },
): Promise<MadeSession> {
  const now = ctx.runtime.now();
  const orgs = await orgsOf(tx, who.principalId, who.tokenOrgId);
  if (orgs.length === 0) throw notAccepted();
  const end = now.getTime() + signinSettings(ctx.config).absoluteSeconds * 1_000;
  const expiresAt = new Date(Math.min(end, who.tokenExpiresAt?.getTime() ?? end));
  const made = { cookie: random(ctx), key: random(ctx), expiresAt };
  const id = await insertWebSession(tx, {
    cookieSha256: hashToken(made.cookie),
    keySha256: how.keyLater === true ? null : hashToken(made.key),
    principalId: who.principalId,
    tokenId: who.tokenId,
    method: how.method,
    now,
    expiresAt,
  });
  const actor: Actor = { kind: 'user', id: who.principalId, name: who.principalName, requestId: how.requestId };
  const detail = { method: how.method, sessionId: id, ...how.detail };
  await auditIn(tx, orgs, actor, 'auth.signed_in', detail);
  if (who.installation && tellsBreakGlass(ctx)) await auditIn(tx, orgs, actor, 'auth.break_glass', detail);
  return made;
}

/** An entry in each organization of the person. */
export async function auditIn(
  tx: Sql,
  orgs: readonly string[],
  principal: Actor,
  action: AuditAction,
  detail: JsonObject,
): Promise<void> {
  const subject = { kind: 'principal', name: principal.name };
  for (const orgId of orgs) await recordAudit(tx, { orgId, projectId: null, principal, action, subject, detail });
}

/** A one-time way into a browser, for a person who holds a token or a session. */
export async function handOff(
  ctx: FlowContext,
  actor: Actor,
  caller: {
    readonly id: string;
    readonly kind: string;
    readonly tokenId: string | null;
    readonly tokenOrgId: string | null;
  },
): Promise<{ readonly handoff: string; readonly url: string; readonly expiresAt: Date }> {
  if (caller.kind !== 'user') throw personRequired();
  const handoff = random(ctx);
  const expiresAt = new Date(ctx.runtime.now().getTime() + handoffMs);
  await ctx.db.tx(async (tx) => {
    const { id: principalId, tokenId, tokenOrgId } = caller;
    await insertHandoff(tx, { sha256: hashToken(handoff), principalId, tokenId, expiresAt });
    await auditIn(tx, await orgsOf(tx, principalId, tokenOrgId), actor, 'auth.handoff_created', {});
  });
  return { handoff, url: `${ctx.baseUrl}/signin#h=${handoff}`, expiresAt };
}

/** The key of a session that a provider vouched for, once. Throws Fault `conflict`. */
export async function giveKey(ctx: FlowContext, session: Pick<SignedIn, 'id'>): Promise<string> {
  const key = random(ctx);
  if (!(await setSessionKey(ctx.db, session.id, hashToken(key))))
    throw new Fault('conflict', 'key-given', 'The key of this session was given before; sign in again.');
  return key;
}

/** The person’s browser sessions that are alive, as far as the caller’s token reaches. */
export async function listOwnSessions(ctx: FlowContext, of: SessionScope): Promise<SessionRow[]> {
  const { idleSeconds } = signinSettings(ctx.config);
  return listWebSessions(ctx.db, of, { now: ctx.runtime.now(), idleSeconds });
}

/** Throws Fault `not_found` for what is no session of the caller's that is alive, or that its token does not reach. */
export async function dropSession(
  ctx: FlowContext,
  actor: Actor,
  of: SessionScope,
  id: string,
  action: 'auth.session_ended' | 'auth.signed_out',
): Promise<void> {
  if (!isUuid(id)) throw notVisible();
  await ctx.db.tx(async (tx) => {
    if (!(await endWebSession(tx, of, id, ctx.runtime.now()))) throw notVisible();
    await auditIn(tx, await orgsOf(tx, of.principalId, of.only), actor, action, { sessionId: id });
  });
}
