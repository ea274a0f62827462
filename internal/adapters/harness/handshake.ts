// The first call of a connection: what is said of this client, and what the program's answer says of itself. Pure.

import { PROTOCOL_VERSION } from '@agentclientprotocol/sdk';
import type { AgentInfo, LaunchPlan } from './types.ts';
import { fieldsOf, jsonText, nameOf } from './updates.ts';

export const initializeParams = (plan: LaunchPlan): object => ({
  protocolVersion: PROTOCOL_VERSION,
  clientInfo: { name: 'svc', version: '1' },
  clientCapabilities: {
    fs: { readTextFile: false, writeTextFile: false },
    terminal: false,
    _meta: plan.clientMeta,
  },
});

const versionBytesMax = 100;

/**
 * Which of the capabilities that `plan` asks of its sessions it has, and its name; a text: why it cannot be spoken to. Nothing else
 * of the answer is kept, which may be as large as a message.
 */
export function agentOf(
  answered: unknown,
  { afterOpen }: Pick<LaunchPlan, 'afterOpen'>,
): { readonly capabilities: ReadonlySet<string>; readonly info: AgentInfo } | string {
  const answer = fieldsOf(answered);
  const spoken = answer['protocolVersion'];
  if (spoken !== PROTOCOL_VERSION) {
    const said = jsonText(spoken, versionBytesMax)?.text ?? 'null';
    return `the harness speaks version ${said} of the protocol, not ${PROTOCOL_VERSION}`;
  }
  const all = fieldsOf(answer['agentCapabilities']);
  if (fieldsOf(all['mcpCapabilities'])['http'] !== true) return 'the harness does not speak to tool servers over HTTP';
  const said = fieldsOf(all['sessionCapabilities']);
  const has = (name: string): boolean => (said[name] ?? false) !== false;
  const info = fieldsOf(answer['agentInfo']);
  return {
    capabilities: new Set(afterOpen.flatMap(({ capability }) => capability ?? []).filter(has)),
    info: {
      name: nameOf(info['title']) ?? nameOf(info['name']) ?? 'unknown',
      version: nameOf(info['version']) ?? 'unknown',
      resume: has('resume') ? 'resume' : all['loadSession'] === true ? 'load' : 'none',
    },
  };
}
