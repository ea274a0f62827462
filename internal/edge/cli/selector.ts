// Which things of a list are meant, decided here: by labels of agents, as kubectl writes them, and by name.

import * as agents from '../../../schemas/api/agents.ts';
import * as endpoints from '../../../schemas/api/endpoints.ts';
import * as repositories from '../../../schemas/api/repositories.ts';
import type { Client } from './client.ts';
import { UsageError, refusal } from './failure.ts';
import { nameOf } from './formats.ts';
import { nearest } from './text.ts';

interface Requirement {
  readonly key: string;
  readonly op: 'equals' | 'differs' | 'has' | 'lacks';
  readonly value: string;
}

/** `a=b`, `a==b`, `a!=b`, `a`, `!a`, several by comma; all have to hold. */
export function requirementsOf(selectors: readonly string[]): Requirement[] {
  return selectors
    .flatMap((one) => one.split(','))
    .map((text) => {
      const match = /^\s*(?:(!)\s*([^=!\s]+)|([^=!\s]+?)\s*(?:(!=|==?)\s*(.*?))?)\s*$/.exec(text);
      const [, not, absent, key, op, value = ''] = match ?? [];
      if (not !== undefined && absent !== undefined) return { key: absent, op: 'lacks', value };
      if (key === undefined) throw new UsageError(`--selector takes label=value, not "${text}"`);
      return { key, op: op === undefined ? 'has' : op === '!=' ? 'differs' : 'equals', value };
    });
}

function matches(labels: { readonly [label: string]: string }, { key, op, value }: Requirement): boolean {
  const found = Object.hasOwn(labels, key) ? labels[key] : undefined;
  if (op === 'has') return found !== undefined;
  if (op === 'lacks') return found === undefined;
  return op === 'equals' ? found === value : found !== value;
}

/** Names of the agents whose labels are as the selectors say. */
export async function agentsWith(client: Client, selectors: readonly string[]): Promise<ReadonlySet<string>> {
  const requirements = requirementsOf(selectors);
  const { items } = await client.list(agents.listAgents);
  const meant = items.filter(({ spec }) => requirements.every((one) => matches(spec?.labels ?? {}, one)));
  return new Set(meant.map(({ name }) => name));
}

/** Whether a thing has this name, or an id that this is or is a piece of. */
export function isCalled(item: unknown, name: string): boolean {
  if (nameOf(item) === name) return true;
  const { id } = Object(item) as { readonly id?: unknown };
  const piece = name.toLowerCase();
  return typeof id === 'string' && (id === name || (piece.length >= 6 && (id.startsWith(piece) || id.endsWith(piece))));
}

/** Throws Refusal `agent-not-found` where no agent has this name. */
export async function requireAgent(client: Client, name: string): Promise<void> {
  requireName((await client.list(agents.listAgents)).items, 'agent', name);
}

/** Throws Refusal `repository-not-found` where no repository has this name. */
export async function requireRepository(client: Client, name: string): Promise<void> {
  requireName((await client.list(repositories.listRepositories)).items, 'repository', name);
}

/** Throws Refusal `endpoint-not-found` where no webhook endpoint has this name, nor holds it. */
export async function requireEndpoint(client: Client, name: string): Promise<void> {
  requireName((await client.list(endpoints.listEndpoints)).items, 'endpoint', name);
}

function requireName(items: readonly { readonly name: string }[], kind: string, name: string): void {
  const names = items.map((one) => one.name);
  if (names.includes(name)) return;
  const near = nearest(name, names);
  throw refusal(
    `${kind}-not-found`,
    `there is no ${kind} ${name}`,
    near === undefined ? undefined : `did you mean ${near}?`,
  );
}
