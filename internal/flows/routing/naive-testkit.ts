// Routing written naively: one event after the other over plain lists, no batches, no caches, no sets. What the database
// holds after routing is held against it. Only tests import this.

import type { ActiveTrigger } from '../../adapters/store/resources/triggers.ts';
import { matchEach } from '../../core/match/match.ts';
import { type Attribution, route, type RoutingAgent, type SessionRef, type Target } from '../../core/route/route.ts';
import type { JsonObject } from '../../domain/json.ts';

export interface NaiveEvent {
  readonly name: string;
  readonly key: string;
  readonly target: Target | null;
  readonly payload: JsonObject;
  readonly depth: number;
}
interface NaiveSession {
  readonly name: string;
  readonly agentId: string;
  live: boolean;
  thread: string | null;
  slot: boolean;
  readonly heard: string[];
}
interface NaiveBinding {
  readonly agentId: string;
  readonly target: Target;
  session: string | null;
  lifecycle: 'manual' | 'held';
  continuity: 'session' | 'agent';
  context: JsonObject | null;
  eventContext: { readonly bound?: JsonObject; readonly updated?: JsonObject; readonly unbound?: JsonObject } | null;
}

const same = (a: Target | null, b: Target | null): boolean => a?.type === b?.type && a?.key === b?.key;

export class Naive {
  readonly #triggers: readonly ActiveTrigger[];
  readonly sessions: NaiveSession[] = [];
  bindings: NaiveBinding[] = [];
  readonly queue: NaiveEvent[] = [];
  /** `event agent#ordinal decision → sessions`, and binding events by their names. */
  readonly log: string[] = [];
  #emitted = 0;

  constructor(triggers: readonly ActiveTrigger[]) {
    this.#triggers = triggers;
  }

  #attributions(target: Target | null): Attribution[] {
    if (target === null) return [];
    const agentOf = (id: string): string => this.#triggers.find((one) => one.agentId === id)?.agent ?? '';
    const bound = this.bindings.flatMap((one) =>
      same(one.target, target) && one.session !== null
        ? [{ sessionId: one.session, agent: agentOf(one.agentId), relation: 'bound' }]
        : [],
    );
    const claimed = this.sessions.flatMap((one) =>
      one.live && target.type === 'chat.thread' && one.thread === target.key
        ? [{ sessionId: one.name, agent: agentOf(one.agentId), relation: 'thread' }]
        : [],
    );
    return [...bound, ...claimed];
  }

  /** False where it does not come to an end within reason: binding events may multiply before they are stopped. */
  run(): boolean {
    for (let event = this.queue.shift(); event !== undefined; event = this.queue.shift()) {
      this.#route(event);
      if (this.log.length > 1_000) return false;
    }
    return true;
  }

  #route(event: NaiveEvent): void {
    const attributions = this.#attributions(event.target);
    const svc = attributions.length === 0 ? {} : { svc: { attributions: attributions.map((one) => ({ ...one })) } };
    const payload = { ...event.payload, ...svc };
    const routable = this.#triggers.map((row) => ({
      agentId: row.agentId,
      agent: row.agent,
      ordinal: row.ordinal,
      event: row.event,
      scope: null,
      where: row.spec.where,
      fallback: row.spec.fallback,
      routing: row.spec.routing,
    }));
    const matched = matchEach(routable, { key: event.key, scope: null, payload });
    const told = (event.payload['binding'] as { target: Target } | undefined)?.target ?? null;
    const live = this.sessions.filter((one) => one.live);
    const { autoBinds, decisions } = route(
      { key: event.key, target: event.target, attributions, observed: told, depth: event.depth },
      matched,
      {
        agents: new Map(this.#triggers.map((row) => [row.agentId, agentIn(row)])),
        sessions: live.map(({ name, agentId }) => ({ id: name, agentId })),
        slots: new Map(live.filter((one) => one.slot).map((one) => [one.agentId, one.name])),
        threads: new Map(
          live
            .filter(
              (one) => one.thread !== null && event.target?.type === 'chat.thread' && one.thread === event.target.key,
            )
            .map((one) => [one.agentId, one.name]),
        ),
        bindings: this.bindings
          .filter((one) => same(one.target, event.target) || same(one.target, told))
          .map((one) => ({ ...one, sessionId: one.session })),
        routed: new Set(),
      },
    );
    const nameOf = (ref: SessionRef): string => ('session' in ref ? ref.session : `${event.name}/${ref.spawnedBy}`);
    for (const effect of autoBinds) this.#bind(effect, nameOf(effect.holder), event.depth);
    for (const one of decisions) {
      if (one.spawn !== null) {
        const { slot, thread } = one.spawn;
        const name = `${event.name}/${one.trigger}`;
        this.sessions.push({ name, agentId: one.agentId, live: true, slot, thread: thread?.key ?? null, heard: [] });
      }
      const to = one.deliverTo.map(nameOf);
      for (const name of to)
        this.sessions.find((each) => each.name === name)?.heard.push(`${event.name} ${one.trigger}`);
      for (const effect of one.effects) {
        if (effect.kind === 'bind') this.#bind(effect, nameOf(effect.holder), event.depth);
        else this.#release(effect.agentId, effect.target, event.depth);
      }
      this.log.push(`${event.name} ${one.trigger} ${one.decision} → ${to.join(', ')}`);
    }
  }

  #bind(effect: Omit<NaiveBinding, 'session'>, session: string, depth: number): void {
    const { agentId, target, lifecycle, continuity, context, eventContext } = effect;
    const standing = this.bindings.find((one) => one.agentId === agentId && same(one.target, target));
    if (standing === undefined) {
      const made = { agentId, target, session, lifecycle, continuity, context, eventContext };
      this.bindings.push(made);
      this.#emit('bound', made, session, depth + 1);
    } else {
      Object.assign(standing, { session, lifecycle, continuity, context, eventContext });
      this.#emit('updated', standing, session, depth + 1);
    }
  }

  #release(agentId: string, target: Target, depth: number): void {
    const standing = this.bindings.find((one) => one.agentId === agentId && same(one.target, target));
    if (standing === undefined) throw new Error('nothing to release');
    this.bindings = this.bindings.filter((one) => one !== standing);
    this.#emit('unbound', standing, standing.session, depth + 1);
  }

  #emit(kind: string, { agentId, target }: NaiveBinding, session: string | null, depth: number): void {
    this.#emitted += 1;
    const name = `emitted ${this.#emitted}`;
    this.log.push(`${name} ${kind} ${agentId} ${target.type}:${target.key} ${session} ${depth}`);
    this.queue.push({
      name,
      key: `svc.session.binding.${kind}`,
      target: session === null ? null : { type: 'svc.session', key: session },
      payload: { binding: { target: { type: target.type, key: target.key } } },
      depth,
    });
  }

  end(name: string): void {
    const session = this.sessions.find((one) => one.name === name && one.live);
    if (session === undefined) return;
    session.live = false;
    // As they were made: identifiers of bindings grow.
    for (const one of [...this.bindings]) {
      if (one.session !== name) continue;
      if (one.continuity === 'agent') one.session = null;
      else this.#release(one.agentId, one.target, -1);
    }
  }
}

const agentIn = ({ agentId, agent, concurrency, bindings }: ActiveTrigger): RoutingAgent => ({
  id: agentId,
  name: agent,
  bindings,
  ...(concurrency !== null && { concurrency }),
});
