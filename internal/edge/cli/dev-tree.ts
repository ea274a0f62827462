// What `svc dev` applies to its throw-away daemon: one compiled agent as a document of its own, without what only an
// installation has. What is left out is said. Pure.

import type { AgentSpec, Resource, Trigger } from '../../domain/spec.ts';
import { explain, type MatchTrigger } from '../../core/match/match.ts';
import { startMessage } from '../../core/session/session.ts';
import { renderWithin } from '../../core/template/template.ts';
import type { Json, JsonObject } from '../../domain/json.ts';

export interface DevAgent {
  readonly name: string;
  readonly spec: AgentSpec;
  /** Text of `.svc/agents/<name>.json`. */
  readonly document: string;
  /** Secrets that it needs a value of. */
  readonly secrets: readonly string[];
  /** What was left out, a line each. */
  readonly notes: readonly string[];
}

/** The agent of this name, or the only one; undefined where there is none such. */
export function devAgent(resources: readonly Resource[], name: string): DevAgent | undefined {
  const agent = resources.find((one) => one.kind === 'Agent' && one.name === name);
  if (agent === undefined || agent.kind !== 'Agent') return undefined;
  const specOf = (kind: 'Environment' | 'Identity', wanted: unknown): JsonObject | undefined => {
    const found = resources.find((one) => one.kind === kind && one.name === wanted);
    return found === undefined ? undefined : ({ name: found.name, ...found.spec } as unknown as JsonObject);
  };
  const { spec } = agent;
  const notes: string[] = [];
  const tools = Object.entries(spec.tools).filter(([alias, tool]) => {
    const isHere =
      tool.kind === 'local' ? tool.implementation !== 'chat' : tool.kind === 'mcp_remote' && isOpen(tool.auth);
    if (!isHere) notes.push(`without the tool ${alias}: it needs a connection`);
    return isHere;
  });
  const mounts = spec.mounts.filter((mount) => {
    const isHere = isOpen(mount.auth);
    if (!isHere) notes.push(`without the mount ${mount.mountPath}: it needs a connection`);
    return isHere;
  });
  const { environment, identity, triggers: _triggers, bindings: _bindings, ...rest } = spec;
  const described = identity === undefined ? undefined : specOf('Identity', identity);
  // Pictures lie in files beside the documents.
  const { avatar: _avatar, ...face } = described ?? {};
  const hasFace = Object.keys(face).some((key) => key !== 'name');
  const document = {
    name,
    ...rest,
    environment: specOf('Environment', environment) ?? environment,
    ...(hasFace && { identity: face }),
    tools: Object.fromEntries(tools),
    mounts,
    triggers: [],
  };
  const text = JSON.stringify(document, null, 2);
  const secrets = [...new Set([...text.matchAll(/"\$secret": "([^"]+)"/g)].map(([, secret = '']) => secret))];
  return { name, spec, document: text, secrets, notes };
}

/** Whether it needs nothing that only an installation has. */
const isOpen = ({ kind }: { readonly kind: string }): boolean => kind === 'none' || kind === 'bearer';

export interface DevEvent {
  readonly key: string;
  readonly payload: Json;
}

/** What a session is told for an event, and which trigger says so; the reason where none of them takes it. */
export function promptFor(
  { name, spec }: DevAgent,
  { key, payload }: DevEvent,
): { readonly text: string; readonly ordinal: number } | { readonly why: string } {
  const listening = spec.triggers.map((trigger, ordinal) => ({ ...asMatch(name, trigger, ordinal), of: trigger }));
  const explained = explain(listening, { key, payload, scope: undefined });
  const taken = explained.find(({ matched }) => matched);
  if (taken === undefined) {
    if (explained.length === 0) {
      const keys = [...new Set(listening.map(({ event }) => event))].filter((one) => one !== '');
      return { why: `no trigger of ${name} listens to ${key}; it listens to ${keys.join(', ') || 'nothing'}` };
    }
    const missed = explained.flatMap(({ clauses }) => clauses.filter(({ matched }) => !matched));
    const [first] = missed;
    return {
      why: `no trigger of ${name} takes this ${key}: ${first?.path ?? 'a filter'} is ${JSON.stringify(first?.value) ?? 'not there'}, where ${JSON.stringify(first?.clause)} is asked`,
    };
  }
  const { message, attachedUserPrompt } = taken.trigger.of as {
    readonly message?: string;
    readonly attachedUserPrompt?: string;
  };
  const { initialPrompt } = spec;
  const source = { event: key, payload, message, attachedUserPrompt, initialPrompt };
  const { text, hiddenContext } = startMessage(source, renderWithin);
  return { text: hiddenContext === null ? text : `${text}\n\n${hiddenContext}`, ordinal: taken.trigger.ordinal };
}

function asMatch(agent: string, trigger: Trigger, ordinal: number): MatchTrigger {
  const event = trigger.kind === 'event' ? trigger.event : '';
  return { agent, ordinal, event, scope: null, where: trigger.where, fallback: trigger.fallback };
}
