// Remote tool servers, passed through as they are: what a harness sends goes on with the credential put on here, and the
// answer comes back byte by byte without it. A refusal of the credential is told as what it is, not as a challenge to the
// harness; a redirect is not followed, because the credential is for the host that was declared.

import { pipeline } from 'node:stream/promises';
import { Agent, type Dispatcher, request as send } from 'undici';
import { guardedLookup, hostFault, PrivateAddressError } from '../../base/net/net.ts';
import { exceedsValues } from '../../domain/depth.ts';
import { Fault } from '../../domain/fault.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { Json } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';
import { maskStream } from './mask.ts';
import type { McpRequest } from './request.ts';
import { answer } from './refuse.ts';

/** Of a request, and of an answer: what belongs to the protocol and nothing else. */
const sent = ['accept', 'content-type', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id'] as const;
const returned = ['content-type', 'mcp-session-id', 'cache-control', 'allow', 'retry-after'] as const;
const methods = ['POST', 'GET', 'DELETE'] as const;
/** A tool may think for long before it answers; a stream that is only listened to may say nothing for ever. */
const timeouts = { connectMs: 10_000, answerMs: 600_000 } as const;
const answerBytesMax = 64 * 1_048_576;
/** A message of more is passed on as it is and not looked into: parsing it takes as long as its values are many. */
const lookedIntoMax = 100_000;

export interface RemoteServer {
  readonly url: string;
  /** The header's value; throws Fault. */
  authorization(refused?: boolean): Promise<string | undefined>;
  /** Of a credential by consent: what a refusal for want of a scope leads to; undefined where to nothing. */
  wantsScopes?(challenge: string | undefined): Promise<Fault | undefined>;
  /** Hears of each call of a tool that did not go through. */
  failed?(fault: Fault): Promise<void>;
}
export interface AnswerListener {
  /** The tools have been listed well. */
  listed(): void;
  /** Why a request was not answered by the server: ours to tell, without a secret. */
  failed(fault: Fault): void;
}
export interface Remote {
  pass(at: McpRequest, server: RemoteServer, hearing: AnswerListener): Promise<void>;
  /** Breaks off what is in flight. */
  close(): Promise<void>;
}

export function createRemote(allowPrivate: () => boolean, given?: Dispatcher): Remote {
  const connect = { timeout: timeouts.connectMs };
  const guarded = given ?? new Agent({ connect: { ...connect, lookup: guardedLookup() } });
  const open = given ?? new Agent({ connect });
  const closing = new AbortController();
  return {
    async pass(at, server, hearing) {
      const { request, response, body } = at;
      const url = new URL(server.url);
      const method = methods.find((one) => one === request.method);
      if (method === undefined) {
        response.setHeader('allow', methods.join(', '));
        return answer(response, 405, 'This server takes POST, GET and DELETE.');
      }
      const gone = new AbortController();
      response.once('close', () => gone.abort());
      const signal = AbortSignal.any([gone.signal, closing.signal]);
      try {
        const kept = allowPrivate() ? null : hostFault(url.hostname);
        if (kept !== null) throw unreachable(`it cannot be called: ${kept}`);
        let authorization = await server.authorization();
        const sendWith = (credential: string | undefined): Promise<Dispatcher.ResponseData> =>
          send(url, {
            method,
            headers: {
              ...headersOf(request.headers, sent),
              ...(credential !== undefined && { authorization: credential }),
            },
            body: method === 'POST' ? (body ?? null) : null,
            dispatcher: allowPrivate() ? open : guarded,
            headersTimeout: timeouts.answerMs,
            bodyTimeout: method === 'GET' ? 0 : timeouts.answerMs,
            signal,
          });
        let upstream = await sendWith(authorization);
        if (upstream.statusCode === 401 && server.wantsScopes !== undefined) {
          upstream.body.once('error', () => undefined).destroy();
          authorization = await server.authorization(true);
          upstream = await sendWith(authorization);
        }
        if (upstream.statusCode === 403 && server.wantsScopes !== undefined) {
          const wanted = await server.wantsScopes(textOf(upstream.headers['www-authenticate']));
          if (wanted !== undefined) {
            upstream.body.once('error', () => undefined).destroy();
            throw wanted;
          }
        }
        await giveBack(at, upstream, { method, authorization, hearing });
      } catch (error) {
        if (gone.signal.aborted) return;
        const fault = error instanceof Fault ? error : unreachable(reasonOf(error));
        if (isToolCall(body)) await server.failed?.(fault);
        if (consent.includes(fault.code) && !response.headersSent) return answerWithout(at, fault, hearing);
        hearing.failed(new Fault(fault.kind, fault.code, `${url.host}: ${fault.message}`));
        if (response.headersSent) response.destroy();
        else answer(response, 502, `${url.host}: ${fault.message}`);
      }
    },
    async close() {
      closing.abort();
      await Promise.all([guarded.destroy(), open === guarded ? undefined : open.destroy()]);
    },
  };
}

/** What only a person's consent ends: the session goes on, and each call says so. */
const consent: readonly string[] = ['authorization-required', 'scope-required'];
const textOf = (value: string | string[] | undefined): string | undefined => [value].flat().join(', ') || undefined;

/** Stands in for a server that may not be asked: it is there, lists nothing, and calls end with what is missing. */
function answerWithout({ request, response, body }: McpRequest, fault: Fault, hearing: AnswerListener): void {
  const message = messageOf(body);
  if (request.method !== 'POST' || message === undefined)
    return answer(response, 405, `${fault.code}: ${fault.message}`);
  if (message.id === undefined) return void response.writeHead(202).end();
  if (message.method === 'tools/list') hearing.listed();
  const text = `${fault.code}: ${fault.message}`;
  const results: { readonly [method: string]: object } = {
    initialize: {
      protocolVersion: message.protocolVersion ?? '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'svc', version: '1' },
      instructions: text,
    },
    ping: {},
    'tools/list': { tools: [] },
    'tools/call': { content: [{ type: 'text', text }], isError: true },
  };
  const result = Object.hasOwn(results, message.method) ? results[message.method] : undefined;
  const rest = result === undefined ? { error: { code: -32_000, message: text } } : { result };
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...rest }));
}

interface RpcMessage {
  /** Undefined: nobody waits for an answer. */
  readonly id: string | number | undefined;
  readonly method: string;
  readonly protocolVersion: string | undefined;
}
/** Undefined where a body is no message of the protocol: whoever is inside sends what it likes. */
function messageOf(body: Buffer | undefined): RpcMessage | undefined {
  const { id, method, params } = objectAt(parsed(body) as Json | undefined);
  if (typeof method !== 'string' || !(id === undefined || typeof id === 'string' || typeof id === 'number'))
    return undefined;
  return { id, method, protocolVersion: textAt(objectAt(params)['protocolVersion']) };
}
function parsed(body: Buffer | undefined): unknown {
  try {
    return body === undefined || exceedsValues(body, lookedIntoMax) ? undefined : parseJson(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

const unreachable = (why: string): Fault => new Fault('unavailable', 'remote-unavailable', why);

/** Never the error's own text: it may repeat what was sent. */
function reasonOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (error instanceof PrivateAddressError || cause instanceof PrivateAddressError) {
    return 'it cannot be called: its address is private';
  }
  return typeof code === 'string' && /^[A-Z_]{3,40}$/.test(code) ? `it did not answer (${code})` : 'it did not answer';
}

const headersOf = (headers: Dispatcher.ResponseData['headers'], names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value] as const] : [];
    }),
  );

/** The answer to the harness; throws Fault for one that is not for it, before anything is sent. */
async function giveBack(
  { response, body }: McpRequest,
  upstream: Dispatcher.ResponseData,
  by: { readonly method: string; readonly authorization: string | undefined; readonly hearing: AnswerListener },
): Promise<void> {
  const { statusCode } = upstream;
  const encoding = upstream.headers['content-encoding'];
  const why =
    statusCode === 401 || statusCode === 403
      ? by.authorization === undefined
        ? 'it wants a credential, and none is declared'
        : 'it refused the credential'
      : statusCode >= 300 && statusCode < 400
        ? 'it redirects elsewhere, which is not followed'
        : encoding !== undefined && encoding !== 'identity'
          ? 'it answers in an encoding that was not asked for'
          : undefined;
  if (why !== undefined) {
    // Its text is nobody's business here, and may never end.
    upstream.body.once('error', () => undefined).destroy();
    throw new Fault('unavailable', 'remote-refused', `${why} (${statusCode})`);
  }
  const secret = by.authorization?.replace(/^Bearer /, '');
  const headers = Object.entries(headersOf(upstream.headers, returned)).filter(
    ([, value]) => secret === undefined || !value.includes(secret),
  );
  response.writeHead(statusCode, Object.fromEntries(headers));
  response.flushHeaders();
  // Now, not at the end of a stream that a server may leave open.
  if (statusCode === 200 && isList(body)) by.hearing.listed();
  const bytesMax = by.method === 'GET' ? undefined : answerBytesMax;
  await pipeline(upstream.body, maskStream(secret, bytesMax), response);
}

const isList = (body: Buffer | undefined): boolean => asks(body, 'tools/list');
const isToolCall = (body: Buffer | undefined): boolean => asks(body, 'tools/call');

const asks = (body: Buffer | undefined, method: string): boolean =>
  [parsed(body)].flat().some((one) => Object(one).method === method);
