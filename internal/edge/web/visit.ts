// One request of a browser for a page, and the answers that pages share.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FlowContext } from '../../flows/context.ts';
import type { Assets } from './assets.ts';

export interface Visit {
  readonly ctx: FlowContext;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  /** At the base's origin. */
  readonly url: URL;
  readonly base: URL;
  readonly assets: Assets;
}

export const sessionCookieName = '__Host-svc-session';
export const signinCookieName = '__Host-svc-signin';

/** Set-Cookie of a value, for as long as the browser runs, or for `seconds`; 0 ends it. */
export const setCookie = (name: string, value: string, seconds?: number): string =>
  `${name}=${value}; Path=/; Secure; HttpOnly; SameSite=Lax${seconds === undefined ? '' : `; Max-Age=${seconds}`}`;

/** The value of one cookie; undefined where it is absent or said more than once. */
export function cookieOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const found = (headers.cookie ?? '').split(';').flatMap((part) => {
    const [key, ...rest] = part.trim().split('=');
    return key === name ? [rest.join('=')] : [];
  });
  const [value] = found;
  return found.length === 1 && value !== undefined && /^[A-Za-z0-9_-]{43}$/.test(value) ? value : undefined;
}

export function seeOther(
  visit: Visit,
  location: string,
  headers: { readonly [name: string]: string | string[] } = {},
  status = 303,
): void {
  visit.response.writeHead(status, { ...headers, location, 'content-length': '0' });
  visit.response.end();
}

/** Sends a page; nothing of it is kept by the browser. */
export function sendHtml(
  visit: Visit,
  status: number,
  html: string,
  headers: { readonly [name: string]: string | string[] } = {},
): void {
  const bytes = Buffer.from(html);
  visit.response.writeHead(status, {
    ...headers,
    'content-type': 'text/html; charset=utf-8',
    'content-length': String(bytes.length),
  });
  visit.response.end(visit.request.method === 'HEAD' ? undefined : bytes);
}

/** A page of this service to go on to, `/` for whatever is none. */
export function nextPage(next: string | null, base: URL, isPage: (path: string) => boolean): string {
  if (next === null || !/^\/(?![/\\])[\x21-\x7e]*$/.test(next) || !URL.canParse(next, base.origin)) return '/';
  const url = new URL(next, base.origin);
  return url.origin === base.origin && isPage(url.pathname) ? `${url.pathname}${url.search}${url.hash}` : '/';
}
