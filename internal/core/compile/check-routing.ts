// A trigger's routing object (docs/reference/routing.md#matching): canonical forms, legacy spellings, and the policies it carries inline.

import type { Value } from '../../../schemas/grammar.ts';
import {
  bind,
  type deliver,
  legacyKind,
  legacyOwned,
  legacyRouteBy,
  routeBy,
  routing,
  spawn,
} from '../../../schemas/routing.ts';
import type {
  BindRouting,
  DeliverRouting,
  OnUnmatched,
  RouteTarget,
  Routing,
  SpawnRouting,
} from '../../domain/spec.ts';
import { bindingTargets } from '../../domain/spec.ts';
import type { PolicyValue } from './check-bindings.ts';
import { policyValues } from './check-bindings.ts';
import { scalarOf } from '../source/node.ts';
import { readVariant } from './read-field.ts';
import type { Check, MapRef, NodeRef } from './read.ts';
import { compact, fault, field, missing, pathOf, unknownKey, wrong } from './read.ts';

export interface RoutingDraft {
  readonly routing: Routing;
  /** The value of `kind`. */
  readonly kindSpot: NodeRef;
  /** The value of `routeBy.kind` or `target`, where the route has one. */
  readonly aimSpot: NodeRef | undefined;
  readonly observedSpot: NodeRef | undefined;
  readonly inline: readonly PolicyValue[];
}

/** What a route is by the words that say so; they stand also where something else in it is wrong. */
export interface RouteWords {
  readonly kind: Routing['kind'];
  readonly isAttributed: boolean;
  readonly kindSpot: NodeRef;
  /** The value of `routeBy.kind`, where the route has one. */
  readonly bySpot: NodeRef | undefined;
}

const kindWords: { readonly [word: string]: Routing['kind'] } = {
  spawn: 'spawn',
  deliver: 'deliver',
  bind: 'bind',
  [legacyKind]: 'deliver',
};

/** Undefined where the kind is none, so that nothing rests on it. */
export function routeWords(trigger: MapRef): RouteWords | undefined {
  const spot = field(trigger, 'routing');
  if (spot?.node.kind !== 'map') return undefined;
  const kindSpot = field(spot as MapRef, 'kind');
  const word = kindSpot && scalarOf(kindSpot.node);
  if (kindSpot === undefined || typeof word !== 'string' || !Object.hasOwn(kindWords, word)) return undefined;
  const by = field(spot as MapRef, 'routeBy');
  const bySpot = by?.node.kind === 'map' ? field(by as MapRef, 'kind') : undefined;
  const written = String(bySpot && scalarOf(bySpot.node));
  const isDelivery = kindWords[word] === 'deliver';
  return {
    kind: isDelivery && written === legacyOwned ? 'bind' : (kindWords[word] as Routing['kind']),
    isAttributed: isDelivery && (legacyRouteBy[written] ?? written) === 'attributedSessions',
    kindSpot,
    bySpot,
  };
}

/** Reads a routing to canonical form. Undefined where anything in it is wrong, which has been reported then. */
export function checkRouting(check: Check, spot: NodeRef): RoutingDraft | undefined {
  const before = check.errors;
  const read = readVariant(check, spot, routing);
  if (read === undefined) return undefined;
  const draft = draftOf(check, read.desc, read.spot, read.fields);
  return check.errors > before ? undefined : { kindSpot: field(read.spot, 'kind') as NodeRef, ...draft };
}

type Draft = Omit<RoutingDraft, 'kindSpot'>;

function draftOf(check: Check, desc: unknown, spot: MapRef, fields: { readonly [key: string]: unknown }): Draft {
  // Each group's fields were read by its own table; what is wrong or missing is an error by now.
  if (desc === spawn) return checkSpawn(check, spot, fields as Partial<Value<typeof spawn>>);
  if (desc === bind) return checkBind(check, spot, fields as Partial<Value<typeof bind>>);
  return checkDeliver(check, spot, fields as Partial<Value<typeof deliver>>);
}

/** `agent.singleton` holds no policy: nothing may be folded into `bindings` under that key. */
function inlinePolicy(check: Check, spot: MapRef, target: RouteTarget | undefined): PolicyValue[] {
  const bindable = bindingTargets.find((one) => one === target);
  if (target === 'agent.singleton') {
    for (const name of ['lifecycle', 'continuity']) {
      const at = field(spot, name);
      const message = `agent.singleton cannot take ${name}; it is not a binding target`;
      if (at !== undefined) fault(check, 'binding-target', message, at.key, pathOf(at.trail));
    }
  }
  return policyValues(spot, bindable);
}

function checkSpawn(check: Check, spot: MapRef, { bind: value }: Partial<Value<typeof spawn>>): Draft {
  if (value === undefined)
    return { routing: { kind: 'spawn' }, aimSpot: undefined, observedSpot: undefined, inline: [] };
  const map = field(spot, 'bind') as MapRef;
  const inline = inlinePolicy(check, map, value.target);
  const route: SpawnRouting = { kind: 'spawn', bind: value };
  return { routing: route, aimSpot: field(map, 'target'), observedSpot: undefined, inline };
}

function checkDeliver(check: Check, spot: MapRef, fields: Partial<Value<typeof deliver>>): Draft {
  const aim = field(spot, 'routeBy');
  const by = aim && fields.routeBy && checkRouteBy(check, aim as MapRef, fields.routeBy.kind);
  const onUnmatched = checkUnmatched(check, spot, fields.onUnmatched);
  const at = field(spot, 'bind');
  if (by?.artifact !== undefined && at !== undefined) {
    const message = 'bind is not accepted beside routeBy.kind ownedArtifact, which is a bind route already';
    fault(check, 'routing-invalid', message, at.key, pathOf(at.trail));
  }
  const target = fields.bind?.target;
  const inline: PolicyValue[] = [];
  if (target !== undefined) {
    const map = at as MapRef;
    const targetSpot = field(map, 'target') as NodeRef;
    inline.push(...policyValues(map, target), { target, field: 'bind', value: 'onMention', spot: targetSpot });
  }
  const route: Routing =
    by?.artifact === undefined
      ? compact<DeliverRouting>({
          kind: 'deliver',
          routeBy: by?.kind && { kind: by.kind },
          onUnmatched,
          bind: fields.bind,
        })
      : compact<BindRouting>({ kind: 'bind', target: by.artifact, onUnmatched, release: false });
  return { routing: route, aimSpot: by?.spot, observedSpot: undefined, inline };
}

/** Under the legacy kind, which is a delivery that spawns, nothing else may be said. */
function checkUnmatched(check: Check, spot: MapRef, read: OnUnmatched | undefined): OnUnmatched | undefined {
  const kind = (field(spot, 'kind') as NodeRef).node;
  if (kind.kind !== 'scalar' || kind.value !== legacyKind) return read;
  const at = field(spot, 'onUnmatched');
  if (at !== undefined && read !== undefined && read !== 'spawn')
    wrong(check, at, 'spawn or absent under kind deliverOrSpawn', { code: 'routing-invalid' });
  return 'spawn';
}

interface CheckedRouteBy {
  readonly kind?: NonNullable<DeliverRouting['routeBy']>['kind'];
  readonly artifact?: RouteTarget;
  readonly spot: NodeRef;
}

/** What a spelling of `routeBy.kind` stands for: a kind, none, or a bind route over `artifactType`. */
function checkRouteBy(check: Check, spot: MapRef, kind: string): CheckedRouteBy | undefined {
  const at = field(spot, 'kind') as NodeRef;
  const artifact = field(spot, 'artifactType');
  if (kind === legacyOwned) {
    if (artifact === undefined) return missing(check, spot, 'artifactType');
    const value = artifact.node.kind === 'scalar' ? artifact.node.value : undefined;
    const target = routeBy.fields.artifactType.values.find((one) => one === value);
    return compact<CheckedRouteBy>({ artifact: target, spot: at, kind: undefined });
  }
  if (artifact !== undefined) unknownKey(check, spot, 'artifactType', artifact.key, ['kind']);
  const known = routeBy.fields.kind.values.find((one) => one === (legacyRouteBy[kind] ?? kind));
  return compact<CheckedRouteBy>({ kind: known, spot: at, artifact: undefined });
}

function checkBind(check: Check, spot: MapRef, fields: Partial<Value<typeof bind>>): Draft {
  const { target, onUnmatched, observedTarget } = fields;
  const release = checkRelease(check, spot, target, fields.release);
  const inline = inlinePolicy(check, spot, target);
  // Where the target is wrong, which is an error, nothing of the route is used.
  const route = compact<BindRouting>({ kind: 'bind', target, onUnmatched, release, observedTarget } as BindRouting);
  return { routing: route, aimSpot: field(spot, 'target'), observedSpot: field(spot, 'observedTarget'), inline };
}

function checkRelease(
  check: Check,
  spot: MapRef,
  target: RouteTarget | undefined,
  written: Value<typeof bind>['release'] | undefined,
): BindRouting['release'] {
  const at = field(spot, 'release');
  if (at === undefined || written === undefined || written === false) return false;
  if (target === 'agent.singleton') {
    const message = 'release is not accepted on agent.singleton, which holds no binding';
    fault(check, 'release-singleton', message, at.key, pathOf(at.trail));
  }
  return { context: written === true ? null : (written.context ?? null) };
}
