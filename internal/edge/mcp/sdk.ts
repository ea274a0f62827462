// Requests of the protocol's every form, through its SDK: a server and a transport for each.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { CallToolRequestSchema, ListToolsRequestSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type { CallResult, PlainCall } from './plain.ts';

export interface SdkRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The body, as JSON reads it. */
  readonly message: unknown;
}
export interface SdkServer {
  readonly name: string;
  /** Told to the client as instructions. */
  readonly about: string | undefined;
  tools(): Tool[];
  /** `gone` is told when whoever called goes away before. */
  run(call: PlainCall, gone: AbortSignal): Promise<CallResult>;
}

/** For what clients answer to questions of the server, which asks none: one for all, since making one costs more than a call. */
const jsonSchemaValidator = new AjvJsonSchemaValidator();

/** Answers one request; resolves when the answer is out, or nobody waits for it any more. */
export async function answerBySdk({ request, response, message }: SdkRequest, of: SdkServer): Promise<void> {
  const gone = new AbortController();
  const server = new Server(
    { name: of.name, version: '1' },
    { capabilities: { tools: {} }, jsonSchemaValidator, ...(of.about !== undefined && { instructions: of.about }) },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: of.tools() }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { requestId }) => {
    const { content, isError } = await of.run(
      { id: requestId, name: params.name, input: params.arguments },
      gone.signal,
    );
    return { content: [...content], isError };
  });
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  const closed = new Promise<void>((resolve) => response.once('close', resolve));
  void closed.then(() => {
    gone.abort();
    void transport.close();
    void server.close();
  });
  // The SDK's own class does not fit its own interface under exact optional properties.
  await server.connect(transport as unknown as Transport);
  await transport.handleRequest(request, response, message);
  if (!response.writableFinished) await closed;
}
