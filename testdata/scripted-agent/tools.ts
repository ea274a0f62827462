// The scripted agent as an MCP client: one connection to each server it was given, tools listed at once. A server that is
// not there costs its tools and nothing else, as with the real harnesses.

import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';

export interface ServerConfig {
  readonly name: string;
  readonly url: string;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
}

const CONNECT_MS = 10_000;

export class Tools {
  readonly #clients = new Map<string, Client>();
  readonly #tools = new Map<string, string[]>();

  async connect(servers: readonly ServerConfig[]): Promise<void> {
    if (servers.length === 0) return;
    // The library is half of what a start costs; without servers nobody needs it.
    const [{ Client }, { StreamableHTTPClientTransport }] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    ]);
    await Promise.all(
      servers.map(async (server) => {
        const client = new Client({ name: 'scripted-agent', version: '1.0.0' });
        const headers = Object.fromEntries(server.headers.map(({ name, value }) => [name, value]));
        try {
          const transport = new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } });
          await client.connect(transport as Transport, { timeout: CONNECT_MS });
          const { tools } = await client.listTools(undefined, { timeout: CONNECT_MS });
          this.#clients.set(server.name, client);
          this.#tools.set(
            server.name,
            tools.map((tool) => tool.name),
          );
        } catch (error) {
          process.stderr.write(`scripted agent: no tools from ${server.name}: ${String(error)}\n`);
        }
      }),
    );
  }

  /** `alias: tool, tool` lines. */
  list(): string {
    return [...this.#tools].map(([alias, tools]) => `${alias}: ${tools.join(', ')}`).join('\n') || 'no tools';
  }

  /** The tool's text; `ok` false where it failed or does not exist. */
  async call(
    alias: string,
    tool: string,
    input: { [key: string]: unknown },
    signal: AbortSignal,
  ): Promise<{ ok: boolean; text: string }> {
    const client = this.#clients.get(alias);
    if (client === undefined) return { ok: false, text: `no tools from ${alias}` };
    try {
      const result = await client.callTool({ name: tool, arguments: input }, undefined, { signal });
      const content = result.content as readonly { type: string; text?: string }[];
      return { ok: result.isError !== true, text: content.map((part) => part.text ?? `[${part.type}]`).join('\n') };
    } catch (error) {
      signal.throwIfAborted();
      return { ok: false, text: error instanceof Error ? error.message : String(error) };
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.close().catch(() => undefined)));
    this.#clients.clear();
  }
}
