// What must exist when an apply names it: the connection that a trigger or a tool means, and whether it may be used
// (docs/reference/compile.md#triggers and #tools), and secrets, which have to be live (docs/reference/secrets.md#resolution,
// docs/reference/webhook-endpoints.md#problems).

import type { EnvMap, EventTrigger, Tool } from '../../domain/spec.ts';
import { messageOf } from '../../domain/messages.ts';
import { fitsNeed, toolNeeds } from '../../domain/tool-needs.ts';
import { type Facts, type Report, toldName } from './stored.ts';
import type { Desired, DesiredAgent, DesiredResource, PlanOptions, TriggerStatus } from './types.ts';
import { injectionOutside, intersectHosts } from '../egress/egress.ts';

const sources = ['codehost', 'tracker', 'chat'] as const;
type Source = (typeof sources)[number];

/** The connected source of an event key, or undefined for `svc.` and `webhook.` keys, which take no connection. */
function sourceOf(event: string): Source | undefined {
  const prefix = event.slice(0, event.indexOf('.'));
  return sources.find((source) => source === prefix);
}

export interface ResolvedTrigger {
  readonly connectionId: string | null;
  readonly status: TriggerStatus;
}
const active: ResolvedTrigger = { connectionId: null, status: 'active' };
const skipped: ResolvedTrigger = { connectionId: null, status: 'skipped' };

interface TriggerAt {
  readonly agent: DesiredResource;
  readonly ordinal: number;
  readonly trigger: EventTrigger;
}

/** The connection of an event trigger: the named one, or the only active one of its source. */
export function resolveTrigger(facts: Facts, at: TriggerAt, report: Report): ResolvedTrigger {
  const source = sourceOf(at.trigger.event);
  if (source === undefined) return active;
  return at.trigger.connection === undefined
    ? resolveOnly(facts, at, source, report)
    : resolveNamed(facts, at, source, at.trigger.connection, report);
}

function resolveNamed(facts: Facts, at: TriggerAt, source: Source, name: string, report: Report): ResolvedTrigger {
  const connection = facts.connectionByName.get(name);
  if (connection !== undefined && connection.provider === source && connection.active) {
    return { connectionId: connection.id, status: 'active' };
  }
  if (at.trigger.optional === true) return skipped;
  const path = ['triggers', at.ordinal, 'connection'];
  const hint = 'Add the connection, or set optional: true to skip the trigger until it is there.';
  if (connection?.provider === source) {
    // The key is left out: several keys share one `connection`, and one mistake is told once (docs/reference/compile.md#files).
    const message = `Connection ${toldName(name)} has no active grant, and ${source} events need one`;
    report({ resource: at.agent, path, code: 'connection-inactive', message, hint });
  } else {
    const what = connection === undefined ? 'does not exist' : `is a ${connection.provider} connection`;
    const message = `Connection ${toldName(name)} ${what}; ${source} events need a ${source} connection`;
    // One of another kind is there already: adding it, or waiting for it, changes nothing.
    const other =
      connection === undefined ? hint : `Name a ${source} connection, or leave connection out where there is one.`;
    report({ resource: at.agent, path, code: 'connection-missing', message, hint: other });
  }
  return skipped;
}

function resolveOnly(facts: Facts, at: TriggerAt, source: Source, report: Report): ResolvedTrigger {
  const candidates = facts.current.connections.filter((item) => item.provider === source && item.active);
  const [first] = candidates;
  if (first !== undefined && candidates.length === 1) return { connectionId: first.id, status: 'active' };
  const path = ['triggers', at.ordinal, 'event'];
  if (candidates.length > 1) {
    const names = candidates.map((item) => item.name).sort();
    const message = `${at.trigger.event} does not say which ${source} connection it means; the project has ${names.join(', ')}`;
    const hint = `Name one with connection: ${names[0]}.`;
    report({ resource: at.agent, path, code: 'connection-ambiguous', message, hint });
    return skipped;
  }
  if (at.trigger.optional === true) return skipped;
  const message = `${at.trigger.event} needs an active ${source} connection, and the project has none`;
  const hint = 'Add the connection, or set optional: true to skip the trigger until it is there.';
  report({ resource: at.agent, path, code: 'connection-missing', message, hint });
  return skipped;
}

/** Every connection that a tool references has an active grant, unless the tool is optional (docs/reference/compile.md#tools). */
export function checkTool(facts: Facts, agent: DesiredResource, alias: string, tool: Tool, report: Report): void {
  for (const need of toolNeeds(tool)) {
    const connection = facts.connectionByName.get(need.connection);
    const fits = connection !== undefined && fitsNeed(connection, need);
    if (need.optional || (fits && connection.active)) continue;
    const path = ['tools', alias, ...need.path];
    const name = toldName(need.connection);
    const hint = 'Add the connection, or set optional: true to go without the tool until it is there.';
    if (fits) {
      const message = `Connection ${name} has no active grant, and tool ${alias} needs it`;
      report({ resource: agent, path, code: 'connection-inactive', message, hint });
    } else {
      const what = connection === undefined ? 'does not exist' : `is a ${connection.product} connection`;
      const message = `Connection ${name} ${what}; tool ${alias} needs one of provider ${need.provider}`;
      const other = connection === undefined ? hint : `Name a connection of provider ${need.provider}.`;
      report({ resource: agent, path, code: 'connection-missing', message, hint: other });
    }
  }
}

interface SecretAt {
  readonly resource: DesiredResource;
  readonly path: readonly (string | number)[];
  readonly name: string;
}

/** The words are those of a launch that lacks the secret (docs/reference/messages.md). */
function checkSecret(facts: Facts, at: SecretAt, report: Report): void {
  if (facts.current.liveSecrets.has(at.name)) return;
  const expired = facts.current.expiredSecrets.has(at.name);
  const name = toldName(at.name);
  report({
    resource: at.resource,
    path: at.path,
    code: 'secret-missing',
    message: expired ? messageOf('secretExpired', at.name) : messageOf('secretNotFound', at.name),
    hint: expired
      ? `Write a new value with: svc secret set ${name}`
      : `Set it with: svc secret set ${name} (in the project or the organization)`,
  });
}

/** `$secret` references of an agent's or an environment's env; optional ones need not exist. */
export function checkEnv(facts: Facts, resource: DesiredResource, env: EnvMap, report: Report): void {
  for (const [key, value] of Object.entries(env)) {
    if (typeof value === 'string' || value.optional === true) continue;
    checkSecret(facts, { resource, path: ['env', key], name: value.$secret }, report);
  }
}

/** The token of a remote tool with bearer auth. */
export function checkToken(facts: Facts, resource: DesiredResource, alias: string, tool: Tool, report: Report): void {
  if (tool.kind !== 'mcp_remote' || tool.auth.kind !== 'bearer') return;
  checkSecret(facts, { resource, path: ['tools', alias, 'auth', 'token'], name: tool.auth.token.$secret }, report);
}

/**
 * A secret that expires when no launch has used it for a while, behind an endpoint: requests of callers restart no clock, so
 * it expires under them.
 */
export function checkIdleExpiry(
  facts: Facts,
  resource: DesiredResource,
  at: { readonly ordinal: number; readonly endpoint: string; readonly name: string; readonly isOwn: boolean },
  report: Report,
): void {
  if (!facts.current.idleSecrets.has(at.name)) return;
  report({
    resource,
    path: ['triggers', at.ordinal, ...(at.isOwn ? ['auth', 'secretRef'] : ['endpoint'])],
    code: 'endpoint-idle-expiry',
    severity: 'warning',
    message: `Secret ${at.name} of webhook endpoint ${at.endpoint} has an idle expiry, which requests to the endpoint do not restart`,
    hint: `Write it anew with an absolute expiry or none: svc secret set ${at.name}`,
  });
}

/** The secret that a trigger's own `auth` names; an inherited one is the endpoint's affair and shown as its problem. */
export function checkEndpointSecret(
  facts: Facts,
  resource: DesiredResource,
  ordinal: number,
  name: string,
  report: Report,
): void {
  checkSecret(facts, { resource, path: ['triggers', ordinal, 'auth', 'secretRef'], name }, report);
}

// Secrets that are to be injected, as a launch will refuse them (docs/reference/secrets.md#injection): two that claim one
// header of one host, and one whose host the session does not reach. They are told as warnings: how a secret is injected is
// not in the tree, and a push does not fail for what somebody has set, or will set, elsewhere.

type DesiredEnvironment = Extract<DesiredResource, { kind: 'Environment' }>;

interface Injected {
  readonly resource: DesiredResource;
  readonly variable: string;
  readonly name: string;
  readonly hosts: readonly string[];
  readonly header: string;
}

/** Judges agents with their environments. */
export function checkInjections(
  desired: Desired,
  agents: readonly DesiredAgent[],
  facts: Facts,
  options: PlanOptions,
  report: Report,
): void {
  const { injections } = facts.current;
  if (injections === undefined || injections.size === 0) return;
  const environments = new Map(
    desired.resources.flatMap((one) => (one.kind === 'Environment' ? [[one.name, one] as const] : [])),
  );
  // An environment is many agents': what is wrong with it alone is the same mistake, which a plan tells once.
  for (const agent of agents) {
    const environment = environments.get(agent.spec.environment);
    const used = injectedOf(agent, environment, injections);
    checkConflict(used, report);
    checkHosts(used, environment, facts, options, report);
  }
}

/** By secret, at the variable that a launch gives it; the agent's go before the environment's of the same name. */
function injectedOf(
  agent: DesiredAgent,
  environment: DesiredEnvironment | undefined,
  injections: NonNullable<Facts['current']['injections']>,
): Injected[] {
  const from = (resource: DesiredResource, env: EnvMap): Injected[] =>
    Object.entries(env).flatMap(([variable, value]) => {
      if (typeof value === 'string') return [];
      const injection = injections.get(value.$secret);
      return injection === undefined ? [] : [{ resource, variable, name: value.$secret, ...injection }];
    });
  const own = from(agent, agent.spec.env);
  const rest = environment === undefined ? [] : from(environment, environment.spec.env);
  const all = [...own, ...rest.filter(({ variable }) => !Object.hasOwn(agent.spec.env, variable))];
  return all.filter((one, index) => all.findIndex(({ name }) => name === one.name) === index);
}

function checkConflict(used: readonly Injected[], report: Report): void {
  const claims = new Map<string, Injected>();
  for (const one of used.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    for (const host of one.hosts) {
      const header = one.header.toLowerCase();
      const other = claims.get(`${host} ${header}`);
      if (other === undefined) {
        claims.set(`${host} ${header}`, one);
        continue;
      }
      const message = `Injected secrets ${other.name} and ${one.name} both claim header ${header} of host ${host}`;
      const { resource, variable } = one;
      const hint = 'Let one of them name another host or header: svc secret edit.';
      report({ resource, path: ['env', variable], code: 'injection-conflict', message, hint, severity: 'warning' });
      return;
    }
  }
}

/** Only where the session is sure to have an edge: elsewhere the value itself is delivered. */
function checkHosts(
  used: readonly Injected[],
  environment: DesiredEnvironment | undefined,
  { current }: Facts,
  { network }: PlanOptions,
  report: Report,
): void {
  const preset = environment?.spec.image.name;
  if (network === undefined || preset === undefined) return;
  const allow = intersectHosts(network.allow, current.allow ?? undefined);
  const hasEdge = network.fenced.includes(preset) || (allow !== undefined && network.fencedByList.includes(preset));
  if (!hasEdge) return;
  for (const one of used) {
    const outside = injectionOutside(allow ?? [], [one]);
    if (outside === undefined) continue;
    const message = `Injected secret ${one.name}: its host ${outside.host} is not among those that the session may reach (network.allow)`;
    const hint = `Add ${outside.host} to network.allow of the project and of the installation.`;
    const { resource, variable } = one;
    report({ resource, path: ['env', variable], code: 'injection-host', message, hint, severity: 'warning' });
  }
}
