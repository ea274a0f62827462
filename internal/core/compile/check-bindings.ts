// Binding policies (docs/reference/compile.md#bindings): the explicit map, and the policies that routes fold into it.

import type { BindingPolicy, BindingTarget, Continuity, Lifecycle } from '../../domain/spec.ts';
import { bindingTargets, chatTargets } from '../../domain/spec.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { bindingPolicy, bindings, continuities, continuity, lifecycles, lifecycle } from '../../../schemas/routing.ts';
import { readFields } from './read-field.ts';
import type { Check, MapRef, Reader, NodeRef } from './read.ts';
import { compact, fault, faultAt, field, map, pathOf, strict, suggest } from './read.ts';

type Mode = NonNullable<BindingPolicy['bind']>;

/** One policy value as a document declares it, explicitly or on a route. */
export interface PolicyValue {
  readonly target: BindingTarget;
  readonly field: 'lifecycle' | 'continuity' | 'bind';
  readonly value: Lifecycle | Continuity | Mode;
  readonly spot: NodeRef;
}

type PolicyContexts = Pick<BindingPolicy, 'context' | 'eventContext'>;

export interface DeclaredBindings {
  readonly policies: { readonly [target in BindingTarget]?: PolicyContexts };
  readonly values: readonly PolicyValue[];
}

/** `lifecycle` and `continuity` without a default: what was declared, and not what holds. */
const declaredPolicy = { ...bindingPolicy.fields, lifecycle, continuity };

const valuesByPolicy: { readonly [name in 'lifecycle' | 'continuity']: readonly (Lifecycle | Continuity)[] } = {
  lifecycle: lifecycles,
  continuity: continuities,
};

/** `lifecycle` and `continuity` where a map that was read has them: in `bindings` and as sugar on routes. */
export function policyValues(spot: MapRef, target: BindingTarget | undefined): PolicyValue[] {
  const values: PolicyValue[] = [];
  for (const name of ['lifecycle', 'continuity'] as const) {
    const at = field(spot, name);
    const written = at?.node.kind === 'scalar' ? at.node.value : undefined;
    const value = valuesByPolicy[name].find((one) => one === written);
    if (at !== undefined && value !== undefined && target !== undefined)
      values.push({ target, field: name, value, spot: at });
  }
  return values;
}

/** The explicit `bindings` map. */
export const checkBindings: Reader<DeclaredBindings> = (check, spot) => {
  const found = map(check, spot, bindings.what);
  if (found === undefined) return undefined;
  const policies: { [target in BindingTarget]?: PolicyContexts } = {};
  const values: PolicyValue[] = [];
  for (const [key, entry] of found.node.entries) {
    const target = bindingTargets.find((one) => one === key);
    const at: NodeRef = { node: entry.value, key: entry.keyRange, trail: { parent: spot.trail, step: key } };
    if (target === undefined) unknownTarget(check, at, key);
    const policy = strict(check, at, keysOf(bindingPolicy));
    if (policy === undefined || target === undefined) continue;
    const { bind, context, eventContext } = readFields(check, policy, declaredPolicy);
    values.push(...policyValues(policy, target), ...checkMode(check, policy, target, bind));
    policies[target] = compact<PolicyContexts>({ context, eventContext });
  }
  return { policies, values };
};

function unknownTarget(check: Check, spot: NodeRef, key: string): void {
  const near = suggest(check, key, bindingTargets);
  const hint = near === undefined ? `Binding targets: ${bindingTargets.join(', ')}.` : `Did you mean ${near}?`;
  const name = JSON.stringify(key.slice(0, 80).toWellFormed());
  const message =
    key === 'agent.singleton' ? 'agent.singleton cannot be a key of bindings' : `${name} is not a binding target`;
  fault(check, 'binding-target', message, spot.key, pathOf(spot.trail), { hint });
}

function checkMode(check: Check, policy: MapRef, target: BindingTarget, value: Mode | undefined): PolicyValue[] {
  const at = field(policy, 'bind');
  if (at === undefined || value === undefined) return [];
  const legal: readonly BindingTarget[] = value === 'onMention' ? chatTargets : ['codehost.pull_request'];
  if (legal.includes(target)) return [{ target, field: 'bind', value, spot: at }];
  faultAt(check, 'binding-mode', `bind: ${value} is accepted only for ${legal.join(', ')}, not for ${target}`, at);
  return [];
}

/** Folds explicit and inline policies into one map with defaults; two that differ are an error at both places. */
export function foldBindings(
  check: Check,
  declared: DeclaredBindings | undefined,
  inline: readonly PolicyValue[],
): { readonly [target in BindingTarget]?: BindingPolicy } {
  const taken = new Map<string, PolicyValue>();
  for (const value of [...(declared?.values ?? []), ...inline]) {
    const key = `${value.target} ${value.field}`;
    const first = taken.get(key);
    if (first === undefined) taken.set(key, value);
    else if (first.value !== value.value) conflict(check, first, value);
  }
  const folded: { [target in BindingTarget]?: BindingPolicy } = {};
  for (const target of bindingTargets) {
    const rest = declared?.policies[target];
    if (rest === undefined && !inline.some((value) => value.target === target)) continue;
    const declaredLife = taken.get(`${target} lifecycle`)?.value as Lifecycle | undefined;
    const declaredReach = taken.get(`${target} continuity`)?.value as Continuity | undefined;
    const bind = taken.get(`${target} bind`)?.value as Mode | undefined;
    folded[target] = compact<BindingPolicy>({
      lifecycle: declaredLife ?? bindingPolicy.fields.lifecycle.default,
      continuity: declaredReach ?? bindingPolicy.fields.continuity.default,
      bind,
      context: rest?.context,
      eventContext: rest?.eventContext,
    });
  }
  return folded;
}

function conflict(check: Check, first: PolicyValue, second: PolicyValue): void {
  const message = `Two different ${first.field} policies for ${first.target}: ${first.value} and ${second.value}; declare one`;
  const related = (other: PolicyValue) => ({
    related: [{ message: `${other.value} is declared here`, range: other.spot.node.range }],
  });
  faultAt(check, 'binding-conflict', message, second.spot, related(first));
  faultAt(check, 'binding-conflict', message, first.spot, related(second));
}

/** `held` needs a bind route on the same target that releases (docs/reference/compile.md#bindings). */
export function checkHeld(check: Check, values: readonly PolicyValue[], isReleased: (target: string) => boolean): void {
  for (const value of values) {
    if (value.value !== 'held' || isReleased(value.target)) continue;
    const message = `lifecycle: held on ${value.target} requires a bind trigger on that target with release: true`;
    faultAt(check, 'binding-held', message, value.spot);
  }
}
