// How the cases under testdata/route are written, and how decisions are printed for them. Only tests import this.

import type { BindingPolicy, BindingTarget, Routing } from '../../domain/spec.ts';
import { summarize } from './route.ts';
import type {
  ActiveBinding,
  BindingEffect,
  Decision,
  RoutableEvent,
  RoutableTrigger,
  RoutingAgent,
  RoutingResult,
  SessionRef,
  Snapshot,
  Target,
} from './types.ts';

interface WrittenTrigger {
  readonly agent: string;
  readonly ordinal?: number;
  readonly routing: Routing;
}
export interface GoldenCase {
  readonly says: string;
  readonly event: {
    readonly key: string;
    /** `type:key`. */
    readonly target?: string;
    readonly attributions?: readonly (readonly [session: string, agent: string])[];
    readonly observed?: string | null;
    readonly depth?: number;
  };
  readonly agents?: {
    readonly [name: string]: { readonly concurrency?: 1; readonly bindings?: { [type: string]: BindingPolicy } };
  };
  /** A routing alone belongs to agent `a`; the ordinal is the place in the list. */
  readonly triggers: readonly (Routing | WrittenTrigger)[];
  readonly world: {
    /** `agent:session`, oldest first. */
    readonly sessions?: readonly string[];
    readonly slots?: { readonly [agent: string]: string };
    readonly threads?: { readonly [agent: string]: string };
    readonly bindings?: readonly {
      readonly agent: string;
      readonly target: string;
      readonly session: string | null;
      readonly lifecycle?: 'held';
      readonly context?: ActiveBinding['context'];
      readonly eventContext?: ActiveBinding['eventContext'];
    }[];
    readonly routed?: readonly string[];
  };
  readonly gives: readonly string[];
}

const targetOf = (text: string): Target => {
  const [type = '', key = ''] = text.split(':');
  return { type: type as BindingTarget, key };
};

/** An agent's id is its name. */
export function routeCase({ event, agents = {}, triggers, world }: GoldenCase): {
  readonly event: RoutableEvent;
  readonly triggers: RoutableTrigger[];
  readonly snapshot: Snapshot;
} {
  const known: RoutingAgent[] = ['a', 'b'].map((name) => ({ id: name, name, bindings: {}, ...agents[name] }));
  return {
    event: {
      key: event.key,
      target: event.target === undefined ? null : targetOf(event.target),
      attributions: (event.attributions ?? []).map(([sessionId, agent]) => ({ sessionId, agent, relation: 'bound' })),
      observed: typeof event.observed === 'string' ? targetOf(event.observed) : null,
      depth: event.depth ?? 0,
    },
    triggers: triggers.map((written, at) => {
      const { agent, ordinal = at, routing } = 'routing' in written ? written : { agent: 'a', routing: written };
      return { agentId: agent, agent, ordinal, event: event.key, scope: null, where: {}, fallback: false, routing };
    }),
    snapshot: {
      agents: new Map(known.map((agent) => [agent.id, agent])),
      sessions: (world.sessions ?? []).map((text) => {
        const [agentId = '', id = ''] = text.split(':');
        return { id, agentId };
      }),
      slots: new Map(Object.entries(world.slots ?? {})),
      threads: new Map(Object.entries(world.threads ?? {})),
      bindings: (world.bindings ?? []).map((written): ActiveBinding => {
        const { agent, target, session, lifecycle = 'manual', context = null, eventContext = null } = written;
        return { agentId: agent, target: targetOf(target), sessionId: session, lifecycle, context, eventContext };
      }),
      routed: new Set(world.routed ?? []),
    },
  };
}

const refText = (ref: SessionRef): string => ('session' in ref ? ref.session : `new ${ref.spawnedBy}`);
const targetText = (target: Target): string => `${target.type}:${target.key}`;

function effectText(effect: BindingEffect): string {
  const head = `  ${effect.agentId} ${effect.kind} ${targetText(effect.target)}`;
  const eventContext = effect.eventContext === null ? '' : ` event ${JSON.stringify(effect.eventContext)}`;
  if (effect.kind === 'release') return head + eventContext;
  const context = effect.context === null ? '' : ` context ${JSON.stringify(effect.context)}`;
  const over = effect.takesOver ? ' taking over' : '';
  return `${head} to ${refText(effect.holder)} ${effect.lifecycle} ${effect.continuity}${over}${context}${eventContext}`;
}

function decisionText(one: Decision): string {
  const claims = one.spawn === null ? '' : `${one.spawn.slot ? ' +slot' : ''}${one.spawn.thread ? ' +thread' : ''}`;
  const to = one.deliverTo.length === 0 ? '' : ` to ${one.deliverTo.map(refText).join(', ')}`;
  const because = one.because === null ? '' : ` by ${one.because}`;
  return `${one.trigger} ${one.decision}${to}${claims}${because}${one.severity === null ? '' : ` (${one.severity})`}`;
}

/** One line per automatic binding, decision and effect, and last the event's status. */
export function print({ autoBinds, decisions }: RoutingResult): string[] {
  const { routerStatus, severity } = summarize(decisions);
  return [
    ...autoBinds.map(effectText),
    ...decisions.flatMap((one) => [decisionText(one), ...one.effects.map(effectText)]),
    severity === null ? routerStatus : `${routerStatus}, ${severity}`,
  ];
}
