// One POST to a provider's API, and what it means that no answer comes. Nothing is sent twice here, and no redirect is
// followed. No message holds a credential, a value that was sent, or a host.

import { Agent, type Dispatcher, request as send } from 'undici';
import { Fault } from '../../domain/fault.ts';
import { OutcomeUnknown, outsideFault } from '../../domain/outside.ts';
import type { Json } from '../../domain/json.ts';
import { AnswerTooLarge, answerJson, boundedBytes } from './answer.ts';
import { guardedLookup, hostFault } from './net.ts';
import { retryAfterOf } from './retry-after.ts';

export interface Post {
  readonly url: URL;
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
  /** It changes something: what becomes of a lost answer is not known. */
  readonly isWrite: boolean;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
  /** Who is asked, for people: `the tracker`. */
  readonly who: string;
}
export interface Posted {
  readonly statusCode: number;
  /** Undefined where the answer is none. */
  readonly json: Json | undefined;
  readonly headers: Dispatcher.ResponseData['headers'];
  /** Of `Retry-After`. */
  readonly retryAfterSeconds: number | undefined;
}

/** `wholeMs`: of all of a call, for an answer that trickles is never silent. */
const timeouts = { headersMs: 15_000, bodyMs: 15_000, wholeMs: 60_000 } as const;
const bytesMax = 8 * 1024 * 1024;
const notSent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH)$/;
const open = new Agent();
const guarded = new Agent({ connect: { lookup: guardedLookup() } });

/** Sends it. Throws Fault `provider-unavailable` for what was never sent or changes nothing, `too-large`, OutcomeUnknown for a write. */
export async function postOnce({ url, headers, body, isWrite, allowPrivate, who }: Post): Promise<Posted> {
  if (!allowPrivate && (url.protocol !== 'https:' || hostFault(url.hostname) !== null)) {
    throw outsideFault('provider-unavailable', `the address of ${who} is not a public https address`);
  }
  let answer: Dispatcher.ResponseData;
  let json: Json | undefined;
  try {
    answer = await send(url, {
      method: 'POST',
      headers: { ...headers, 'user-agent': 'svc' },
      body,
      headersTimeout: timeouts.headersMs,
      bodyTimeout: timeouts.bodyMs,
      signal: AbortSignal.timeout(timeouts.wholeMs),
      dispatcher: allowPrivate ? open : guarded,
    });
    // Of a write with an answer beyond the bound nobody knows what became of it: the connection is given up.
    json = answerJson(await boundedBytes(answer.body, bytesMax));
  } catch (error) {
    if (error instanceof Fault) throw error;
    if (error instanceof AnswerTooLarge && !isWrite) {
      throw outsideFault('too-large', `${who} answered with more than can be read; ask for less`);
    }
    const isLate = (error as Error).name === 'TimeoutError';
    const code = isLate ? 'it took too long' : String((error as NodeJS.ErrnoException).code ?? '');
    if (isWrite && !notSent.test(code)) throw new OutcomeUnknown(code === '' ? 'the connection broke' : code);
    throw outsideFault('provider-unavailable', `${who} could not be reached; nothing was done`);
  }
  const { statusCode, headers: told } = answer;
  return { statusCode, json, headers: told, retryAfterSeconds: retryAfterOf(told) };
}
