// Which tool servers a session has: one per alias that is not disabled, and one for its checks where it has any.

import type { AgentSpec } from '../../domain/spec.ts';

/** Of the checks, unless the agent has a tool of that name itself. */
export const checksAlias = 'checks';

/** Aliases of a session's tool servers, sorted. */
export function sessionAliases(spec: Pick<AgentSpec, 'tools'>, hasChecks: boolean): string[] {
  const declared = Object.entries(spec.tools).filter(([, tool]) => tool.disabled !== true);
  const aliases = new Set(declared.map(([alias]) => alias));
  if (hasChecks && !Object.hasOwn(spec.tools, checksAlias)) aliases.add(checksAlias);
  return [...aliases].toSorted();
}

/** An alias as the last segment of its server's path; `.` and `..` are names of tools, but steps in a path. */
export const aliasSegment = (alias: string): string => (isStep(alias) ? `~${alias}` : encodeURIComponent(alias));
/** The alias of a decoded segment. No alias holds a `~`. */
export const aliasOfSegment = (segment: string): string =>
  segment.startsWith('~') && isStep(segment.slice(1)) ? segment.slice(1) : segment;
const isStep = (text: string): boolean => text === '.' || text === '..';
