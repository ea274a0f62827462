// The pages of the service: the console's shell, sign-in, the device page, the browser's callbacks and their error pages.
// Decides which page an address names, whether its browser may have it, and with which headers. Holds no data of a page:
// its modules read that from the API, as the command line does. Never shows, stores or forwards a code, a state or a token;
// what a callback was given stays in its own request.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FlowContext } from '../../flows/context.ts';
import { signedIn } from '../../flows/signin/signin.ts';
import { sessionSees } from '../../flows/tenancy/tenancy.ts';
import { pageHeaders } from '../../base/net/page-headers.ts';
import { Fault } from '../../domain/fault.ts';
import { isLoopback } from '../../domain/loopback.ts';
import { isReservedSlug } from '../../domain/slug.ts';
import { withoutEnd } from '../../domain/text.ts';
import { type Assets, createAssets } from './assets.ts';
import type { DocsSite } from './docs.ts';
import { errtrackCallback, signinBegin, signinCallback, signinNoRole } from './callbacks.ts';
import { cookieOf, nextPage, seeOther, sessionCookieName, type Visit } from './visit.ts';
import { devicePage, errorPage, messagePage, shellPage, signinPage } from './pages.ts';

export interface WebRoom {
  /** Whether the path of an address is a page's or an asset's. */
  takes(path: string): boolean;
  /** Answers a GET or HEAD of such an address. */
  handle(request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void>;
}

/** What a page of a project may be called (the console's map). */
export const projectPages: readonly string[] = [
  ...[
    'overview',
    'repositories',
    'reconciles',
    'agents',
    'triggers',
    'events',
    'sessions',
    'schedules',
    'spend',
    'connections',
  ],
  ...['bindings', 'endpoints', 'secrets', 'audit', 'doctor', 'members', 'tokens', 'settings'],
];
const withoutDetail: readonly string[] = ['overview', 'spend', 'audit', 'doctor', 'members', 'tokens', 'settings'];
const slug = '[a-z0-9][a-z0-9-]{0,62}';
const projectPath = new RegExp(`^/(${slug})/(${slug})(?:/([a-z]+)(?:/([^/]+))?)?$`);
const fixed = [
  /^\/$/,
  /^\/signin$/,
  /^\/device$/,
  /^\/signin\/[^/]+$/,
  /^\/signin\/callback\/[^/]+$/,
  /^\/assets\//,
  /^\/docs(\/|$)/,
  /^\/connections\/errtrack\/(callback|error)$/,
];

const projectOf = (path: string): RegExpExecArray | undefined => {
  const found = projectPath.exec(path);
  return found === null || isReservedSlug(found[1] ?? '') ? undefined : found;
};

/** Whether a path is one that somebody may be sent back to after signing in. */
export function isPage(path: string): boolean {
  if (path === '/' || path === '/device') return true;
  const [, , , page, id] = projectOf(path) ?? [];
  if (projectOf(path) === undefined) return false;
  return page === undefined || (projectPages.includes(page) && (id === undefined || !withoutDetail.includes(page)));
}

/** Of the path of a page with a slash too many at its end, the page's. */
function withoutSlash(path: string): string | undefined {
  const page = withoutEnd(path, '/');
  return page !== path && path !== '/' && (page === '/signin' || isPage(page)) ? page : undefined;
}

const hostName = (host: string): string => host.replace(/:\d{1,5}$/, '');

export function createWebRoom(ctx: () => FlowContext): WebRoom {
  let assets: Assets | undefined;
  return {
    // Before it is known where the service listens there is no page.
    takes: (path) =>
      ctx().baseUrl !== '' &&
      (fixed.some((one) => one.test(path)) || projectOf(path) !== undefined || withoutSlash(path) !== undefined),
    async handle(request, response, requestId) {
      const context = ctx();
      assets ??= createAssets();
      const base = new URL(context.baseUrl);
      const url = new URL(`${base.origin}${(request.url ?? '/').replace(/^\/+/, '/')}`);
      const visit: Visit = { ctx: context, request, response, requestId, url, base, assets };
      for (const [name, value] of Object.entries(securityHeaders(assets, base))) response.setHeader(name, value);
      response.setHeader('x-request-id', requestId);
      try {
        await answer(visit);
      } catch (error) {
        const isAway = error instanceof Fault && error.kind === 'unavailable';
        if (!isAway) context.runtime.log.error({ err: error, requestId, route: 'web' }, 'http.failed');
        if (response.headersSent) response.destroy();
        else errorPage(visit, isAway ? 503 : 500);
      }
    },
  };
}

/** Read at the first visit, once a process: the files are part of the program. */
let docs: DocsSite | undefined;

async function answer(visit: Visit): Promise<void> {
  const { url, request, base, ctx } = visit;
  const path = url.pathname;
  const host = request.headers.host ?? '';
  if (host.toLowerCase() !== base.host) {
    const isLocal = isLoopback(hostName(host));
    if (!isLocal) return messagePage(visit, 421, 'This address is not the service’s own', [`Open ${base.origin}/`]);
    // A code that came under another name does not go on: its browser has no session there.
    if (/\/callback(\/|$)/.test(path)) return seeOther(visit, errorPathOf(path));
    return seeOther(visit, `${base.origin}${path}${url.search}`, {}, 307);
  }
  const typed = withoutSlash(path);
  if (typed !== undefined) return seeOther(visit, `${typed}${url.search}`, {}, 308);
  if (path.startsWith('/assets/')) return visit.assets.send(visit);
  if (path === '/docs' || path.startsWith('/docs/')) {
    const { createDocs } = await import('./docs.ts');
    return (docs ??= createDocs()).send(visit);
  }
  if (path === '/signin') {
    // What is no page of this service is dropped here, for every way in: its page goes on to what the address says.
    const asked = url.searchParams.get('next');
    const next = nextOf(visit);
    const kept = next === '/' ? '' : `?next=${encodeURIComponent(next)}`;
    if (asked !== null && asked !== next) return seeOther(visit, `/signin${kept}`);
    return signinPage(visit);
  }
  if (path === '/signin/error' || path === '/connections/errtrack/error') return errorPage(visit, 200);
  if (path === '/signin/no-role') return signinNoRole(visit);
  if (path === '/connections/errtrack/callback') return errtrackCallback(visit);
  const callback = /^\/signin\/callback\/([^/]+)$/.exec(path);
  if (callback !== null) return signinCallback(visit, callback[1] ?? '');
  const method = /^\/signin\/([^/]+)$/.exec(path);
  if (method !== null) return signinBegin(visit, method[1] ?? '', nextOf(visit));
  return page(visit, path, ctx);
}

const errorPathOf = (path: string): string =>
  path.startsWith('/signin/') ? '/signin/error' : '/connections/errtrack/error';

/** Where to go after signing in, as the address says it. */
const nextOf = (visit: Visit): string => nextPage(visit.url.searchParams.get('next'), visit.base, isPage);

async function page(visit: Visit, path: string, ctx: FlowContext): Promise<void> {
  const found = projectOf(path);
  const legacy = found?.[3] === 'connections' && found[4] === 'errtrack';
  if (legacy) {
    const attempt = visit.url.searchParams.get('attempt') ?? '';
    const isAttempt = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(attempt);
    const query = isAttempt ? `?errtrackAttempt=${attempt.toLowerCase()}` : '';
    return seeOther(visit, `/${found[1]}/${found[2]}/connections${query}`);
  }
  if (!isPage(path)) return errorPage(visit, 404);
  const session = await signedIn(ctx, cookieOf(visit.request.headers, sessionCookieName));
  if (session === undefined) {
    const { search } = visit.url;
    const wanted = nextPage(`${path}${search}`, visit.base, isPage);
    return seeOther(visit, `/signin?next=${encodeURIComponent(wanted)}`);
  }
  if (path === '/device') return devicePage(visit);
  const isSeen =
    found === undefined || (await sessionSees(ctx, session.id, { org: found[1] ?? '', project: found[2] ?? '' }));
  if (!isSeen) return errorPage(visit, 404);
  const [, org, project, page = 'overview'] = found ?? [];
  const isOverview = found !== undefined && page === 'overview';
  return shellPage(visit, isOverview ? `/api/v1/orgs/${org}/projects/${project}/overview` : undefined);
}

// The headers of every page and asset. Script comes from this service alone, and inline there is the import map, whose
// hash the policy names.
const securityHeaders = (assets: Assets, base: URL): { readonly [name: string]: string } =>
  pageHeaders(base, [
    `script-src 'self' '${assets.importMapHash}'`,
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
  ]);
