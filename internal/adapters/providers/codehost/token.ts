// An installation's access token: a JSON Web Token signed with the application's key, exchanged at the provider's API.
// The key and the token stay in memory; neither reaches a log, an error or a row.

import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { type Dispatcher, request } from 'undici';
import { answerJson, boundedText } from '../../../base/net/answer.ts';
import { endlessMs, objectAt } from '../../../domain/fields.ts';
import { dispatcherFor } from './guard.ts';
import { isLimit, namedSeconds } from './limit.ts';
import { withoutEnd } from '../../../domain/text.ts';

export interface MintRequest {
  /** Where the provider's API answers; absent: its public one. */
  readonly apiUrl?: string;
  readonly appId: string;
  readonly installationId: string;
  /** PEM. */
  readonly privateKey: string;
  readonly now: Date;
  /** What the token is for; absent: everything that the installation may do. */
  readonly scope?: {
    /** Names without the owner; absent: all that the installation reaches. */
    readonly repositories?: readonly [string, ...string[]];
    readonly permissions: { readonly [permission: string]: 'read' | 'write' };
  };
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

export interface InstallationToken {
  readonly token: string;
  readonly expiresAt: Date;
}

/**
 * Where git reads a repository (`owner/repo`) of the host whose API answers at `apiUrl`: the public one where it is
 * absent, else the host of the API itself.
 */
export function cloneUrl(apiUrl: string | undefined, repository: string): string {
  const path = repository.split('/').map(encodeURIComponent).join('/');
  const origin = apiUrl === undefined ? 'https://github.com' : new URL(apiUrl).origin;
  return `${origin === 'https://api.github.com' ? 'https://github.com' : origin}/${path}.git`;
}

export const publicApiUrl = 'https://api.github.com';
const timeoutMs = 10_000;
export const answerBytes = 64 * 1024;

/** No request could carry another one. */
const tokenPattern = /^[\x21-\x7e]+$/;

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

export function appToken(input: Pick<MintRequest, 'now' | 'appId'>, key: KeyObject): string {
  const seconds = Math.floor(input.now.getTime() / 1000);
  // Issued a minute ago: the provider's clock may be behind ours. Ten minutes is the most it takes.
  const claims = { iat: seconds - 60, exp: seconds + 540, iss: input.appId };
  const head = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`;
  return `${head}.${sign('sha256', Buffer.from(head), key).toString('base64url')}`;
}

/** Why the provider mints none; `inactive`: it says no, and not why. */
export type MintReason =
  | 'credential'
  | 'suspended'
  | 'removed'
  | 'inactive'
  | 'permissions'
  | 'repository'
  | 'limited'
  | 'other';

function reasonOf(status: number, headers: Dispatcher.ResponseData['headers'], answer: string): MintReason {
  if (status === 401) return 'credential';
  if (isLimit(status, headers, answer)) return 'limited';
  if (status === 404) return 'removed';
  if (status === 403) return /suspended/i.test(answer) ? 'suspended' : 'inactive';
  if (status !== 422) return 'other';
  return /permissions requested/i.test(answer) ? 'permissions' : 'repository';
}

/**
 * Asks the provider for a token of one installation. Throws an Error whose message holds no secret; `status` on it is
 * the provider's, absent where it could not be reached, and `seconds` those that it asks to wait.
 */
export async function mintInstallationToken(input: MintRequest): Promise<InstallationToken> {
  let key: KeyObject;
  try {
    key = createPrivateKey(input.privateKey);
  } catch {
    // The cause would quote what it could not parse.
    throw Object.assign(new Error('the private key of the connection is not a PEM key'), { status: 401 });
  }
  // The provider takes an empty list for all repositories of the installation.
  if (input.scope?.repositories?.some((name) => name === '') === true || input.scope?.repositories?.length === 0) {
    throw new Error('a token is for named repositories');
  }
  const apiUrl = withoutEnd(input.apiUrl ?? publicApiUrl, '/');
  const url = `${apiUrl}/app/installations/${encodeURIComponent(input.installationId)}/access_tokens`;
  const { statusCode, headers, body } = await request(url, {
    method: 'POST',
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${appToken(input, key)}`,
      'user-agent': 'svc',
      'x-github-api-version': '2022-11-28',
      ...(input.scope !== undefined && { 'content-type': 'application/json' }),
    },
    ...(input.scope !== undefined && {
      body: JSON.stringify({
        repositories: input.scope.repositories,
        permissions: input.scope.permissions,
      }),
    }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    // Others wait for this token: an answer that trickles is never silent.
    signal: AbortSignal.timeout(2 * timeoutMs),
    dispatcher: dispatcherFor(new URL(url), input.allowPrivate),
  });
  const answer = await boundedText(body, answerBytes);
  if (statusCode !== 201) {
    throw Object.assign(new Error(`the provider refused an installation token with ${statusCode}`), {
      status: statusCode,
      reason: reasonOf(statusCode, headers, answer),
      seconds: namedSeconds(headers),
    });
  }
  // What is no JSON is told as that: its reader's own words would repeat its beginning, which may be a token.
  const { token, expires_at: expiresAt } = objectAt(answerJson(Buffer.from(answer)));
  const until = typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN;
  if (typeof token !== 'string' || !tokenPattern.test(token) || !(until > 0 && until < endlessMs)) {
    throw new Error('the provider answered without a token');
  }
  return { token, expiresAt: new Date(until) };
}
