// One request to a tool server, as it arrived.

import type { IncomingMessage, ServerResponse } from 'node:http';

export interface McpHead {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly params: { readonly [name: string]: string };
}
export interface McpRequest extends McpHead {
  /** As received. */
  readonly body: Buffer | undefined;
}
