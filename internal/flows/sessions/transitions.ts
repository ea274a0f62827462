// The event of a binding's transition (docs/reference/routing.md#attributions, docs/reference/routing.md#bindings): recorded
// in the transaction that makes it, itself pending and routable. Its target is the session whose binding changed.

import { recordInRouting } from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import type { Binding } from '../../adapters/store/routing/bindings.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { passed } from '../../base/passing.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';

export interface Transition {
  readonly kind: 'bound' | 'updated' | 'unbound';
  /** As the transition left it; of a release, with the session that held it. */
  readonly binding: Binding;
  /** What annotates this transition, at `binding.eventContext`. */
  readonly eventContext: JsonObject | null;
  /** Binding events that led here: 0 where no event did. */
  readonly depth: number;
}

const bindingEventKey = (kind: Transition['kind']): string => `svc.session.binding.${kind}`;

function bindingPayload({ binding, eventContext }: Transition): JsonObject {
  const { id, target, agent, sessionId, lifecycle, continuity, context } = binding;
  return {
    binding: {
      id,
      target: { type: target.type, key: target.key },
      agent,
      sessionId,
      lifecycle,
      continuity,
      context,
      eventContext,
    },
    svc: { authored: true },
  };
}

/** Characters of the events of one statement: each repeats the notes of its binding. */
const textMax = 4 * 1_048_576;

/** Records the events of transitions, in order. Whoever calls asks for their routing. */
export async function recordTransitions(
  ctx: FlowContext,
  tx: RoutingTx,
  transitions: readonly Transition[],
  now: Date,
): Promise<void> {
  let events: NewEvent[] = [];
  let size = 0;
  for (const [at, transition] of transitions.entries()) {
    const event = eventOf(ctx, tx, transition, now);
    events.push(event);
    size += event.payload?.length ?? 0;
    if (size < textMax && at < transitions.length - 1) continue;
    await recordInRouting(tx, events);
    // As they are told, and as the database takes them.
    passed(2 * size);
    [events, size] = [[], 0];
  }
}

function eventOf(ctx: FlowContext, tx: RoutingTx, transition: Transition, now: Date): NewEvent {
  const { sessionId } = transition.binding;
  return {
    id: timeOrderedId(ctx.runtime),
    projectId: tx.projectId,
    key: bindingEventKey(transition.kind),
    dedupHash: null,
    raw: null,
    payload: JSON.stringify(bindingPayload(transition)),
    receivedAt: now,
    depth: transition.depth,
    ...(sessionId !== null && { target: { type: 'svc.session', key: sessionId } }),
  };
}
