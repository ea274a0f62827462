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
import { requireOwnOrigin, requireOwnHost, sessionCookie, sessionCookieOf } from '../session.ts';
import { created, noContent, ok, type Principal, type Route, serve } from '../route.ts';

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
  serve(api.listWebSessions, async ({ ctx, principal, session }) => {
    const rows = await listOwnSessions(ctx, reachOf(principal));
    const items = rows.map(({ createdAt, lastUsedAt, expiresAt, ...row }) => ({
      ...row,
      ...{ createdAt: createdAt.toISOString(), lastUsedAt: lastUsedAt.toISOString() },
      ...{ expiresAt: expiresAt.toISOString(), current: row.id === session?.id },
    }));
    return ok({ items, nextCursor: null });
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
    return 'error' in answer ? refused(answer) : ok(answer);
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
