// The code host's OAuth 2 with PKCE: a person is its numeric id, groups are its organizations (`acme`) and teams (`acme/dev`).

import { timingSafeEqual } from 'node:crypto';
import { sha256Bytes } from '../../../base/hash.ts';
import { request } from 'undici';
import type { GithubMethod } from '../../../base/config/signin-settings.ts';
import { boundedText } from '../../../base/net/answer.ts';
import { parseJson } from '../../../domain/json-text.ts';
import { isName, nameOf, type Person, type Proof, type Refreshed, SigninRefused } from './person.ts';
import { withoutEnd } from '../../../domain/text.ts';

/** `wholeMs`: of all of a call, for an answer that trickles is never silent. */
const timeouts = { silentMs: 10_000, wholeMs: 20_000 } as const;
const answerBytesMax = 1_048_576;
const pages = { most: 10, size: 100 } as const;

export async function githubAuthorization(method: GithubMethod, proof: Proof): Promise<string> {
  const url = new URL(`${withoutEnd(method.baseUrl, '/')}/login/oauth/authorize`);
  const challenge = sha256Bytes(proof.verifier).toString('base64url');
  url.search = new URLSearchParams({
    client_id: method.clientId,
    redirect_uri: proof.redirectUri,
    scope: 'read:org',
    state: proof.state,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  }).toString();
  return url.href;
}

interface Sent {
  readonly method: 'GET' | 'POST';
  readonly step: string;
  readonly token?: string;
  readonly form?: { readonly [name: string]: string };
}

async function json(address: string, { method, step, token, form }: Sent): Promise<unknown> {
  try {
    const answer = await request(address, {
      method,
      headersTimeout: timeouts.silentMs,
      bodyTimeout: timeouts.silentMs,
      signal: AbortSignal.timeout(timeouts.wholeMs),
      headers: {
        accept: 'application/json',
        'user-agent': 'svc',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(form !== undefined && { body: new URLSearchParams(form).toString() }),
    });
    const text = await boundedText(answer.body, answerBytesMax);
    if (answer.statusCode !== 200) throw new SigninRefused(step);
    return parseJson(text);
  } catch (error) {
    throw new SigninRefused(isUnsent(error) ? unreachable : step);
  }
}

const unreachable = 'unreachable';
/** Nobody was there to hear it. */
const isUnsent = (error: unknown): boolean =>
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/.test(String((error as { code?: unknown }).code ?? ''));

async function list(address: string, token: string, step: string): Promise<{ readonly [key: string]: unknown }[]> {
  const all: { readonly [key: string]: unknown }[] = [];
  for (let page = 1; page <= pages.most; page += 1) {
    const rows = await json(`${address}?per_page=${pages.size}&page=${page}`, { method: 'GET', step, token });
    if (!Array.isArray(rows)) throw new SigninRefused(step);
    // What is no row says nothing of anybody, and a page has no more than was asked for.
    const told = rows.slice(0, pages.size).filter((row) => typeof row === 'object' && row !== null);
    all.push(...(told as { readonly [key: string]: unknown }[]));
    if (rows.length < pages.size) break;
  }
  return all;
}

const sameText = (given: string | null, wanted: string): boolean =>
  given !== null && given.length === wanted.length && timingSafeEqual(Buffer.from(given), Buffer.from(wanted));

export async function githubPerson(
  method: GithubMethod,
  secret: string,
  proof: Proof,
  search: string,
): Promise<Person> {
  const query = new URLSearchParams(search);
  const [code] = query.getAll('code');
  if (!sameText(query.get('state'), proof.state)) throw new SigninRefused('state');
  if (code === undefined || query.getAll('code').length > 1) throw new SigninRefused('code');
  const base = withoutEnd(method.baseUrl, '/');
  const api = withoutEnd(method.apiUrl, '/');
  const form = { client_id: method.clientId, client_secret: secret, code, redirect_uri: proof.redirectUri };
  const given = await json(`${base}/login/oauth/access_token`, {
    method: 'POST',
    step: 'exchange',
    form: { ...form, code_verifier: proof.verifier },
  });
  const { token, refreshToken } = tokensIn(given);
  if (token === undefined) throw new SigninRefused('exchange');
  const user = Object(await json(`${api}/user`, { method: 'GET', step: 'user', token })) as { [key: string]: unknown };
  if (typeof user['id'] !== 'number' || !Number.isSafeInteger(user['id'])) throw new SigninRefused('user');
  const groups = await groupsOf(method, api, token);
  const name = nameOf(user['name'], user['login']);
  const person = { issuer: base, subject: String(user['id']), name, groups };
  return refreshToken === undefined ? person : { ...person, refreshToken };
}

function tokensIn(given: unknown): { readonly token: string | undefined; readonly refreshToken: string | undefined } {
  const { access_token: token, refresh_token: refreshToken } = Object(given) as { [key: string]: unknown };
  return {
    token: typeof token === 'string' ? token : undefined,
    refreshToken: typeof refreshToken === 'string' ? refreshToken : undefined,
  };
}

async function groupsOf(method: GithubMethod, api: string, token: string): Promise<string[]> {
  const orgs = (await list(`${api}/user/orgs`, token, 'organizations')).flatMap(({ login }) =>
    isName(login) ? [login] : [],
  );
  const { allowOrgs } = method;
  if (allowOrgs !== undefined && !orgs.some((org) => allowOrgs.includes(org))) throw new SigninRefused('organization');
  const teams = (await list(`${api}/user/teams`, token, 'teams')).flatMap(({ slug, organization }) => {
    const owner = (organization as { login?: unknown } | null | undefined)?.login;
    return isName(slug) && isName(owner) ? [`${owner}/${slug}`] : [];
  });
  return [...orgs, ...teams];
}

/** Of an app whose users' tokens expire. Throws SigninRefused where the token was not sent: it may be sent later. */
export async function githubRefreshed(
  method: GithubMethod,
  secret: string,
  of: { readonly refreshToken: string },
): Promise<Refreshed> {
  const form = { client_id: method.clientId, client_secret: secret, grant_type: 'refresh_token' };
  const base = withoutEnd(method.baseUrl, '/');
  let renewed: string | undefined;
  try {
    const given = await json(`${base}/login/oauth/access_token`, {
      method: 'POST',
      step: 'refresh',
      form: { ...form, refresh_token: of.refreshToken },
    });
    const { token, refreshToken } = tokensIn(given);
    if (token === undefined) return { outcome: 'refused' };
    renewed = refreshToken ?? of.refreshToken;
    const groups = await groupsOf(method, withoutEnd(method.apiUrl, '/'), token);
    return { outcome: 'done', groups, refreshToken: renewed };
  } catch (error) {
    if (!(error instanceof SigninRefused)) throw error;
    if (error.step === 'organization') return { outcome: 'refused' };
    if (renewed !== undefined) return { outcome: 'renewed', refreshToken: renewed };
    if (error.step === unreachable) throw error;
    return { outcome: 'unknown' };
  }
}
