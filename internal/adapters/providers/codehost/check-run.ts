// A check on a pull request as the code host shows it (docs/reference/checks.md#states): a run on the head, made once and changed from
// then on. Whoever does not know whether it was made finds it again by the service's own id of it.

import { request } from 'undici';
import { idAt, listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { dispatcherFor } from './guard.ts';
import { bounded, publicApiUrl } from './token.ts';

export interface CheckRun {
  /** Where the provider's API answers; absent: its public one. */
  readonly apiUrl?: string;
  /** Of an installation: the provider takes these from nobody else. */
  readonly token: string;
  /** `owner/name` */
  readonly repository: string;
  readonly commit: string;
  /** The service's own, the same at each call. */
  readonly id: string;
  /** The provider's, by which it is changed; null: it is made, unless it is there already. */
  readonly externalId: string | null;
  readonly name: string;
  /** `dropped`: nobody concludes it any more; one that is concluded there stays as it is. */
  readonly state: 'queued' | 'in_progress' | 'concluded' | 'dropped';
  /** Of a concluded one. */
  readonly conclusion: 'success' | 'failure' | 'skipped' | null;
  readonly title: string;
  readonly summary: string;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

/** `status` is the provider's, 429 also where it says so with 403, absent where it did not answer; `isUnknown`: it may have been made all the same. */
export interface CheckRunError extends Error {
  readonly status?: number;
  readonly isUnknown?: boolean;
}

const timeoutMs = 10_000;
/** A hundred runs with all that the provider says about each. */
const answerBytes = 4 * 1024 * 1024;

/** Brings the provider to this state; answers with its id. Throws a CheckRunError without any secret. */
export async function putCheckRun(input: CheckRun): Promise<string> {
  const found = input.externalId ?? (await findRun(input));
  const runs = '/check-runs';
  if (found === undefined) {
    const made = await ask(input, 'POST', runs, { name: input.name, head_sha: input.commit, ...fieldsOf(input) });
    return idIn(made);
  }
  const path = `${runs}/${encodeURIComponent(found)}`;
  if (input.state === 'dropped' && textAt((await ask(input, 'GET', path))['status']) === 'completed') return found;
  await ask(input, 'PATCH', path, fieldsOf(input));
  return found;
}

function fieldsOf({ id, state, conclusion, title, summary }: CheckRun): JsonObject {
  const rest = { external_id: id, output: { title, summary } };
  if (state === 'queued' || state === 'in_progress') return { status: state, ...rest };
  return { status: 'completed', conclusion: state === 'dropped' ? 'cancelled' : conclusion, ...rest };
}

/** The run that an earlier call has made and whose answer was lost. */
async function findRun(input: CheckRun): Promise<string | undefined> {
  const query = new URLSearchParams({ check_name: input.name, filter: 'all', per_page: '100' });
  const answer = await ask(input, 'GET', `/commits/${encodeURIComponent(input.commit)}/check-runs?${query}`);
  const run = listAt(answer['check_runs'])
    .map(objectAt)
    .find((one) => one['external_id'] === input.id);
  return run === undefined ? undefined : idIn(run);
}

function idIn(run: JsonObject): string {
  const id = idAt(run['id']);
  if (id === undefined) throw Object.assign(new Error('the provider named no check run'), { isUnknown: true });
  return id;
}

async function ask(input: CheckRun, method: 'GET' | 'POST' | 'PATCH', path: string, body?: Json): Promise<JsonObject> {
  const api = (input.apiUrl ?? publicApiUrl).replace(/\/+$/, '');
  const repository = input.repository.split('/').map(encodeURIComponent).join('/');
  const url = `${api}/repos/${repository}${path}`;
  // Asking and changing may be repeated; what is made twice would stand there twice.
  const unknown = method === 'POST' && { isUnknown: true };
  try {
    const answer = await request(url, {
      method,
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${input.token}`,
        'user-agent': 'svc',
        'x-github-api-version': '2022-11-28',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      dispatcher: dispatcherFor(new URL(url), input.allowPrivate),
    });
    const { headers } = answer;
    const isBusy = headers['retry-after'] !== undefined || headers['x-ratelimit-remaining'] === '0';
    const status = answer.statusCode === 403 && isBusy ? 429 : answer.statusCode;
    const text = await bounded(answer.body, answerBytes);
    if (status >= 200 && status < 300) return objectAt(JSON.parse(text) as Json);
    const refused = new Error(`the provider refused a check run with ${status}`);
    throw Object.assign(refused, { status, ...(status >= 500 && unknown) });
  } catch (error) {
    if ((error as CheckRunError).status !== undefined) throw error;
    const code = String((error as NodeJS.ErrnoException).code ?? '');
    // Nothing was sent.
    const isSent = !/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/.test(code);
    const why = error instanceof SyntaxError ? 'broken JSON' : code === '' ? (error as Error).message : code;
    throw Object.assign(new Error(`the provider did not take a check run: ${why}`), isSent && unknown);
  }
}
