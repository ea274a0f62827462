// One call to the provider: to a configured address, without redirects, bounded in time and size.

import { Agent, request } from 'undici';
import { AnswerTooLarge, answerJson, boundedText } from '../../../base/net/answer.ts';
import { guardedLookup, hostFault } from '../../../base/net/net.ts';
import { retryAfterOf } from '../../../base/net/retry-after.ts';
import type { Json } from '../../../domain/json.ts';
import { parseJson } from '../../../domain/json-text.ts';

/** Where the provider is and who the service is there; complete, or there is no setup. */
export interface ErrtrackSettings {
  readonly baseUrl: string;
  readonly regions: { readonly us: string; readonly de: string };
  readonly mcpUrl: string;
  readonly clientId: string;
  readonly appSlug: string;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

export type FailureWord = 'unauthorized' | 'forbidden' | 'not-found' | 'rate-limited' | 'unreachable' | 'unreadable';

/** A read that gave nothing. The message holds nothing of the answer. */
export class ProviderFailure extends Error {
  readonly word: FailureWord;
  /** What a 404 says of itself, for the one caller that tells two of them apart. */
  readonly detail: string;
  /** Of a limit, how long it lasts, where that is told. */
  readonly seconds: number | undefined;

  constructor(word: FailureWord, detail = '', seconds?: number) {
    super(`the error tracker answered: ${word}`);
    this.name = 'ProviderFailure';
    this.word = word;
    this.detail = detail;
    this.seconds = seconds;
  }
}

export interface ErrtrackAnswer {
  readonly status: number;
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly text: string;
  readonly ms: number;
}

/** Longer than the slowest answer that was seen of a healthy provider, some 15 s. */
const timeoutMs = 30_000;
const answerBytesMax = 4 * 1_048_576;
const open = new Agent();
const guarded = new Agent({ connect: { lookup: guardedLookup() } });

/** Throws whatever kept an answer from coming whole. */
export async function call(
  settings: Pick<ErrtrackSettings, 'allowPrivate'>,
  address: string,
  options: {
    readonly method?: 'GET' | 'POST' | 'PUT';
    readonly headers?: { readonly [name: string]: string };
    readonly body?: unknown;
  } = {},
): Promise<ErrtrackAnswer> {
  const url = new URL(address);
  const isRefused = !settings.allowPrivate && (url.protocol !== 'https:' || hostFault(url.hostname) !== null);
  if (isRefused) throw new ProviderFailure('unreachable');
  const began = performance.now();
  const { statusCode, headers, body } = await request(url, {
    method: options.method ?? 'GET',
    headers: {
      accept: 'application/json',
      'user-agent': 'svc',
      ...(options.body !== undefined && { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    signal: AbortSignal.timeout(2 * timeoutMs),
    dispatcher: settings.allowPrivate ? open : guarded,
  });
  const text = await boundedText(body, answerBytesMax).catch((error: unknown) => {
    throw error instanceof AnswerTooLarge ? new ProviderFailure('unreadable') : error;
  });
  return { status: statusCode, headers, text, ms: performance.now() - began };
}

/** What was sent along stands in no answer that repeats it, in whatever spelling. */
export function without(token: string, answer: Json): Json {
  const [plain, spelled] = [JSON.stringify(answer), JSON.stringify(token).slice(1, -1)];
  return token !== '' && plain.includes(spelled) ? (parseJson(plain.replaceAll(spelled, '***')) as Json) : answer;
}

/** The JSON of an answer without the `token` that was sent along; undefined where it is none, or more than an answer can be. */
export function jsonOf(text: string, token = ''): Json | undefined {
  try {
    const found = answerJson(Buffer.from(text));
    return found === undefined ? found : without(token, found);
  } catch (error) {
    if (error instanceof AnswerTooLarge) return undefined;
    throw error;
  }
}

/** A read with the application's token. Throws ProviderFailure for every other answer than 200 with JSON. */
export async function read(
  settings: Pick<ErrtrackSettings, 'allowPrivate'>,
  address: string,
  token: string,
): Promise<{ readonly body: unknown; readonly headers: ErrtrackAnswer['headers'] }> {
  let answer: ErrtrackAnswer;
  try {
    answer = await call(settings, address, { headers: { authorization: `Bearer ${token}` } });
  } catch (error) {
    throw error instanceof ProviderFailure ? error : new ProviderFailure('unreachable');
  }
  const body = jsonOf(answer.text, token);
  if (answer.status !== 200) {
    const { detail } = (body ?? {}) as { readonly detail?: unknown };
    const said = typeof detail === 'string' ? detail.slice(0, 200) : '';
    throw new ProviderFailure(wordOf(answer.status), said, limitSecondsOf(answer));
  }
  if (body === undefined) throw new ProviderFailure('unreadable');
  return { body, headers: answer.headers };
}

/** Seconds that a limit names: until then, or until it begins anew by the clock of the answer; undefined where it is none, or names none. */
export function limitSecondsOf({ status, headers }: Pick<ErrtrackAnswer, 'status' | 'headers'>): number | undefined {
  if (status !== 429) return undefined;
  const after = retryAfterOf(headers);
  if (after !== undefined) return after;
  const reset =
    Number(headers['x-sentry-rate-limit-reset'] ?? Number.NaN) - Date.parse(String(headers['date'])) / 1_000;
  return Number.isNaN(reset) ? undefined : Math.max(1, reset);
}

function wordOf(status: number): FailureWord {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not-found';
  return status === 429 ? 'rate-limited' : 'unreachable';
}
