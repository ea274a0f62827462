// What a session's processes get as their environment (docs/reference/compile.md#environments), and its harness as system prompt.

import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { hiddenContextHeading } from '../../core/session/session.ts';
import { Fault } from '../../domain/fault.ts';
import type { EnvMap } from '../../domain/spec.ts';
import { programTextBytesMax, variableBytes } from '../../domain/program-text.ts';
import type { FlowContext } from '../context.ts';
import type { SecretUse } from '../secrets/secrets.ts';

/**
 * What a launch resolves: the references of the merged maps, where the agent's goes before the environment's of the same
 * name, and the tokens of remote tools, so that the idle clock of each starts again with each launch.
 */
export function secretUses({ environment, spec }: LaunchFacts): SecretUse[] {
  const merged: EnvMap = { ...environment?.env, ...spec.env };
  const inEnv = Object.entries(merged).flatMap(([variable, value]) =>
    typeof value === 'string'
      ? []
      : [{ variable, name: value.$secret, ...(value.optional === true && { optional: true }) }],
  );
  const tokens = Object.entries(spec.tools).flatMap(([tool, declared]) =>
    declared.disabled !== true && declared.kind === 'mcp_remote' && declared.auth.kind === 'bearer'
      ? [{ tool, name: declared.auth.token.$secret }]
      : [],
  );
  return [...inEnv, ...tokens];
}

/** Throws Fault for a value that no environment can hold. */
export function environmentOf(
  ctx: FlowContext,
  session: ClaimedSession,
  { spec, environment, project }: LaunchFacts,
  secrets: ReadonlyMap<string, Buffer>,
): Record<string, string> {
  const declared = Object.entries({ ...environment?.env, ...spec.env });
  const plain = declared.filter((pair): pair is [string, string] => typeof pair[1] === 'string');
  const opened = [...secrets].map(([variable, value]) => {
    if (value.includes(0)) {
      throw new Fault('unprocessable', 'secret-unusable', `The secret of ${variable} holds a NUL: no environment can.`);
    }
    return [variable, value.toString('utf8')] as const;
  });
  const long = [...plain, ...opened].find(([name, value]) => variableBytes(name, value) > programTextBytesMax);
  if (long !== undefined) {
    const message = `The value of ${long[0]} has more than the ${programTextBytesMax} bytes that a variable may have.`;
    throw new Fault('unprocessable', 'sandbox-env', message);
  }
  return {
    ...Object.fromEntries([...plain, ...opened]),
    SVC_SESSION_ID: session.sessionId,
    SVC_AGENT_NAME: session.agent,
    SVC_PROJECT: project.slug,
    SVC_BASE_URL: ctx.baseUrl,
  };
}

/** The agent’s prompt with the trigger’s hidden message below it; empty where there is neither. */
export function systemPromptOf({ spec }: LaunchFacts, session: ClaimedSession): { readonly systemPrompt?: string } {
  const hidden = session.hiddenContext === null ? [] : [`## ${hiddenContextHeading}\n\n${session.hiddenContext}`];
  const parts = [...(spec.systemPrompt === undefined ? [] : [spec.systemPrompt]), ...hidden];
  return parts.length === 0 ? {} : { systemPrompt: parts.join('\n\n') };
}
