// What the code host says of an installation to its application. The key stays in memory.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { request } from 'undici';
import { dispatcherFor } from './guard.ts';
import { appToken, bounded, type MintRequest, publicApiUrl } from './token.ts';

export type InstallationWord = 'active' | 'suspended' | 'removed' | 'credential-refused' | 'unavailable';

/** Reads the installation; never throws for what the provider answers or does not. */
export async function readInstallationState(input: Omit<MintRequest, 'scope'>): Promise<InstallationWord> {
  let key: KeyObject;
  try {
    key = createPrivateKey(input.privateKey);
  } catch {
    return 'credential-refused';
  }
  const url = `${(input.apiUrl ?? publicApiUrl).replace(/\/+$/, '')}/app/installations/${encodeURIComponent(input.installationId)}`;
  try {
    const { statusCode, body } = await request(url, {
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${appToken(input, key)}`,
        'user-agent': 'svc',
        'x-github-api-version': '2022-11-28',
      },
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
      dispatcher: dispatcherFor(new URL(url), input.allowPrivate),
    });
    const answer = await bounded(body);
    if (statusCode === 401) return 'credential-refused';
    if (statusCode === 404) return 'removed';
    if (statusCode !== 200) return 'unavailable';
    const { suspended_at: suspendedAt } = Object(JSON.parse(answer)) as { readonly suspended_at?: unknown };
    return typeof suspendedAt === 'string' ? 'suspended' : 'active';
  } catch {
    return 'unavailable';
  }
}
