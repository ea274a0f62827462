// Rules between triggers, and between a trigger and its agent (docs/reference/routing.md#matching, docs/reference/messages.md; docs/reference/compile.md#output, docs/reference/compile.md#rules-across-triggers).

import type { TriggerDraft } from './check-triggers.ts';
import type { Check, MapRef, NodeRef } from './read.ts';
import { faultAt, field } from './read.ts';

/** Targets on which some bind trigger releases (docs/reference/compile.md#bindings). */
export function releasedTargets(triggers: readonly TriggerDraft[]): ReadonlySet<string> {
  const targets = new Set<string>();
  for (const { routing } of triggers) {
    if (routing?.routing.kind === 'bind' && routing.routing.release !== false) targets.add(routing.routing.target);
  }
  return targets;
}

export function crossCheck(check: Check, root: MapRef, triggers: readonly TriggerDraft[]): void {
  checkSlot(check, root, triggers);
  checkExclusive(check, triggers);
}

const isSlotDelivery = ({ routing }: TriggerDraft): boolean =>
  routing?.routing.kind === 'deliver' && routing.routing.routeBy === undefined;
const spawnsSlot = ({ routing }: TriggerDraft): boolean => {
  const route = routing?.routing;
  if (route?.kind === 'bind') return route.target === 'agent.singleton' && route.onUnmatched === 'spawn';
  return route?.kind === 'deliver' && route.routeBy === undefined && route.onUnmatched === 'spawn';
};

/** A plain delivery needs a slot: `concurrency: 1`, or a slot delivery that spawns its member. */
function checkSlot(check: Check, root: MapRef, triggers: readonly TriggerDraft[]): void {
  if (root.node.entries.has('concurrency') || triggers.some(spawnsSlot)) return;
  for (const draft of triggers) {
    if (!isSlotDelivery(draft) || draft.routing === undefined) continue;
    const message = 'deliver without routeBy requires concurrency: 1, or a slot delivery with onUnmatched: spawn';
    const hint = 'Add concurrency: 1 to the agent, or name the sessions with routeBy.';
    faultAt(check, 'deliver-without-slot', message, draft.routing.kindSpot, { hint });
  }
}

const attributions = '$.svc.attributions';

/** Where a draft filters attributions, else where its kind of routing stands. */
function filterSpot(draft: TriggerDraft): NodeRef | undefined {
  return (draft.whereSpot && field(draft.whereSpot, attributions)) ?? draft.routing?.kindSpot;
}

function requiresExists(draft: TriggerDraft, exists: boolean): boolean {
  const clause = Object.hasOwn(draft.where, attributions) ? draft.where[attributions] : undefined;
  return typeof clause === 'object' && clause !== null && 'exists' in clause && clause.exists === exists;
}

/** A spawn and a delivery to attributed sessions on one event exclude each other by their filters (Routing rules, 4). */
function checkExclusive(check: Check, triggers: readonly TriggerDraft[]): void {
  const spawns = new Map<string, TriggerDraft[]>();
  const delivers = new Map<string, TriggerDraft[]>();
  for (const draft of triggers) {
    const route = draft.routing?.routing;
    const isDelivery = route?.kind === 'deliver' && route.routeBy?.kind === 'attributedSessions';
    if (route?.kind !== 'spawn' && !isDelivery) continue;
    const byEvent = isDelivery ? delivers : spawns;
    for (const { key } of draft.events) {
      const drafts = byEvent.get(key);
      if (drafts === undefined) byEvent.set(key, [draft]);
      else drafts.push(draft);
    }
  }
  const told = new Set<TriggerDraft>();
  for (const [event, receiving] of delivers) {
    const spawning = spawns.get(event) ?? [];
    // Each wrong one is paired with the first of the other side, so that the work stays linear in the triggers.
    for (const spawn of spawning)
      if (!requiresExists(spawn, false)) notExclusive(check, event, told, spawn, receiving[0]);
    for (const deliver of receiving)
      if (!requiresExists(deliver, true)) notExclusive(check, event, told, spawning[0], deliver);
  }
}

function notExclusive(
  check: Check,
  event: string,
  told: Set<TriggerDraft>,
  spawn: TriggerDraft | undefined,
  deliver: TriggerDraft | undefined,
): void {
  if (spawn === undefined || deliver === undefined) return;
  const spawnAt = filterSpot(spawn);
  const deliverAt = filterSpot(deliver);
  if (spawnAt === undefined || deliverAt === undefined) return;
  const message =
    `A spawn and an attributedSessions delivery on ${event.slice(0, 80)} must exclude each other by ${attributions}: ` +
    'the spawn needs exists: false, the delivery exists: true';
  const tell = (draft: TriggerDraft, at: NodeRef, related: ReturnType<typeof other>): void => {
    if (told.has(draft)) return;
    told.add(draft);
    faultAt(check, 'attributions-exclusive', message, at, related);
  };
  tell(spawn, spawnAt, other('the delivery', deliverAt));
  tell(deliver, deliverAt, other('the spawn', spawnAt));
}

const other = (message: string, spot: NodeRef) => ({ related: [{ message, range: spot.node.range }] });
