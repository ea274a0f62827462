// Tools whose work is done outside: at the code host, at a connected provider, at a remote server that is signed in to by
// OAuth. Which of them an alias has is decided here, before anything is looked up; calling them is not part of this
// version, and each says so.

import type { Catalog } from '../../domain/catalog.ts';
import { Fault } from '../../domain/fault.ts';
import type { AgentSpec, CapabilityLevel, Tool } from '../../domain/spec.ts';

/** The read-only surface of an error-tracking connection (contract, section 7). */
const ERRTRACK: { readonly [name: string]: string } = {
  list_projects: 'List the projects of the error tracker that this project may investigate.',
  search_issues: 'Search issues of the error tracker.',
  get_issue_details: 'Show one issue of the error tracker.',
  get_latest_event: 'Show the latest event of an issue of the error tracker.',
};

type Outside = Extract<Tool, { kind: 'codehost' | 'connection' | 'mcp_remote' }>;

/** Name → description of the tools that an alias has. */
export function outsideTools(
  tool: Outside,
  mounts: AgentSpec['mounts'],
  catalog: Catalog['codehostTools'],
): ReadonlyMap<string, string> {
  if (tool.kind === 'codehost') {
    const named = tool.tools ?? Object.keys(catalog).filter((name) => catalog[name]?.default === true);
    const allowed = named.filter(
      (name) => Object.hasOwn(catalog, name) && isGranted(mounts, name, catalog[name]?.needs),
    );
    return new Map(allowed.map((name) => [name, `Code host: ${name.replaceAll('_', ' ')}.`]));
  }
  return new Map(tool.kind === 'connection' && tool.provider === 'errtrack' ? Object.entries(ERRTRACK) : []);
}

const atLeast = (level: CapabilityLevel, wanted: 'read' | 'write'): boolean =>
  level === 'write' || (level === 'read' && wanted === 'read');

/** Merge and secrets tools need the capability of a mount, also where an agent names them (spec, Tools). */
function isGranted(mounts: AgentSpec['mounts'], name: string, needs: 'merge' | 'secrets' | undefined): boolean {
  if (needs === undefined) return true;
  const wanted = name.startsWith('list_') ? 'read' : 'write';
  return mounts.some(({ auth }) => auth.kind === 'codehostApp' && atLeast(auth.capabilities[needs], wanted));
}

/** Why a tool that is there cannot be called. */
export function notYet(tool: Outside): Fault {
  const what =
    tool.kind === 'codehost'
      ? 'call the code host for sessions'
      : tool.kind === 'connection'
        ? `call ${tool.provider} for sessions`
        : `sign in to remote tools by ${tool.auth.kind}`;
  return new Fault('unavailable', 'not-available', `This version of svc does not ${what} yet; nothing was done.`);
}
