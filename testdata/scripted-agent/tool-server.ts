// A small real MCP server (streamable HTTP, stateless, bearer token) for tests of harnesses: `svc_ping` answers, `slow`
// waits until it is cancelled, `broken` fails. It notes every list, call and cancellation.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const NO_INPUT = { type: 'object' as const, properties: {}, additionalProperties: true };
const TOOLS = [
  { name: 'svc_ping', description: 'Answers with what it was sent.', inputSchema: NO_INPUT },
  { name: 'slow', description: 'Waits for `ms` milliseconds.', inputSchema: NO_INPUT },
  { name: 'broken', description: 'Fails.', inputSchema: NO_INPUT },
];

export interface ToolServer {
  readonly url: string;
  readonly token: string;
  /** How often the tools were listed. */
  readonly lists: () => number;
  /** Every call, in order, as `tool {input}`. */
  readonly calls: readonly string[];
  /** Calls that were cancelled while they ran. */
  readonly cancelled: readonly string[];
  close(): Promise<void>;
}

interface Notes {
  lists: number;
  /** By JSON-RPC id. Stateless: a cancellation comes on a request of its own. */
  readonly running: Map<unknown, AbortController>;
  readonly calls: string[];
  readonly cancelled: string[];
}

const text = (value: string, isError = false) => ({ content: [{ type: 'text' as const, text: value }], isError });

function serverOf(notes: Notes): Server {
  const server = new Server({ name: 'test tools', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => {
    notes.lists += 1;
    return { tools: TOOLS };
  });
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { requestId }) => {
    const input = params.arguments ?? {};
    notes.calls.push(`${params.name} ${JSON.stringify(input)}`);
    if (params.name === 'svc_ping') return text(`pong ${JSON.stringify(input)}`);
    if (params.name === 'slow') {
      const running = new AbortController();
      notes.running.set(requestId, running);
      const ms = Number(input['ms'] ?? 1_000);
      await wait(ms, undefined, { signal: running.signal }).catch(() => notes.cancelled.push(params.name));
      notes.running.delete(requestId);
      return text('waited');
    }
    return text(params.name === 'broken' ? 'this tool always fails' : `no tool ${params.name}`, true);
  });
  return server;
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

/** Listens on a free port of the loopback address; for one client at a time, as far as cancellations go. */
export async function startToolServer(token = 'test-token-of-the-tool-server'): Promise<ToolServer> {
  const notes: Notes = { lists: 0, running: new Map(), calls: [], cancelled: [] };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      return;
    }
    if (request.method !== 'POST') {
      response.writeHead(405, { allow: 'POST' }).end();
      return;
    }
    const server = serverOf(notes);
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: false });
    response.on('close', () => void server.close());
    await server.connect(transport as Transport);
    const body = await bodyOf(request);
    const { method, params } = Object(body) as { method?: string; params?: { requestId?: unknown } };
    if (method === 'notifications/cancelled') notes.running.get(params?.requestId)?.abort();
    await transport.handleRequest(request, response, body);
  };
  const http = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    token,
    lists: () => notes.lists,
    calls: notes.calls,
    cancelled: notes.cancelled,
    close: async () => {
      const closed = new Promise<void>((resolve) => http.close(() => resolve()));
      http.closeAllConnections();
      await closed;
    },
  };
}
