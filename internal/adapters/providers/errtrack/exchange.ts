// The three calls that change something at the provider, each sent once: a code against tokens, tokens against new ones,
// and the confirmation of an installation. A refusal is known only where the provider can have done nothing; an error
// of its own, a lost or unreadable answer, and a slow refusal (it gives those for healthy installations too) are unknown.

import { endlessMs, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json } from '../../../domain/json.ts';
import { type ErrtrackAnswer, call, type ErrtrackSettings, jsonOf, limitSecondsOf } from './request.ts';

export type Exchanged =
  | {
      readonly outcome: 'done';
      readonly token: string;
      readonly refreshToken: string;
      readonly expiresAt: Date;
    }
  | { readonly outcome: 'refused'; readonly status: number }
  /** Too many callers, or not the application's secret: nothing was done, and what was sent is as good as before. */
  | { readonly outcome: 'limited'; readonly seconds: number | undefined }
  | { readonly outcome: 'client-refused' }
  | { readonly outcome: 'unknown' };
export type Confirmed =
  | { readonly outcome: 'done' }
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'unknown' };

const slowMs = 10_000;
const tokenMax = 4_096;

const installationUrl = (settings: ErrtrackSettings, installationId: string): string =>
  new URL(`/api/0/sentry-app-installations/${encodeURIComponent(installationId)}/`, settings.baseUrl).href;

/** Exchanges the code of a consent. */
export const exchangeCode = (
  settings: ErrtrackSettings,
  secret: string,
  at: { readonly installationId: string; readonly code: string },
): Promise<Exchanged> =>
  grant(settings, secret, at.installationId, { grant_type: 'authorization_code', code: at.code });

/** Exchanges a refresh token; the pair before is dead from then on. */
export const refreshTokens = (
  settings: ErrtrackSettings,
  secret: string,
  at: { readonly installationId: string; readonly refreshToken: string },
): Promise<Exchanged> =>
  grant(settings, secret, at.installationId, { grant_type: 'refresh_token', refresh_token: at.refreshToken });

async function grant(
  settings: ErrtrackSettings,
  secret: string,
  installationId: string,
  body: { readonly [key: string]: string },
): Promise<Exchanged> {
  let answer: ErrtrackAnswer;
  try {
    answer = await call(settings, `${installationUrl(settings, installationId)}authorizations/`, {
      method: 'POST',
      body: { ...body, client_id: settings.clientId, client_secret: secret },
    });
  } catch {
    // The cause may hold what was sent, and whatever it says, the provider may have done its part.
    return { outcome: 'unknown' };
  }
  if (answer.status === 429) return { outcome: 'limited', seconds: limitSecondsOf(answer) };
  if (isRefusal(answer))
    return ofClient(answer) ? { outcome: 'client-refused' } : { outcome: 'refused', status: answer.status };
  if (answer.status !== 201 && answer.status !== 200) return { outcome: 'unknown' };
  const { token, refreshToken, expiresAt } = objectAt(jsonOf(answer.text) as Json);
  const until = typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN;
  if (!isToken(token) || !isToken(refreshToken) || Number.isNaN(until)) return { outcome: 'unknown' };
  // The pair is there once: of a time that no row keeps, what can be kept, so that it is not lost for it.
  return { outcome: 'done', token, refreshToken, expiresAt: new Date(Math.min(Math.max(until, 0), endlessMs - 1)) };
}

const isToken = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= tokenMax && /^[\x21-\x7e]+$/.test(value);

const isRefusal = ({ status, ms }: ErrtrackAnswer): boolean =>
  status >= 400 && status < 500 && status !== 408 && ms < slowMs;

/** It looks at what it was sent behind who sends it. */
function ofClient({ status, text }: ErrtrackAnswer): boolean {
  const { detail, error } = objectAt(jsonOf(text) as Json);
  return status === 401 && /^invalid client id/i.test(textAt(detail) ?? textAt(error) ?? '');
}

/** Says to the provider that the installation is taken up. */
export async function confirmInstallation(
  settings: ErrtrackSettings,
  at: { readonly installationId: string; readonly token: string },
): Promise<Confirmed> {
  try {
    const answer = await call(settings, installationUrl(settings, at.installationId), {
      method: 'PUT',
      headers: { authorization: `Bearer ${at.token}` },
      body: { status: 'installed' },
    });
    if (answer.status === 200) return { outcome: 'done' };
    return isRefusal(answer) ? { outcome: 'refused' } : { outcome: 'unknown' };
  } catch {
    return { outcome: 'unknown' };
  }
}
