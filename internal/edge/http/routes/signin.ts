// Sign-in of browsers, and the device grant of the command line.

import * as api from '../../../../schemas/api/signin.ts';
import {
  decideDevice,
  deviceToken,
  dropSession,
  type GrantError,
  giveKey,
  handOff,
  listOwnSessions,
  pendingDevice,
  methodsOf,
  signedIn,
  signIn,
  startDevice,
} from '../../../flows/signin/signin.ts';
import { Fault } from '../../../domain/fault.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { isUuid } from '../../../domain/uuid.ts';
import { pageOf, readPage } from '../page.ts';
import { requireOwnOrigin, requireOwnHost, sessionCookie, sessionCookieOf } from '../session.ts';
import { created, noContent, ok, type Principal, type Route, serve } from '../route.ts';
import { counted } from './shapes.ts';

const formType = 'application/x-www-form-urlencoded';

/** A form whose names are each said once; undefined where it is none. A name without a value was not said (RFC 6749, 3.1). */
function readForm(raw: Buffer, contentType: string | undefined): { readonly [name: string]: string } | undefined {
  if (contentType?.split(';', 1)[0]?.trim().toLowerCase() !== formType) return undefined;
  const form = new URLSearchParams(raw.toString('utf8'));
  const names = [...form.keys()];
  if (new Set(names).size !== names.length) return undefined;
  return Object.fromEntries([...form].filter(([, value]) => value !== ''));
}
const badForm = { status: 400, body: { error: 'invalid_request', error_description: 'a form is expected' } } as const;
const refused = (body: GrantError) =>
  body.error === 'invalid_client' ? ({ status: 401, body } as const) : ({ status: 400, body } as const);
const retryAfter = { 'retry-after': '60' } as const;

/** A page of a list whose key is a time in milliseconds and an id. */
function readOwnPage(query: { limit?: string | undefined; cursor?: string | undefined }) {
  const { limit, after } = readPage(query);
  if (after === undefined) return { limit };
  const [ms, id] = after;
  if (after.length !== 2 || !Number.isSafeInteger(ms) || typeof id !== 'string' || !isUuid(id))
    throw new Fault('invalid', 'invalid-cursor', messagesTable.foreignCursor);
  return { limit, after: [Number(ms), id] as const };
}

/** Where a list goes on, newest first, also where what it was read to is gone. */
function placeBehind(
  rows: readonly { readonly id: string; readonly createdAt: Date }[],
  [ms, id]: readonly [ms: number, id: string],
): number {
  const at = rows.findIndex((row) => row.id === id);
  if (at !== -1) return at + 1;
  const older = rows.findIndex((row) => row.createdAt.getTime() < ms);
  return older === -1 ? rows.length : older;
}

/** A token of one organization reaches no browser that is signed in to more. */
const reachOf = ({ id, tokenOrgId }: Principal) => ({ principalId: id, only: tokenOrgId });

export const signinRoutes: readonly Route[] = [
  serve(api.openSession, async ({ ctx, body, headers, requestId }) => {
    requireOwnHost(ctx, headers);
    if (headers['origin'] !== undefined) requireOwnOrigin(ctx, headers);
    const made = await signIn(ctx, body, requestId);
    const answer = created({ key: made.key, expiresAt: made.expiresAt.toISOString() });
    return { ...answer, headers: { 'set-cookie': sessionCookie(made.cookie) } };
  }),
  serve(api.createHandoff, async ({ ctx, actor, principal }) => {
    const made = await handOff(ctx, actor, principal);
    return created({ ...made, expiresAt: made.expiresAt.toISOString() });
  }),
  serve(api.giveSessionKey, async ({ ctx, headers }) => {
    requireOwnHost(ctx, headers);
    requireOwnOrigin(ctx, headers);
    const session = await signedIn(ctx, sessionCookieOf(headers));
    if (session === undefined) throw new Fault('unauthenticated', 'session-ended', 'This browser is not signed in.');
    return created({ key: await giveKey(ctx, session) });
  }),
  serve(api.listWebSessions, async ({ ctx, principal, session, query }) => {
    const { limit, after } = readOwnPage(query);
    // A few at most: a page is cut here.
    const all = await listOwnSessions(ctx, reachOf(principal));
    const rows = after === undefined ? all : all.slice(placeBehind(all, after));
    const show = ({ createdAt, lastUsedAt, expiresAt, ...row }: (typeof rows)[number]) => ({
      ...row,
      ...{ createdAt: createdAt.toISOString(), lastUsedAt: lastUsedAt.toISOString() },
      ...{ expiresAt: expiresAt.toISOString(), current: row.id === session?.id },
    });
    const total = query.counts === 'true' ? all.length : undefined;
    return ok({ ...pageOf(rows, limit, (row) => [row.createdAt.getTime(), row.id], show), ...counted(total) });
  }),
  serve(api.endWebSession, async ({ ctx, actor, principal, params }) => {
    await dropSession(ctx, actor, reachOf(principal), params.session, 'auth.session_ended');
    return noContent;
  }),
  serve(api.signOut, async ({ ctx, actor, principal, session }) => {
    if (session !== undefined) await dropSession(ctx, actor, reachOf(principal), session.id, 'auth.signed_out');
    return { ...noContent, headers: { 'clear-site-data': '"storage"', 'set-cookie': sessionCookie('', true) } };
  }),
  serve(api.listSigninMethods, async ({ ctx }) => ok(methodsOf(ctx))),
  serve(api.authorizeDevice, async ({ ctx, raw, headers, address }) => {
    const form = readForm(raw, headers['content-type']);
    if (form === undefined) return badForm;
    const answer = await startDevice(ctx, form, address);
    if (!('error' in answer)) return ok(answer);
    return answer.error === 'temporarily_unavailable'
      ? ({ status: 429, body: answer, headers: retryAfter } as const)
      : refused(answer);
  }),
  serve(api.deviceToken, async ({ ctx, raw, headers, requestId }) => {
    const form = readForm(raw, headers['content-type']);
    if (form === undefined) return badForm;
    const answer = await deviceToken(ctx, form, requestId);
    return 'access_token' in answer ? ok(answer) : refused(answer);
  }),
  serve(api.decideDevice, async ({ ctx, actor, principal, body }) => {
    const { userCode, decision } = body;
    if (decision !== undefined)
      return ok({ status: await decideDevice(ctx, actor, principal, { userCode, decision }) });
    const { host, address, expiresAt } = await pendingDevice(ctx, principal, userCode);
    return ok({ status: 'pending' as const, host, address, expiresAt: expiresAt.toISOString() });
  }),
];
