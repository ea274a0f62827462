// Rules between triggers, and between a trigger and its agent (docs/reference/compile.md#rules-across-triggers).

import { legacyKind, legacySingleton } from '../../../schemas/routing.ts';
import { canonicalEventKey } from '../../domain/events.ts';
import { onUnmatchedValues, routeTargets } from '../../domain/spec.ts';
import { scalarOf } from '../source/node.ts';
import type { RouteWords } from './check-routing.ts';
import type { TriggerDraft } from './check-triggers.ts';
import type { Check, MapRef, NodeRef } from './read.ts';
import { faultAt, field } from './read.ts';

// A route with a mistake of its own still says what it is for: what needs such a route is not blamed for lacking it.

/** The routing as it is written, of a trigger whose routing could not be read. */
function unread({ routing, spot }: TriggerDraft): MapRef | undefined {
  const at = routing === undefined ? field(spot, 'routing') : undefined;
  return at?.node.kind === 'map' ? (at as MapRef) : undefined;
}

const wordAt = (map: MapRef, key: string): unknown => {
  const at = field(map, key);
  return at && scalarOf(at.node);
};

/** True where a field has the word, or one that is none and may have been meant for it. */
function mayMean(map: MapRef, key: string, word: string, words: readonly string[]): boolean {
  const written = wordAt(map, key);
  return written === word || (written !== undefined && !words.includes(String(written)));
}

const kinds = ['spawn', 'deliver', 'bind', legacyKind];

/** Whether some bind trigger releases a target (docs/reference/compile.md#bindings). */
export const isReleased =
  (triggers: readonly TriggerDraft[]) =>
  (target: string): boolean =>
    triggers.some((draft) => {
      const route = draft.routing?.routing;
      if (route !== undefined) return route.kind === 'bind' && route.release !== false && route.target === target;
      const map = unread(draft);
      const releases = map !== undefined && map.node.entries.has('release') && wordAt(map, 'release') !== false;
      return releases && mayMean(map, 'kind', 'bind', kinds) && mayMean(map, 'target', target, routeTargets);
    });

/** Reports what only the triggers of an agent together show: deliveries without a slot, and routes on one event that may both match. */
export function crossCheck(check: Check, root: MapRef, triggers: readonly TriggerDraft[]): void {
  checkSlot(check, root, triggers);
  checkExclusive(check, triggers);
}

/** The same of a routing that could not be read. */
function maySpawnSlot(map: MapRef): boolean {
  const isLegacy = wordAt(map, 'kind') === legacyKind;
  if (!isLegacy && !mayMean(map, 'onUnmatched', 'spawn', onUnmatchedValues)) return false;
  const by = field(map, 'routeBy');
  const isPlain = by === undefined || (by.node.kind === 'map' && wordAt(by as MapRef, 'kind') === legacySingleton);
  if (isPlain && (isLegacy || mayMean(map, 'kind', 'deliver', kinds))) return true;
  return mayMean(map, 'kind', 'bind', kinds) && mayMean(map, 'target', 'agent.singleton', routeTargets);
}

const spawnsSlot = (draft: TriggerDraft): boolean => {
  const map = unread(draft);
  if (map !== undefined) return maySpawnSlot(map);
  const route = draft.routing?.routing;
  if (route?.kind === 'bind') return route.target === 'agent.singleton' && route.onUnmatched === 'spawn';
  return route?.kind === 'deliver' && route.routeBy === undefined && route.onUnmatched === 'spawn';
};

/** A plain delivery needs a slot: `concurrency: 1`, or a slot delivery that spawns its member. */
function checkSlot(check: Check, root: MapRef, triggers: readonly TriggerDraft[]): void {
  if (root.node.entries.has('concurrency') || triggers.some(spawnsSlot)) return;
  for (const { routing } of triggers) {
    if (routing?.routing.kind !== 'deliver' || routing.routing.routeBy !== undefined) continue;
    const message = 'deliver without routeBy requires concurrency: 1, or a slot delivery with onUnmatched: spawn';
    const hint = 'Add concurrency: 1 to the agent, or name the sessions with routeBy.';
    faultAt(check, 'deliver-without-slot', message, routing.kindSpot, { hint });
  }
}

const attributions = '$.svc.attributions';

/** Where a draft filters attributions, else where its kind of routing stands. */
const filterSpot = ({ whereSpot }: TriggerDraft, { kindSpot }: RouteWords): NodeRef =>
  (whereSpot && field(whereSpot, attributions)) ?? kindSpot;

/** A draft on one of the two sides, and where it would be mended. */
interface Sided {
  readonly draft: TriggerDraft;
  readonly spot: NodeRef;
}

function requiresExists(draft: TriggerDraft, exists: boolean): boolean {
  const clause = Object.hasOwn(draft.where, attributions) ? draft.where[attributions] : undefined;
  return typeof clause === 'object' && clause !== null && 'exists' in clause && clause.exists === exists;
}

/**
 * A spawn and a delivery to attributed sessions on one event exclude each other by their filters
 * (docs/reference/compile.md#rules-across-triggers).
 */
function checkExclusive(check: Check, triggers: readonly TriggerDraft[]): void {
  const spawns = new Map<string, Sided[]>();
  const delivers = new Map<string, Sided[]>();
  for (const draft of triggers) {
    const { route } = draft;
    if (route === undefined || (route.kind !== 'spawn' && !route.isAttributed)) continue;
    const byEvent = route.isAttributed ? delivers : spawns;
    const sided = { draft, spot: filterSpot(draft, route) };
    for (const event of draft.events) {
      const key = canonicalEventKey(event.key);
      const drafts = byEvent.get(key);
      if (drafts === undefined) byEvent.set(key, [sided]);
      else drafts.push(sided);
    }
  }
  const told = new Set<TriggerDraft>();
  for (const [event, receiving] of delivers) {
    const spawning = spawns.get(event) ?? [];
    // Each wrong one is paired with the first of the other side, so that the work stays linear in the triggers.
    for (const spawn of spawning)
      if (!requiresExists(spawn.draft, false)) notExclusive(check, event, told, spawn, receiving[0]);
    for (const deliver of receiving)
      if (!requiresExists(deliver.draft, true)) notExclusive(check, event, told, spawning[0], deliver);
  }
}

function notExclusive(
  check: Check,
  event: string,
  told: Set<TriggerDraft>,
  spawn: Sided | undefined,
  deliver: Sided | undefined,
): void {
  if (spawn === undefined || deliver === undefined) return;
  const message =
    `A spawn and an attributedSessions delivery on ${event.slice(0, 80)} must exclude each other by ${attributions}: ` +
    'the spawn needs exists: false, the delivery exists: true';
  const tell = ({ draft, spot }: Sided, related: ReturnType<typeof other>): void => {
    if (told.has(draft)) return;
    told.add(draft);
    faultAt(check, 'attributions-exclusive', message, spot, related);
  };
  tell(spawn, other('the delivery', deliver.spot));
  tell(deliver, other('the spawn', spawn.spot));
}

const other = (message: string, spot: NodeRef) => ({ related: [{ message, range: spot.node.range }] });
