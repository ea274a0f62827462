// What a sandbox is given to work with beside its files: secrets, and its ways to model, tools, network and git.

import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import type { EdgeAuthority, EdgeInjection } from '../ports.ts';
import { placeholderOf, resolveSecrets } from '../secrets/secrets.ts';
import { type ModelBudget, openGit, openModelRoute, openTools } from './channels.ts';
import { environmentOf, secretUses } from './environment.ts';
import { artifactsPath } from './result-collector.ts';
import type { Mask } from './mask.ts';
import { checkInjections, openEdge, type SessionNetwork } from './network.ts';

type Stop = () => Promise<void> | void;

interface Opening {
  readonly session: ClaimedSession;
  readonly mask: Mask;
  readonly stops: Stop[];
  /** Hears when a spend cap is reached. */
  readonly onCapped: () => void;
}

interface OpenedSecrets {
  /** By variable. */
  readonly env: ReadonlyMap<string, Buffer>;
  readonly injections: readonly EdgeInjection[];
  /** Values that must not show. */
  readonly values: readonly string[];
  /** Secrets that are to be injected stand in the environment. */
  readonly isInline: boolean;
}

/** Opens a session's secrets, and hides them. Throws Fault for one that is not there, or whose host is not reached. */
export async function openSecrets(
  ctx: FlowContext,
  { session, mask, stops }: Omit<Opening, 'onCapped'>,
  facts: LaunchFacts,
  network: SessionNetwork,
): Promise<OpenedSecrets> {
  const mode = network.hasEdge ? 'edge-injection' : 'env';
  const use = { session: session.sessionId, mode } as const;
  const secrets = await resolveSecrets(ctx, facts.project, secretUses(facts), use);
  stops.push(() => secrets.wipe());
  const { injections } = secrets;
  checkInjections(network, injections);
  const placeholders = new Set(injections.map(({ name }) => placeholderOf(name)));
  const delivered = [...secrets.env.values()].map(String).filter((value) => !placeholders.has(value));
  const values = [...delivered, ...injections.flatMap(({ value, raw }) => [String(value), String(raw)])];
  mask.hide(values);
  return { env: secrets.env, injections, values, isInline: secrets.inline.length > 0 };
}

export interface SessionWiring {
  readonly money: ModelBudget;
  /** Where its tools are, as it sees them. */
  readonly origin: string;
  /** Where its git reaches the mounts; undefined where there are none. */
  readonly gitUrl: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Of `env`, what leads to the network. */
  readonly networkEnv: Readonly<Record<string, string>>;
  readonly authority: EdgeAuthority | undefined;
}

/** What an earlier process had opened the same ways with; the programs inside know it. */
interface KnownWiring {
  readonly token: string;
  readonly authority?: EdgeAuthority | undefined;
}

/** Throws Capped where a spend cap is reached. */
export async function wireSession(
  ctx: FlowContext,
  ports: HostPorts,
  of: Opening & {
    readonly facts: LaunchFacts;
    readonly model: ModelSpec;
    readonly sandbox: Sandbox;
    readonly network: SessionNetwork;
    readonly secrets: OpenedSecrets;
  },
  known?: KnownWiring,
): Promise<SessionWiring> {
  const { session, facts, model, sandbox, network, secrets, mask, stops, onCapped } = of;
  const { token, authority: knownAuthority } = known ?? {};
  const money = await openModelRoute(ctx, {
    ...{ session, spec: facts.spec, model, sandbox, mask, stops, onCapped },
    token,
  });
  const origin = await openTools(ports.tools(), sandbox, stops);
  const { networkEnv, authority } = await openEdge(ctx, {
    ...{ network, sessionId: session.sessionId, injections: secrets.injections, sandbox, stops },
    authority: knownAuthority,
  });
  const artifacts = { SVC_ARTIFACTS: sandbox.pathIn(artifactsPath) };
  const env = { ...environmentOf(ctx, session, facts, secrets.env), ...artifacts, ...networkEnv };
  const gitUrl = await openGit(ctx, { session, spec: facts.spec, project: facts.project, sandbox, stops });
  return { money, origin, gitUrl, env, networkEnv, authority };
}
