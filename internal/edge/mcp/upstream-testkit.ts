// A remote tool server for tests: a real MCP server with sessions of its own that answers as JSON or as a stream, and, by
// path, every way in which such a server may misbehave. It notes what it was sent.

import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Agent, type Dispatcher } from 'undici';

export interface Upstream {
  /** Leads every https URL to this server. */
  readonly dispatcher: Dispatcher;
  /** `METHOD /path authorization` of each request. */
  readonly requests: readonly string[];
  /** Names of headers of the last request. */
  headers(): readonly string[];
  /** Requests whose answer was broken off from the other side. */
  broken(): number;
  /** Calls of the tool that takes long, begun. */
  slow(): number;
  /** Says a notification on every open stream. */
  announce(): Promise<void>;
  stop(): Promise<void>;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;
const pad = 'x'.repeat(65_536);

/** Misbehaviour by path. */
const bad: { readonly [path: string]: Handler } = {
  '/refuses': (request, response) =>
    void response.writeHead(401, { 'www-authenticate': 'Bearer' }).end(`no: ${request.headers.authorization}`),
  '/forbids': (request, response) => void response.writeHead(403).end(`no: ${request.headers.authorization}`),
  '/redirects': (_, response) => void response.writeHead(307, { location: 'https://evil.example/' }).end(),
  '/fails': (request, response) => void response.writeHead(500).end(`oops: ${request.headers.authorization}`),
  '/packs': (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end('x'),
  '/silent': () => undefined,
  '/resets': (request) => void request.socket.destroy(),
  '/breaks': async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: begun\n\n');
    await sleep(50);
    response.destroy();
  },
  '/endless': async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    while (!response.closed) {
      response.write('data: more\n\n');
      await sleep(5);
    }
  },
  '/refuses-endlessly': async (_, response) => {
    response.writeHead(403);
    while (!response.closed) {
      response.write(pad);
      await sleep(1);
    }
  },
  '/huge': (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const send = (): void => {
      while (!response.closed && response.write(pad));
    };
    response.on('drain', send);
    send();
  },
  '/dribbles': async (request, response) => {
    const got = String(request.headers.authorization);
    // As others than JavaScript write JSON.
    const written = JSON.stringify(got).slice(1, -1).replaceAll('/', '\\/').replaceAll('=', '\\u003D');
    const repeated = `data: ${got} and ${written} end \\u0068\\u00\n\n`;
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'mcp-session-id': `${request.headers.authorization}`,
    });
    for (const letter of repeated) {
      response.write(letter);
      await sleep(1);
    }
    response.end();
  },
};

/** Tools of the well-behaved server: `echo` repeats the credential that it got. */
function toolsOf(authorization: () => string | undefined, begun: () => void, gone: () => void): Server {
  const server = new Server({ name: 'remote', version: '1' }, { capabilities: { tools: { listChanged: true } } });
  const names = ['echo', 'slow'];
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: names.map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
    if (params.name === 'slow') {
      begun();
      await sleep(300_000, undefined, { signal }).catch(gone);
    }
    return { content: [{ type: 'text' as const, text: `${JSON.stringify(params.arguments)} ${authorization()}` }] };
  });
  return server;
}

export async function startUpstream(): Promise<Upstream> {
  const requests: string[] = [];
  const open = new Map<string, { readonly transport: StreamableHTTPServerTransport; readonly server: Server }>();
  let last: IncomingMessage | undefined;
  let broken = 0;
  let slow = 0;
  const speak: Handler = async (request, response) => {
    const id = request.headers['mcp-session-id'];
    const known = typeof id === 'string' ? open.get(id) : undefined;
    if (known !== undefined) return known.transport.handleRequest(request, response);
    const server = toolsOf(
      () => last?.headers.authorization,
      () => void (slow += 1),
      () => void (broken += 1),
    );
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: request.url === '/json',
      onsessioninitialized: (made) => void open.set(made, { transport, server }),
    });
    await server.connect(transport as unknown as Transport);
    await transport.handleRequest(request, response);
  };
  const http = createServer((request, response) => {
    last = request;
    requests.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.once('close', () => {
      if (!response.writableFinished) broken += 1;
    });
    void (bad[request.url ?? ''] ?? speak)(request, response);
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  const dispatcher = new Agent({
    connect: (_, done) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('error', (error) => done(error, null)).once('connect', () => done(null, socket as never));
    },
  });
  return {
    dispatcher,
    requests,
    headers: () => Object.keys(last?.headers ?? {}).toSorted(),
    broken: () => broken,
    slow: () => slow,
    announce: async () => {
      for (const { server } of open.values()) await server.sendToolListChanged();
    },
    async stop() {
      await dispatcher.destroy();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}
