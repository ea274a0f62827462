// For tests of sessions' tools: a daemon whose sessions wait for a harness and never get one, so that a test can sit in
// a session's place with a token of its own and speak to its tools through the public door, as an MCP client.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from '../../base/testkit/daemon.ts';

export interface RpcAnswer {
  readonly isError: boolean;
  readonly text: string;
  /** Parsed, where it is JSON. */
  readonly value: Value;
}
/** What a test reads out of an answer: any property of any depth. */
export interface Value {
  readonly [key: string]: Value;
  readonly [index: number]: Value;
}

export interface Seat {
  readonly session: string;
  readonly token: string;
  urlOf(alias: string): string;
  /** A new client of an alias, connected; closed with the bench. */
  client(alias?: string): Promise<Client>;
  /** Calls a tool of an alias (default `svc`) by its MCP name. */
  call(tool: string, input?: object, alias?: string): Promise<RpcAnswer>;
  /** One JSON-RPC message by hand. */
  post(alias: string, message: unknown, headers?: { readonly [name: string]: string }): Promise<Response>;
}

export interface ToolBench {
  readonly daemon: TestDaemon;
  /** Stores agents, each with the harness, environment and defaults of a plain one. */
  apply(agents: { readonly [name: string]: object }, prune?: boolean): Promise<void>;
  /** Starts a session by hand and sits in its place. */
  start(agent: string): Promise<Seat>;
  /** Sits in the place of a session that is there. */
  sit(session: string): Promise<Seat>;
  stop(): Promise<void>;
}

const svc = { svc: { kind: 'local', implementation: 'svc' } };

/** `url`: where the tools are spoken to, instead of the daemon. */
export async function createToolBench(options: TestDaemonOptions = {}, url?: () => string): Promise<ToolBench> {
  const daemon = await startTestDaemon(options);
  const clients: Client[] = [];
  const sit = async (session: string): Promise<Seat> => {
    const token = randomBytes(32).toString('base64url');
    const hash = createHash('sha256').update(token).digest();
    const text = 'update svc.sessions set token_hash = $2::bytea where id = $1::uuid and live';
    assert.equal((await daemon.ctx.db.query(text, [session, hash])).rowCount, 1);
    return seatOf(`${url?.() ?? daemon.url}/api/v1/sessions/${session}/mcp`, { session, token, clients });
  };
  return {
    daemon,
    async apply(agents, prune = false) {
      const files = Object.entries(agents).map(([name, spec]) => ({
        path: `.svc/agents/${name}.yaml`,
        content: JSON.stringify({
          name,
          harness: 'harness-a',
          environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
          tools: svc,
          ...spec,
        }),
      }));
      const { status, body } = await daemon.api('POST', 'P/apply', { files, prune });
      assert.equal(status, 200, JSON.stringify(body));
    },
    async start(agent) {
      const { status, body } = await daemon.api('POST', `P/agents/${agent}/sessions`, { message: 'hello' });
      assert.equal(status, 201, JSON.stringify(body));
      return sit(String(body['id']));
    },
    sit,
    async stop() {
      await Promise.all(clients.map((client) => client.close().catch(() => undefined)));
      await daemon.stop();
    },
  };
}

function seatOf(base: string, of: Pick<Seat, 'session' | 'token'> & { readonly clients: Client[] }): Seat {
  const { session, token, clients } = of;
  const urlOf = (alias: string): string => `${base}/${encodeURIComponent(alias)}`;
  const connected = new Map<string, Promise<Client>>();
  const connect = async (alias: string): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(urlOf(alias)), { requestInit }) as Transport);
    clients.push(client);
    return client;
  };
  return {
    session,
    token,
    urlOf,
    client: (alias = 'svc') => connect(alias),
    async call(tool, input = {}, alias = 'svc') {
      const client = connected.get(alias) ?? connect(alias);
      connected.set(alias, client);
      const result = await (await client).callTool({ name: tool, arguments: { ...input } });
      const text = (result.content as readonly { readonly text: string }[]).map((part) => part.text).join('');
      const isError = result.isError === true;
      return { isError, text, value: isError ? {} : (JSON.parse(text) as Value) };
    },
    post: (alias, message, headers = {}) =>
      fetch(urlOf(alias), {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: typeof message === 'string' ? message : JSON.stringify(message),
      }),
  };
}
