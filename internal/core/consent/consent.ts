// Consent as state machines: an attempt of a person, and the grant that it gives. Which state follows which step, when an
// attempt is over, which scopes are asked for, and which addresses a token may be shown to. Reads no clock, asks nobody and
// stores nothing; that a code is exchanged once, and a token refreshed by one owner, are rows of their writers.

import { withoutEnd } from '../../domain/text.ts';

export const attemptStates = [
  'awaiting_authorization',
  'exchanging',
  'completed',
  'failed',
  'uncertain',
  'expired',
  'cancelled',
] as const;
export type AttemptState = (typeof attemptStates)[number];

export const attemptSteps = [
  /** The browser came back with a code, and its hash is claimed. */
  'claim',
  'published',
  /** The server or the person refused, or the answer is not that of this server. */
  'refused',
  /** The code was sent and no answer came. */
  'unknown',
  'cancel',
  'expire',
] as const;
export type AttemptStep = (typeof attemptSteps)[number];

export const grantStates = ['ready', 'refreshing', 'uncertain', 'ended'] as const;
export type GrantState = (typeof grantStates)[number];
export const grantSteps = [
  'refresh',
  'refreshed',
  /** The owner is gone, or could not send. */
  'unsent',
  /** Sent, and no answer came. */
  'unknown',
  /** The server does not take the refresh token any more, or there is none. */
  'refused',
  'consent',
] as const;
export type GrantStep = (typeof grantSteps)[number];

type Table<State extends string, Step extends string> = {
  readonly [state in State]: { readonly [step in Step]?: State };
};
const attempts: Table<AttemptState, AttemptStep> = {
  awaiting_authorization: { claim: 'exchanging', refused: 'failed', cancel: 'cancelled', expire: 'expired' },
  // Not to be cancelled: what it gives may be published at any moment.
  exchanging: { published: 'completed', refused: 'failed', unknown: 'uncertain' },
  completed: {},
  failed: {},
  uncertain: {},
  expired: {},
  cancelled: {},
};
const grants: Table<GrantState, GrantStep> = {
  ready: { refresh: 'refreshing', refused: 'ended', consent: 'ready' },
  refreshing: { refreshed: 'ready', unsent: 'ready', unknown: 'uncertain', refused: 'ended', consent: 'ready' },
  // Nobody knows whether the refresh token is spent: a person consents again.
  uncertain: { consent: 'ready' },
  ended: { consent: 'ready' },
};

/** The state after a step, null where the state does not take it. */
export const after = (state: AttemptState, step: AttemptStep): AttemptState | null => attempts[state][step] ?? null;
export const grantAfter = (state: GrantState, step: GrantStep): GrantState | null => grants[state][step] ?? null;

const print = <State extends string, Step extends string>(table: Table<State, Step>, steps: readonly Step[]): string =>
  Object.entries<{ readonly [step in Step]?: State }>(table)
    .map(([state, row]) => {
      const taken = steps.flatMap((step) => (row[step] === undefined ? [] : [`${step} → ${row[step]}`]));
      return `${state}: ${taken.length === 0 ? 'the end' : taken.join(', ')}`;
    })
    .join('\n');
/** Both tables as text, a line for each state. */
export const printTables = (): string => `${print(attempts, attemptSteps)}\n\n${print(grants, grantSteps)}`;

/** Fifteen minutes for the person. */
export const attemptMs = 900_000;
/** Further consents that servers may ask for by their answers, after the one of a person's own choice. */
export const scopeRoundsMax = 2;

/** What a stored state is worth at a time. */
export function attemptAt(
  at: { readonly state: AttemptState; readonly expiresAt: Date; readonly exchangeUntil: Date | null },
  now: Date,
): AttemptState {
  if (at.state === 'awaiting_authorization' && now >= at.expiresAt) return 'expired';
  // Whoever claimed the code is gone; whether it was sent, and what it gave, nobody knows.
  if (at.state === 'exchanging' && at.exchangeUntil !== null && now >= at.exchangeUntil) return 'uncertain';
  return at.state;
}

/** When a token of that life is to be replaced, and when it ends; null where the server does not say. */
export function lifeOf(
  expiresInSeconds: number | undefined,
  now: Date,
): { readonly refreshAt: Date | null; readonly expiresAt: Date | null } {
  if (expiresInSeconds === undefined) return { refreshAt: null, expiresAt: null };
  const ms = Math.min(expiresInSeconds, 10 * 365 * 86_400) * 1_000;
  return { refreshAt: new Date(now.getTime() + ms * 0.8), expiresAt: new Date(now.getTime() + ms) };
}

const scope = /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/;
/** The scopes of a text, as RFC 6749 writes them; what is none of them is passed over. */
export const scopesIn = (text: string | undefined): string[] =>
  unionOf((text ?? '').split(' ').filter((one) => scope.test(one)));
/** Each scope once, in the order of their first mention; at most 100. */
export const unionOf = (...lists: readonly (readonly string[])[]): string[] => [...new Set(lists.flat())].slice(0, 100);

/**
 * What a server's `insufficient_scope` leads to: the union to consent to, or null where another consent would change
 * nothing or there were enough of them.
 */
export function stepUp(
  grant: { readonly scopes: readonly string[]; readonly wanted: readonly string[]; readonly rounds: number },
  challenged: readonly string[],
): string[] | null {
  const union = unionOf(grant.scopes, grant.wanted, challenged);
  if (challenged.every((one) => grant.scopes.includes(one))) return null;
  return grant.rounds >= scopeRoundsMax ? null : union;
}

/** The parameters of a `Bearer` challenge (RFC 6750, RFC 9728). */
export function challengeOf(header: string | undefined): {
  readonly error?: string;
  readonly scopes: readonly string[];
  readonly resourceMetadata?: string;
} {
  const text = (header ?? '').slice(0, 8_192);
  if (!/(^|,)\s*Bearer\b/i.test(text)) return { scopes: [] };
  const read = (name: string): string | undefined => {
    const found = new RegExp(`[\\s,]${name}\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s,"]+))`, 'i').exec(text);
    return found === null ? undefined : (found[1]?.replaceAll(/\\(.)/g, '$1') ?? found[2]);
  };
  const [error, resourceMetadata] = [read('error'), read('resource_metadata')];
  return {
    scopes: scopesIn(read('scope')),
    ...(error !== undefined && { error }),
    ...(resourceMetadata !== undefined && { resourceMetadata }),
  };
}

/** Whether an address lies at or below a resource: the same origin, and the resource's path or one below it. */
export function isWithin(resource: string, address: string): boolean {
  const [of, at] = [URL.parse(resource), URL.parse(address)];
  if (of === null || at === null || of.origin !== at.origin || of.origin === 'null') return false;
  const path = withoutEnd(of.pathname, '/');
  return at.pathname === of.pathname || at.pathname === path || at.pathname.startsWith(`${path}/`);
}
