// Tools whose work is done outside: at the code host, at a connected provider, at a remote server that is signed in to by
// OAuth. Which of them an alias has is decided here, before anything is looked up; calling them is not part of this
// version, and each says so.

import { Fault } from '../../domain/fault.ts';
import type { Tool } from '../../domain/spec.ts';

/** The read-only surface of an error-tracking connection (contract, section 7). */
const ERRTRACK: { readonly [name: string]: string } = {
  list_projects: 'List the projects of the error tracker that this project may investigate.',
  search_issues: 'Search issues of the error tracker.',
  get_issue_details: 'Show one issue of the error tracker.',
  get_latest_event: 'Show the latest event of an issue of the error tracker.',
};

type Outside = Extract<Tool, { kind: 'codehost' | 'connection' | 'mcp_remote' }>;

/** Name → description of the tools that an alias has. */
export function outsideTools(tool: Outside): ReadonlyMap<string, string> {
  return new Map(tool.kind === 'connection' && tool.provider === 'errtrack' ? Object.entries(ERRTRACK) : []);
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
