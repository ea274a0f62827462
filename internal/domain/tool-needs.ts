// Which connections a tool refers to (docs/reference/compile.md#tools): what an apply asks for, and what a launch goes without.

import type { ChatAuth, Tool } from './spec.ts';

export interface ToolNeed {
  /** A provider or a product; `mcp` for tools that authorize at the remote server itself. */
  readonly provider: string;
  readonly connection: string;
  readonly optional: boolean;
  readonly path: readonly (string | number)[];
}

function chatNeeds(auth: ChatAuth): ToolNeed[] {
  const optional = auth.optional === true;
  if (auth.kind === 'connection') return [{ ...auth, optional, path: ['auth', 'connection'] }];
  return auth.connections.map((pair, index) => ({
    ...pair,
    optional,
    path: ['auth', 'connections', index, 'connection'],
  }));
}

/** What a tool cannot do without. */
export function toolNeeds(tool: Tool): ToolNeed[] {
  if (tool.kind === 'connection') return [{ ...tool, optional: tool.optional === true, path: ['connection'] }];
  if (tool.kind === 'local') return tool.implementation === 'chat' ? chatNeeds(tool.auth) : [];
  if (tool.kind !== 'mcp_remote') return [];
  const path = ['auth', 'connection'];
  if (tool.auth.kind === 'mcp_oauth') {
    return [{ provider: 'mcp', connection: tool.auth.connection, optional: tool.auth.optional === true, path }];
  }
  if (tool.auth.kind === 'provider_oauth') return [{ ...tool.auth, optional: tool.auth.optional === true, path }];
  return [];
}

interface Connected {
  readonly provider: string;
  readonly product: string;
}
export const fitsNeed = ({ provider, product }: Connected, need: ToolNeed): boolean =>
  provider === need.provider || product === need.provider;

/** True for an optional tool of which a connection has no active grant: it is as if it were not there (docs/reference/compile.md#tools). */
export function isSkipped(
  tool: Tool,
  connections: readonly (Connected & { readonly name: string; readonly active: boolean })[],
): boolean {
  const isThere = (need: ToolNeed): boolean =>
    connections.some((one) => one.name === need.connection && one.active && fitsNeed(one, need));
  return toolNeeds(tool).some((need) => need.optional && !isThere(need));
}
