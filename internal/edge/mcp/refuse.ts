// Whom the tool servers refuse before they look at a token: a page in somebody's browser that was led here under another
// name (DNS rebinding).

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FlowContext } from '../../flows/context.ts';

const local: readonly string[] = ['127.0.0.1', 'localhost', '[::1]'];

const hostnameOf = (authority: string): string | undefined => URL.parse(`http://${authority}`)?.hostname;

/** Why a request is refused, by its Host and Origin; undefined where it is not. */
export function refuse(ctx: FlowContext, request: IncomingMessage): string | undefined {
  const base = URL.parse(ctx.baseUrl);
  const known = new Set<string | undefined>([...local, base?.hostname, ctx.config.listen.host]);
  known.delete(undefined);
  const { host, origin } = request.headers;
  if (host === undefined || !known.has(hostnameOf(host))) return 'This server is not known under that host name.';
  if (origin === undefined || origin === base?.origin) return undefined;
  // Without encryption this server answers itself; a page behind any other is another one, whatever its name.
  const from = URL.parse(origin);
  const isOwn = from?.protocol === 'http:' && known.has(from.hostname);
  return isOwn ? undefined : 'Requests of that origin are not served.';
}

/** Answers with a JSON-RPC error that belongs to no request. */
export function answer(response: ServerResponse, status: number, message: string, code = -32_000): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null }));
}
