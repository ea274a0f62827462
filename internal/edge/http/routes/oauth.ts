// Where browsers and authorization servers come (docs/reference/connections.md#connections): the callback, which says nothing of what it was
// given, the page of whatever went wrong, which is always the same, and who the service is.

import { createHash } from 'node:crypto';
import * as api from '../../../../schemas/api/connections.ts';
import { clientDocumentUrl, redirectUri, takeConsent } from '../../../flows/connections/connections.ts';
import { signedIn } from '../../../flows/signin/signin.ts';
import { resolveAccess, TokenFault } from '../../../flows/tenancy/tenancy.ts';
import { pageHeaders } from '../../../base/net/page-headers.ts';
import { Fault } from '../../../domain/fault.ts';
import { bearer } from '../call.ts';
import { type Call, type Route, serve } from '../route.ts';
import { sessionCookieOf } from '../session.ts';

/** As the pages of the console look; it stands in the page, whose policy names its hash. */
const style =
  ':root{color-scheme:light dark}body{margin:0;font:15px/1.5 system-ui,sans-serif;color:light-dark(#1b1f24,#e6e9ee);background:light-dark(#fff,#14171b)}main{padding:.75rem 1rem 2rem;max-width:32rem;margin:10vh auto 0}h1{font-size:1.4rem;margin:0 0 .75rem}a{color:light-dark(#0b57b8,#82b4ff)}';
const styleHash = createHash('sha256').update(style).digest('base64');
/** Of the page and of the ways there. */
const headersOf = ({ ctx }: Pick<Call, 'ctx'>): { readonly [name: string]: string } =>
  pageHeaders(new URL(ctx.baseUrl), [`style-src 'sha256-${styleHash}'`]);
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not connected · svc</title>
<style>${style}</style>
<main data-testid="error-page">
<h1>Not connected</h1>
<p>The consent was not completed. Nothing more is known to this page. Begin again where you began, on the connections page
or with <code>svc connect</code>.</p>
<p><a href="/">To the start</a></p>
</main>
</html>
`;

/**
 * Whose credential came along: undefined where none did, null where it is nobody's. A cookie is looked at where no token is
 * sent, as on every call; one of a session that has ended is none, since a browser keeps it and sends it to other ports too.
 */
async function senderOf({ ctx, headers: sent }: Pick<Call, 'ctx' | 'headers'>): Promise<string | null | undefined> {
  const { authorization } = sent;
  if (authorization === undefined) return (await signedIn(ctx, sessionCookieOf(sent)))?.principalId;
  try {
    return (await resolveAccess(ctx, bearer(authorization), {})).principal.id;
  } catch (error) {
    if (error instanceof TokenFault) return null;
    throw error;
  }
}

function parametersOf(query: { readonly [name: string]: unknown }): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, values] of Object.entries(query)) {
    for (const value of [values].flat()) if (typeof value === 'string') parameters.append(name, value);
  }
  return parameters;
}

export const oauthRoutes: readonly Route[] = [
  serve(api.takeConsentCallback, async (call) => {
    const arrival = await takeConsent(call.ctx, parametersOf(call.query), await senderOf(call));
    const of = (text: string): string => encodeURIComponent(text);
    const location =
      arrival.kind === 'error'
        ? '/oauth/error'
        : `/${of(arrival.orgSlug)}/${of(arrival.projectSlug)}/connections?${
            arrival.kind === 'done'
              ? `connectionOAuth=success&provider=${of(arrival.provider)}`
              : `oauthAttempt=${of(arrival.attemptId)}`
          }`;
    return { status: 303 as const, headers: { ...headersOf(call), location } };
  }),
  serve(api.showConsentError, async (call) => ({
    status: 200 as const,
    contentType: 'text/html; charset=utf-8',
    headers: headersOf(call),
    body: page,
  })),
  serve(api.clientMetadata, async ({ ctx }) => {
    const id = clientDocumentUrl(ctx);
    if (id === undefined) throw new Fault('not_found', 'not-found', 'There is no such resource.');
    return {
      status: 200 as const,
      headers: { 'cache-control': 'public, max-age=3600' },
      body: {
        client_id: id,
        client_name: 'svc',
        redirect_uris: [redirectUri(ctx)],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none' as const,
        application_type: 'web' as const,
      },
    };
  }),
];
