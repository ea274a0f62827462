// Tools whose work is done outside and that this version does not call: their servers are there, have no tools, and say so.

import { Fault } from '../../domain/fault.ts';
import type { Tool } from '../../domain/spec.ts';

export type Outside = Extract<Tool, { kind: 'codehost' | 'connection' | 'mcp_remote' }>;

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
