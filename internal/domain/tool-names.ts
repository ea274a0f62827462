// Names of tools. Tool aliases as names of MCP servers: harnesses make tool names of them (`mcp__<name>__<tool>`), in which only letters,
// digits, `_` and `-` may stand; two aliases that become the same name would be one server with half of the tools.

const other = /[^A-Za-z0-9_-]/g;

export type ServerNames =
  | { readonly ok: true; readonly names: ReadonlyMap<string, string> }
  /** Groups of aliases that would share a name. */
  | { readonly ok: false; readonly collisions: readonly (readonly string[])[] };

/** The MCP server name of each alias. Names are compared without case: harnesses differ on it. */
export function mcpServerNames(aliases: readonly string[]): ServerNames {
  const names = new Map(aliases.map((alias) => [alias, alias.replace(other, '_')]));
  const sharing = Map.groupBy(names, ([, name]) => name.toLowerCase());
  const collisions = [...sharing.values()]
    .filter((group) => group.length > 1)
    .map((group) => group.map(([alias]) => alias));
  return collisions.length === 0 ? { ok: true, names } : { ok: false, collisions };
}

/** What a connection to the error tracker gives, in this order. */
export const errtrackToolNames = ['list_projects', 'search_issues', 'get_issue_details', 'get_latest_event'] as const;
