// The first call of a connection: what is said of this client, and what the program's answer says of itself. Pure.

import { PROTOCOL_VERSION } from '@agentclientprotocol/sdk';
import type { AgentInfo, LaunchPlan } from './types.ts';
import { fieldsOf, textOf } from './updates.ts';

export const initializeParams = (plan: LaunchPlan): object => ({
  protocolVersion: PROTOCOL_VERSION,
  clientInfo: { name: 'svc', version: '1' },
  clientCapabilities: {
    fs: { readTextFile: false, writeTextFile: false },
    terminal: false,
    _meta: plan.clientMeta,
  },
});

type Capabilities = { readonly [name: string]: unknown };

export function supports(capabilities: Capabilities, name: string): boolean {
  const value = capabilities[name];
  return value !== undefined && value !== null && value !== false;
}

/** Its sessions' capabilities and its name; a text: why it cannot be spoken to. */
export function agentOf(answered: unknown): { readonly capabilities: Capabilities; readonly info: AgentInfo } | string {
  const answer = fieldsOf(answered);
  if (answer['protocolVersion'] !== PROTOCOL_VERSION) {
    const spoken = JSON.stringify(answer['protocolVersion'] ?? null);
    return `the harness speaks version ${spoken} of the protocol, not ${PROTOCOL_VERSION}`;
  }
  const all = fieldsOf(answer['agentCapabilities']);
  if (fieldsOf(all['mcpCapabilities'])['http'] !== true) return 'the harness does not speak to tool servers over HTTP';
  const capabilities = fieldsOf(all['sessionCapabilities']);
  const info = fieldsOf(answer['agentInfo']);
  return {
    capabilities,
    info: {
      name: textOf(info['title']) ?? textOf(info['name']) ?? 'unknown',
      version: textOf(info['version']) ?? 'unknown',
      resume: supports(capabilities, 'resume') ? 'resume' : all['loadSession'] === true ? 'load' : 'none',
    },
  };
}
