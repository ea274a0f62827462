// The status of a commit as the code host shows it. Idempotent there: a later one of the same context takes its place.

import { request } from 'undici';
import { dispatcherFor } from './guard.ts';
import { publicApiUrl } from './token.ts';

export interface CommitStatus {
  /** Where the provider's API answers; absent: its public one. */
  readonly apiUrl?: string;
  readonly token: string;
  /** `owner/name` */
  readonly repository: string;
  readonly commit: string;
  readonly state: 'success' | 'failure' | 'error';
  readonly context: string;
  /** Cut to what the provider takes. */
  readonly description: string;
  readonly targetUrl: string;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

const timeoutMs = 10_000;
const descriptionLength = 140;

/** Posts a status. Throws an Error without any secret; `status` on it is the provider's, absent where it did not answer. */
export async function postCommitStatus(input: CommitStatus): Promise<void> {
  const { token, state, context, description, targetUrl } = input;
  const path = input.repository.split('/').map(encodeURIComponent).join('/');
  const api = (input.apiUrl ?? publicApiUrl).replace(/\/+$/, '');
  const url = `${api}/repos/${path}/statuses/${encodeURIComponent(input.commit)}`;
  const points = [...description];
  const short = points.length > descriptionLength ? `${points.slice(0, descriptionLength - 1).join('')}…` : description;
  const { statusCode, body } = await request(url, {
    method: 'POST',
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'user-agent': 'svc',
      'x-github-api-version': '2022-11-28',
    },
    body: JSON.stringify({ state, context, description: short, target_url: targetUrl }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    dispatcher: dispatcherFor(new URL(url), input.allowPrivate),
  });
  await body.dump();
  if (statusCode === 201) return;
  throw Object.assign(new Error(`the provider refused a commit status with ${statusCode}`), { status: statusCode });
}
