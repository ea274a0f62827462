// Secrets that are to be injected, as a launch will refuse them (docs/reference/secrets.md#injection): two that claim one
// header of one host, and one whose host the session does not reach. They are told as warnings: how a secret is injected is
// not in the tree, and a push does not fail for what somebody has set, or will set, elsewhere.

import { injectionOutside, together } from '../egress/egress.ts';
import type { EnvMap } from '../../domain/spec.ts';
import type { Facts, Report } from './stored.ts';
import type { DesiredAgent } from './agents.ts';
import type { Desired, DesiredResource, PlanOptions } from './types.ts';

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
  const told = new Set<string>();
  // An environment is many agents': what is wrong with it alone is told once.
  const once: Report = (problem) => {
    const key = JSON.stringify([problem.resource.kind, problem.resource.name, problem.path, problem.message]);
    if (told.has(key)) return;
    told.add(key);
    report(problem);
  };
  for (const agent of agents) {
    const environment = environments.get(agent.spec.environment);
    const used = injectedOf(agent, environment, injections);
    checkConflict(used, once);
    checkHosts(used, environment, facts, options, once);
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
      const injection = typeof value === 'string' ? undefined : injections.get(value.$secret);
      return typeof value === 'string' || injection === undefined
        ? []
        : [{ resource, variable, name: value.$secret, ...injection }];
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
  const allow = together(network.allow, current.allow ?? undefined);
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
