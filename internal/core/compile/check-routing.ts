// A trigger's routing object (docs/reference/routing.md#matching): canonical forms, legacy spellings, and the policies it carries inline.

import type { JsonObject } from '../../domain/json.ts';
import type {
  BindingTarget,
  BindRouting,
  DeliverRouting,
  OnUnmatched,
  RouteTarget,
  Routing,
  SpawnRouting,
} from '../../domain/spec.ts';
import { BINDING_TARGETS, CHAT_TARGETS, ON_UNMATCHED, ROUTE_TARGETS } from '../../domain/spec.ts';
import type { PolicyValue } from './check-bindings.ts';
import { eventContext, policyValues } from './check-bindings.ts';
import type { Check, MapSpot, NodeRef } from './read.ts';
import {
  boolean,
  compact,
  fault,
  field,
  jsonObject,
  layerOf,
  map,
  oneOf,
  optional,
  pathOf,
  required,
  strict,
  unknownKey,
  wrong,
} from './read.ts';

export interface RoutingDraft {
  readonly routing: Routing;
  /** The value of `kind`. */
  readonly kindSpot: NodeRef;
  /** The value of `routeBy.kind` or `target`, where the route has one. */
  readonly aimSpot: NodeRef | undefined;
  readonly observedSpot: NodeRef | undefined;
  readonly inline: readonly PolicyValue[];
}

const KINDS = ['spawn', 'deliver', 'bind'] as const;
const LEGACY_KIND = 'deliverOrSpawn';

export function checkRouting(check: Check, spot: NodeRef): RoutingDraft | undefined {
  const found = map(check, spot, 'a map with kind spawn, deliver or bind');
  const kindSpot = found && field(found, 'kind');
  if (found === undefined) return undefined;
  const written = required(
    check,
    found,
    'kind',
    (_, at) => {
      const isLegacy = at.node.kind === 'scalar' && at.node.value === LEGACY_KIND;
      return isLegacy ? LEGACY_KIND : oneOf(KINDS, 'routing-invalid')(check, at);
    },
    'Write spawn, deliver or bind.',
  );
  if (written === undefined || kindSpot === undefined) return undefined;
  if (written === 'spawn') return checkSpawn(check, found, kindSpot);
  if (written === 'bind') return checkBind(check, found, kindSpot);
  return checkDeliver(check, found, kindSpot, written === LEGACY_KIND);
}

/** `agent.singleton` holds no policy: nothing may be folded into `bindings` under that key. */
function inlinePolicy(check: Check, spot: MapSpot, target: RouteTarget | undefined): PolicyValue[] {
  const bindable = BINDING_TARGETS.find((one) => one === target);
  if (target === 'agent.singleton') {
    for (const name of ['lifecycle', 'continuity']) {
      const at = field(spot, name);
      const message = `agent.singleton cannot take ${name}; it is not a binding target`;
      if (at !== undefined) fault(check, 'binding-target', message, at.key, pathOf(at.trail));
    }
  }
  return policyValues(check, spot, bindable);
}

function checkSpawn(check: Check, spot: MapSpot, kindSpot: NodeRef): RoutingDraft | undefined {
  const before = check.errors;
  leftovers(check, spot, ['bind']);
  const at = field(spot, 'bind');
  const bind = at && strict(check, at, ['target', 'context', 'eventContext', 'lifecycle', 'continuity']);
  if (bind === undefined) {
    return check.errors > before
      ? undefined
      : { routing: { kind: 'spawn' }, kindSpot, aimSpot: undefined, observedSpot: undefined, inline: [] };
  }
  const target = required(check, bind, 'target', oneOf(ROUTE_TARGETS, 'binding-target'));
  const context = optional(check, bind, 'context', jsonObject);
  const events = optional(check, bind, 'eventContext', eventContext);
  const inline = inlinePolicy(check, bind, target);
  if (check.errors > before || target === undefined) return undefined;
  const value = compact<NonNullable<SpawnRouting['bind']>>({ target, context, eventContext: events });
  return {
    routing: { kind: 'spawn', bind: value },
    kindSpot,
    aimSpot: field(bind, 'target'),
    observedSpot: undefined,
    inline,
  };
}

const ROUTE_BY = ['attributedSessions', 'allLiveSessions'] as const;
type RouteBy = (typeof ROUTE_BY)[number];
/** Spec, Versioning, 3: accepted and normalized. */
const LEGACY_ROUTE_BY: { readonly [kind: string]: RouteBy } = {
  attributedRuns: 'attributedSessions',
  allLiveRuns: 'allLiveSessions',
};
const LEGACY_SINGLETON = 'singleton';
const LEGACY_OWNED = 'ownedArtifact';

function checkDeliver(check: Check, spot: MapSpot, kindSpot: NodeRef, orSpawn: boolean): RoutingDraft | undefined {
  const before = check.errors;
  leftovers(check, spot, ['routeBy', 'onUnmatched', 'bind']);
  const onUnmatched = checkUnmatched(check, spot, orSpawn);
  const routeBy = optional(check, spot, 'routeBy', checkRouteBy);
  const at = field(spot, 'bind');
  if (routeBy?.artifact !== undefined && at !== undefined) {
    const message = 'bind is not accepted beside routeBy.kind ownedArtifact, which is a bind route already';
    fault(check, 'routing-invalid', message, at.key, pathOf(at.trail));
  }
  const bind = at && strict(check, at, ['target', 'lifecycle', 'continuity']);
  const inline: PolicyValue[] = [];
  let target: BindingTarget | undefined;
  if (bind !== undefined) {
    target = required(check, bind, 'target', oneOf(CHAT_TARGETS, 'binding-target'));
    const targetSpot = field(bind, 'target');
    inline.push(...policyValues(check, bind, target));
    if (target !== undefined && targetSpot !== undefined)
      inline.push({ target, field: 'bind', value: 'onMention', spot: targetSpot });
  }
  if (check.errors > before) return undefined;
  const aimSpot = routeBy?.spot;
  if (routeBy?.artifact !== undefined) {
    const routing: BindRouting = { kind: 'bind', target: routeBy.artifact, onUnmatched, release: false };
    return { routing, kindSpot, aimSpot, observedSpot: undefined, inline };
  }
  const by = routeBy?.kind === undefined ? undefined : { kind: routeBy.kind };
  const routing = compact<DeliverRouting>({ kind: 'deliver', routeBy: by, onUnmatched, bind: target && { target } });
  return { routing, kindSpot, aimSpot, observedSpot: undefined, inline };
}

function checkUnmatched(check: Check, spot: MapSpot, orSpawn: boolean): OnUnmatched {
  const at = field(spot, 'onUnmatched');
  const written = at && oneOf(ON_UNMATCHED)(check, at);
  if (!orSpawn) return written ?? 'drop';
  if (at !== undefined && written !== undefined && written !== 'spawn') {
    wrong(check, at, 'spawn or absent under kind deliverOrSpawn', { code: 'routing-invalid' });
  }
  return 'spawn';
}

interface CheckedRouteBy {
  readonly kind?: RouteBy;
  readonly artifact?: RouteTarget;
  readonly spot: NodeRef;
}

function checkRouteBy(check: Check, spot: NodeRef): CheckedRouteBy | undefined {
  const found = map(check, spot, 'a map with a kind');
  const at = found && field(found, 'kind');
  if (found === undefined) return undefined;
  const accepted = [...ROUTE_BY, ...Object.keys(LEGACY_ROUTE_BY), LEGACY_SINGLETON, LEGACY_OWNED];
  const kind = required(check, found, 'kind', oneOf<string>(accepted, 'routing-invalid'));
  const keys = kind === LEGACY_OWNED ? ['kind', 'artifactType'] : ['kind'];
  strict(check, found, keys);
  if (kind === undefined || at === undefined) return undefined;
  if (kind === LEGACY_SINGLETON) return { spot: at };
  if (kind !== LEGACY_OWNED) return { kind: LEGACY_ROUTE_BY[kind] ?? (kind as RouteBy), spot: at };
  const artifact = required(check, found, 'artifactType', oneOf(ROUTE_TARGETS, 'binding-target'));
  return artifact === undefined ? undefined : { artifact, spot: at };
}

function checkBind(check: Check, spot: MapSpot, kindSpot: NodeRef): RoutingDraft | undefined {
  const before = check.errors;
  leftovers(check, spot, ['target', 'onUnmatched', 'release', 'observedTarget', 'lifecycle', 'continuity']);
  const target = required(check, spot, 'target', oneOf(ROUTE_TARGETS, 'binding-target'));
  const onUnmatched = checkUnmatched(check, spot, false);
  const release = checkRelease(check, spot, target);
  const observedTarget = optional(check, spot, 'observedTarget', checkObserved);
  const inline = inlinePolicy(check, spot, target);
  if (check.errors > before || target === undefined) return undefined;
  const routing = compact<BindRouting>({ kind: 'bind', target, onUnmatched, release, observedTarget });
  return { routing, kindSpot, aimSpot: field(spot, 'target'), observedSpot: field(spot, 'observedTarget'), inline };
}

function checkRelease(check: Check, spot: MapSpot, target: RouteTarget | undefined): BindRouting['release'] {
  const at = field(spot, 'release');
  if (at === undefined) return false;
  const isFlag = at.node.kind === 'scalar' && typeof at.node.value === 'boolean';
  const release = isFlag ? boolean(check, at) : releaseObject(check, at);
  if (release === undefined || release === false) return false;
  if (target === 'agent.singleton') {
    fault(
      check,
      'release-singleton',
      'release is not accepted on agent.singleton, which holds no binding',
      at.key,
      pathOf(at.trail),
    );
  }
  return release === true ? { context: null } : release;
}

function releaseObject(check: Check, spot: NodeRef): { context: JsonObject | null } | undefined {
  const found = strict(check, spot, ['context'], 'true, false or a map with context');
  if (found === undefined) return undefined;
  const context = field(found, 'context');
  if (context === undefined || (context.node.kind === 'scalar' && context.node.value === null))
    return { context: null };
  return { context: jsonObject(check, context) ?? null };
}

function checkObserved(check: Check, spot: NodeRef): BindRouting['observedTarget'] | undefined {
  const found = map(check, spot, 'a map with action bind or unbind');
  const action = found && required(check, found, 'action', oneOf(['bind', 'unbind'] as const, 'observed-target'));
  if (found === undefined || action === undefined) return undefined;
  strict(check, found, action === 'bind' ? ['action', 'context', 'eventContext'] : ['action', 'eventContext']);
  const events = optional(check, found, 'eventContext', eventContext);
  if (action === 'unbind') return compact({ action, eventContext: events });
  return compact({ action, context: optional(check, found, 'context', jsonObject), eventContext: events });
}

const OWNERS: { readonly [key: string]: string } = {
  routeBy: 'deliver',
  target: 'bind',
  release: 'bind',
  observedTarget: 'bind',
  lifecycle: 'bind',
  continuity: 'bind',
  onUnmatched: 'deliver and bind',
  bind: 'spawn and deliver',
};

/** Keys of another kind of routing, such as an import's that an overlay turned around (docs/reference/compile.md#merge), and unknown keys. */
function leftovers(check: Check, spot: MapSpot, own: readonly string[]): void {
  const home = field(spot, 'kind') as NodeRef;
  const kind = home.node.kind === 'scalar' ? String(home.node.value) : '';
  for (const [key, entry] of spot.node.entries) {
    if (key === 'kind' || own.includes(key)) continue;
    const owner = Object.hasOwn(OWNERS, key) ? OWNERS[key] : undefined;
    if (owner === undefined) {
      unknownKey(check, spot, key, entry.keyRange, ['kind', ...own]);
      continue;
    }
    const path = pathOf(spot.trail, key);
    const layer = layerOf(entry.keyRange.file, home);
    fault(
      check,
      'routing-invalid',
      `${key} belongs to ${owner} routing and is not accepted with kind ${kind}${layer}`,
      entry.keyRange,
      path,
    );
  }
}
