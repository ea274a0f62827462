// One request to a tool server, as it arrived.

import type { IncomingMessage, ServerResponse } from 'node:http';

export interface McpRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** As received. */
  readonly body: Buffer | undefined;
  readonly params: { readonly [name: string]: string };
}
