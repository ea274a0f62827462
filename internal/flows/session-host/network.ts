// What a session reaches (docs/reference/sessions.md#network): whether it is fenced, its edge, and what programs inside
// are told of it.

import type { Sandbox, SandboxProvider } from '../../adapters/sandbox/sandbox.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { injectionOutside, intersectHosts } from '../../core/egress/egress.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import type { EdgeAuthority, EdgeInjection } from '../ports.ts';
import { channelPorts } from './channels.ts';

export interface SessionNetwork {
  readonly fenced: boolean;
  /** What its edge lets through; nothing where no list was given. */
  readonly allow: readonly string[];
  /** Whether the fence has an edge here, at which secrets are injected. */
  readonly hasEdge: boolean;
}

/** With a list, of the installation or of the project, a session is fenced; as it is by a setting, and in every engine. */
export function networkOf(
  ctx: FlowContext,
  ports: Pick<HostPorts, 'fenced' | 'allow'>,
  { project }: LaunchFacts,
  {
    capabilities: { networkFence, injectionEdge },
    alwaysFenced,
  }: Pick<SandboxProvider, 'capabilities' | 'alwaysFenced'>,
): SessionNetwork {
  const allow = intersectHosts(ports.allow, project.network?.allow);
  const fenced = ports.fenced || allow !== undefined || alwaysFenced === true;
  return { fenced, allow: allow ?? [], hasEdge: fenced && networkFence && injectionEdge && ctx.egress !== undefined };
}

/** Throws Fault for a secret whose host is not reached: its placeholder would be of no use. */
export function checkInjections(network: SessionNetwork, injections: readonly EdgeInjection[]): void {
  const outside = injectionOutside(network.allow, injections);
  if (outside === undefined) return;
  const { name, host } = outside;
  const message = `Injected secret ${name}: its host ${host} is not among those that the session may reach (network.allow)`;
  throw new Fault('unprocessable', 'injection-host', message);
}

const loopback = 'localhost,127.0.0.1,::1';

interface OpenedEdge {
  /** Variables that lead programs there; none without an edge. */
  readonly networkEnv: Readonly<Record<string, string>>;
  readonly authority: EdgeAuthority | undefined;
}

/** Opens the edge of a fenced sandbox. */
export async function openEdge(
  ctx: FlowContext,
  of: {
    readonly network: SessionNetwork;
    readonly sessionId: string;
    readonly injections: readonly EdgeInjection[];
    readonly sandbox: Sandbox;
    readonly stops: (() => Promise<void> | void)[];
    /** Of the edge that the sandbox trusts. */
    readonly authority: EdgeAuthority | undefined;
  },
): Promise<OpenedEdge> {
  const { network, sessionId, injections, sandbox, stops, authority } = of;
  if (!network.hasEdge || !sandbox.fenced || ctx.egress === undefined) return { networkEnv: {}, authority: undefined };
  const socketPath = sandbox.socketOf('egress');
  const route = await ctx.egress.open({ sessionId, allow: network.allow, injections, socketPath, authority });
  stops.push(() => route.close());
  const proxy = `http://127.0.0.1:${channelPorts.egress}`;
  const ways = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: loopback };
  const lower = Object.entries(ways).map(([name, value]) => [name.toLowerCase(), value] as const);
  const trust = await sandbox.setTrust(route.trust ?? null);
  const networkEnv = {
    ...ways,
    ...Object.fromEntries(lower),
    // Node does not look at the others by itself.
    NODE_USE_ENV_PROXY: '1',
    ...(trust !== null && {
      NODE_EXTRA_CA_CERTS: trust.ca,
      SSL_CERT_FILE: trust.all,
      REQUESTS_CA_BUNDLE: trust.all,
      CURL_CA_BUNDLE: trust.all,
      GIT_SSL_CAINFO: trust.all,
    }),
  };
  return { networkEnv, authority: route.authority };
}
