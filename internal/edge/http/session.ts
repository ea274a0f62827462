// A browser's request: its cookie, the key beside it, and where it comes from. The cookie alone opens nothing: another
// port of this machine gets it too, which has neither the key nor this origin.

import type { FlowContext } from '../../flows/context.ts';
import { Fault } from '../../domain/fault.ts';
import { isLoopback } from '../../domain/loopback.ts';
import { HttpFault } from './problem.ts';

type Headers = { readonly [name: string]: string | undefined };
type Base = Pick<FlowContext, 'baseUrl'>;

export const sessionCookieName = '__Host-svc-session';
export const keyHeader = 'x-svc-key';

/** Set-Cookie for a session, or for its end. */
export const sessionCookie = (value: string, ends = false): string =>
  `${sessionCookieName}=${value}; Path=/; Secure; HttpOnly; SameSite=Lax${ends ? '; Max-Age=0' : ''}`;

/** The value of one cookie; undefined where it is absent or said more than once. */
export function cookieOf(headers: Headers, name: string): string | undefined {
  const found = (headers['cookie'] ?? '').split(';').flatMap((part) => {
    const [key, ...rest] = part.trim().split('=');
    return key === name ? [rest.join('=')] : [];
  });
  return found.length === 1 && found[0] !== '' ? found[0] : undefined;
}

export const sessionCookieOf = (headers: Headers): string | undefined => cookieOf(headers, sessionCookieName);

/** Cookies are taken under the base address's name or a loopback one: any other may have been made to lead here. */
export function requireOwnHost(ctx: Base, headers: Headers): void {
  const host = headers['host'] ?? '';
  if (host.toLowerCase() === new URL(ctx.baseUrl).host || isLoopback(host.replace(/:\d{1,5}$/, ''))) return;
  throw new HttpFault(421, 'misdirected', 'A browser asks for this service under its own address, SVC_BASE_URL.');
}

/** What a browser changes, a page of this service asked it to. */
export function requireOwnOrigin(ctx: Base, headers: Headers): void {
  if (headers['origin'] === new URL(ctx.baseUrl).origin) return;
  throw new Fault('forbidden', 'cross-origin', 'A change by a browser has to come from a page of this service.');
}
