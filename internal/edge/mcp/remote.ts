// Remote tool servers, passed through as they are: what a harness sends goes on with the credential put on here, and the
// answer comes back byte by byte without it. A refusal of the credential is told as what it is, not as a challenge to the
// harness; a redirect is not followed, because the credential is for the host that was declared.

import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Agent, type Dispatcher, request as send } from 'undici';
import { guardedLookup, hostFault, PrivateAddressError } from '../../base/net/net.ts';
import { exceedsValues } from '../../domain/depth.ts';
import { Fault } from '../../domain/fault.ts';
import { parseJson } from '../../domain/json-text.ts';
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
      protocolVersion: message.params?.protocolVersion ?? '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'svc', version: '1' },
      instructions: text,
    },
    ping: {},
    'tools/list': { tools: [] },
    'tools/call': { content: [{ type: 'text', text }], isError: true },
  };
  const result = results[message.method ?? ''];
  const rest = result === undefined ? { error: { code: -32_000, message: text } } : { result };
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...rest }));
}

interface RpcMessage {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: { readonly protocolVersion?: string };
}
function messageOf(body: Buffer | undefined): RpcMessage | undefined {
  const message = parsed(body);
  return typeof message === 'object' && message !== null && !Array.isArray(message) ? message : undefined;
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

// What comes back from a remote server, without the credential that it was sent: a server that repeats its request's
// headers must not bring the credential into a sandbox, as it is or as JSON writes it. Bounded in bytes, and no byte waits
// longer than it must: only an end that may be the secret's beginning is held back.

const masked = Buffer.from('***');
const backslash = 0x5c;
const letterU = 0x75;

/** Passes bytes on, `secret` replaced wherever it stands. Fails above `bytesMax`; undefined: no bound. */
export function maskStream(secret: string | undefined, bytesMax: number | undefined): Transform {
  const needle = Buffer.from(secret ?? '');
  let held: Buffer = Buffer.alloc(0);
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      if (bytesMax !== undefined && seen > bytesMax) return done(new Error('the answer is too large'));
      if (needle.length === 0) return done(null, chunk);
      const { clean, rest } = split(held.length === 0 ? chunk : Buffer.concat([held, chunk]), needle);
      held = rest;
      done(null, clean);
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** What may go on, masked, and the end that is the beginning of the secret. */
function split(bytes: Buffer, needle: Buffer): { readonly clean: Buffer; readonly rest: Buffer } {
  const parts: Buffer[] = [];
  const [first] = needle;
  let from = 0;
  let end = bytes.length;
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] !== first && bytes[at] !== backslash) continue;
    const behind = endOf(needle, bytes, at, false) ?? endOf(needle, bytes, at, true);
    if (behind === undefined) continue;
    if (behind === 'cut') {
      end = at;
      break;
    }
    parts.push(bytes.subarray(from, at), masked);
    from = behind;
    at = behind - 1;
  }
  parts.push(bytes.subarray(from, end));
  return { clean: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts), rest: bytes.subarray(end) };
}

/** Where the secret ends that begins at `at`; `cut` where more bytes would tell. `escaped`: in the spelling of JSON. */
function endOf(needle: Buffer, bytes: Buffer, at: number, escaped: boolean): number | 'cut' | undefined {
  let from = at;
  for (const byte of needle) {
    if (from >= bytes.length) return 'cut';
    if (!escaped || bytes[from] !== backslash) {
      if (bytes[from] !== byte) return undefined;
      from += 1;
      continue;
    }
    const next = bytes[from + 1];
    if (next === undefined) return 'cut';
    if (next === byte) {
      from += 2;
      continue;
    }
    // Looked at as a byte first: an answer may be made of backslashes.
    if (next !== letterU) return undefined;
    const digits = bytes.toString('latin1', from + 1, from + 6).toLowerCase();
    if (!`u${byte.toString(16).padStart(4, '0')}`.startsWith(digits)) return undefined;
    if (digits.length < 5) return 'cut';
    from += 6;
  }
  return from;
}
