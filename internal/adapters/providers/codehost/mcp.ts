// The provider's own tool server, for reading what is not served here: one tool of one call, read-only, without a session.

import { request as send } from 'undici';
import { AnswerTooLarge, answerJson, boundedText, rpcReply } from '../../../base/net/answer.ts';
import { Fault } from '../../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { RefusedCall, tooLarge } from './api.ts';
import { outsideFault } from '../../../domain/outside.ts';
import { dispatcherFor } from './guard.ts';
import { isLimit, namedSeconds } from './limit.ts';

export interface McpCall {
  readonly url: string;
  readonly token: string;
  readonly tool: string;
  readonly input: JsonObject;
  readonly allowPrivate: boolean;
}

const timeoutMs = 30_000;
const answerBytes = 8 * 1024 * 1024;

/** Calls a tool; answers with its text, parsed where it is JSON. Throws Fault, and RefusedCall where nothing was done. */
export async function callMcp({ url, token, tool, input, allowPrivate }: McpCall): Promise<Json> {
  const answer = await ask(url, { token, tool, input, allowPrivate });
  const result = objectAt(answer['result']);
  const said = listAt(result['content'])
    .map((part) => textAt(objectAt(part)['text']) ?? '')
    .join('');
  // Its errors are prose that repeats addresses and values.
  if (answer['error'] !== undefined || result['isError'] === true) {
    if (/rate limit/i.test(said)) throw limited(undefined);
    if (/: 401 /.test(said)) throw new RefusedCall({ kind: 'unauthorized' });
    if (/\b404\b|not found/i.test(said))
      throw outsideFault('not-found', 'it is absent, or not visible to this installation');
    if (/\b403\b|not accessible/i.test(said))
      throw outsideFault('permission-missing', 'the installation may not do this');
    throw outsideFault('refused', 'the tool server of the code host refused it');
  }
  return read(said) ?? { text: said };
}

async function ask(url: string, { token, tool, input, allowPrivate }: Omit<McpCall, 'url'>): Promise<JsonObject> {
  try {
    const { statusCode, headers, body } = await send(url, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'user-agent': 'svc',
        'x-mcp-readonly': 'true',
        'x-mcp-tools': tool,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: input } }),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      signal: AbortSignal.timeout(2 * timeoutMs),
      dispatcher: dispatcherFor(new URL(url), allowPrivate),
    });
    const text = await boundedText(body, answerBytes);
    if (statusCode === 401) throw new RefusedCall({ kind: 'unauthorized' });
    if (isLimit(statusCode, headers, '')) throw limited(namedSeconds(headers));
    if (statusCode === 404) throw outsideFault('not-found', 'the tool server does not know it');
    if (statusCode !== 200) throw outsideFault('provider-unavailable', `the tool server answered with ${statusCode}`);
    const reply = rpcReply(text, String(headers['content-type']), 1);
    if (reply === undefined) throw unanswered();
    return reply;
  } catch (error) {
    if (error instanceof Fault || error instanceof RefusedCall) throw error;
    if (error instanceof AnswerTooLarge) throw tooLarge();
    throw outsideFault('provider-unavailable', 'the tool server of the code host could not be reached');
  }
}

function read(said: string): Json | undefined {
  try {
    return answerJson(Buffer.from(said));
  } catch (error) {
    throw error instanceof AnswerTooLarge ? tooLarge() : error;
  }
}

/** What the tool server's calls count against. */
export const mcpResource = 'mcp';
const limited = (seconds: number | undefined): RefusedCall =>
  new RefusedCall({ kind: 'limited', resource: mcpResource, seconds });

const unanswered = (): Fault =>
  outsideFault('provider-unavailable', 'the tool server of the code host did not answer as it should');
