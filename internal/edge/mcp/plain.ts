// The short way of a call: one request for one tool in the form that every client sends, answered as the SDK's server would
// answer it. A server, a transport and two schemas for each call cost more than the call itself. Whatever is in another
// form (a batch, a task, an unknown version, a header that is not as it should be) goes to the SDK, which says what is wrong.

import type { IncomingMessage, ServerResponse } from 'node:http';

export interface PlainCall {
  readonly id: string | number;
  readonly name: string;
  /** Of the call's input; undefined where there is none. */
  readonly input: unknown;
}
export interface CallResult {
  readonly content: readonly { readonly type: 'text'; readonly text: string }[];
  readonly isError: boolean;
}

/** Of the SDK, which is loaded only for requests in another form; a test holds the two alike. */
export const protocolVersions: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
];

type Members = { readonly [key: string]: unknown };
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const hasOnly = (value: Members, keys: readonly string[]): boolean =>
  Object.keys(value).every((key) => keys.includes(key));
const isId = (value: unknown): value is string | number => typeof value === 'string' || Number.isSafeInteger(value);

/** The call that a request holds, if that is all and the SDK would take it. */
export function plainCall({ headers }: IncomingMessage, message: unknown): PlainCall | undefined {
  const version = headers['mcp-protocol-version'];
  if (headers['content-type'] !== 'application/json' || !acceptsBoth(headers.accept)) return undefined;
  if (version !== undefined && !protocolVersions.includes(String(version))) return undefined;
  if (!isObject(message) || !hasOnly(message, ['jsonrpc', 'id', 'method', 'params'])) return undefined;
  const { jsonrpc, id, method, params } = message;
  if (jsonrpc !== '2.0' || method !== 'tools/call' || !isId(id)) return undefined;
  if (!isObject(params) || !hasOnly(params, ['name', 'arguments', '_meta'])) return undefined;
  const { name, arguments: input, _meta: meta } = params;
  if (typeof name !== 'string' || !(input === undefined || isObject(input)) || !isPlainMeta(meta)) return undefined;
  return { id, name, input };
}

const acceptsBoth = (accept: string | undefined): boolean =>
  accept?.includes('application/json') === true && accept.includes('text/event-stream');

/** What a client notes beside a call changes nothing here, but where it makes a task of it. */
const isPlainMeta = (meta: unknown): boolean =>
  meta === undefined ||
  (isObject(meta) &&
    meta['io.modelcontextprotocol/related-task'] === undefined &&
    (meta['progressToken'] === undefined || isId(meta['progressToken'])));

/** Answers a call; `run` is told when whoever called goes away before. */
export async function answerPlainly(
  response: ServerResponse,
  id: string | number,
  run: (gone: AbortSignal) => Promise<CallResult>,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  const text = JSON.stringify({ jsonrpc: '2.0', id, result: await run(gone.signal) });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
