// The model and the reasoning effort (docs/reference/compile.md#models), against the configured catalog.

import type { Catalog } from '../../domain/catalog.ts';
import type { Harness, ModelProvider, ModelSpec, ReasoningEffort } from '../../domain/spec.ts';
import { EFFORTS, PROVIDERS } from '../../domain/spec.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import {
  boolean,
  compact,
  fault,
  faultAt,
  field,
  items,
  listOf,
  oneOf,
  optional,
  pathOf,
  required,
  strict,
  suggest,
  text,
  wrong,
} from './read.ts';

/** `vendor/model`, a `:tag` allowed: what provider-c takes whatever its curated list says (docs/reference/compile.md#models). */
const SLUG = /^[^/\s]+\/[^/\s]+$/;
/** The one provider that routes through a gateway object. */
const GATEWAY_PROVIDER: ModelProvider = 'provider-c';
const modelId = text({ trim: true, most: 256, what: 'a model id' });

/** The model with its provider resolved; undefined where it is absent or wrong. */
export function checkModel(
  check: Check,
  spot: NodeRef,
  harness: Harness | undefined,
  catalog: Catalog,
): ModelSpec | undefined {
  const before = check.errors;
  const found = strict(check, spot, ['provider', 'id', 'gateway', 'fallbacks']);
  if (found === undefined) return undefined;
  const provider = resolveProvider(check, found, harness, catalog);
  const id = required(check, found, 'id', modelId);
  if (provider !== undefined && id !== undefined) checkId(check, field(found, 'id') as NodeRef, id, provider, catalog);
  exclusive(check, found);
  const gateway = optional(check, found, 'gateway', (_, at) => checkGateway(check, at, provider, id));
  const fallbacks = optional(check, found, 'fallbacks', (_, at) => checkFallbacks(check, at, provider, id, catalog));
  if (check.errors > before || provider === undefined || id === undefined) return undefined;
  return compact<ModelSpec>({ provider, id, gateway, fallbacks });
}

function resolveProvider(
  check: Check,
  model: MapSpot,
  harness: Harness | undefined,
  catalog: Catalog,
): ModelProvider | undefined {
  const declared = optional(check, model, 'provider', oneOf(PROVIDERS));
  if (harness === undefined) return declared;
  if (!model.node.entries.has('provider')) return catalog.harnesses[harness].defaultProvider;
  if (declared === undefined) return undefined;
  const accepted = catalog.harnesses[harness].providers;
  if (accepted.includes(declared)) return declared;
  const message = `model.provider ${declared} does not run under ${harness}, which accepts ${accepted.join(' and ')}`;
  const at = field(model, 'provider') as NodeRef;
  return fault(check, 'model-provider', message, at.key, pathOf(at.trail));
}

function accepts(provider: ModelProvider, id: string, catalog: Catalog): boolean {
  const models = catalog.models[provider];
  if (models.ids.includes(id)) return true;
  if (models.pattern !== undefined && new RegExp(`^(?:${models.pattern})$`, 'u').test(id)) return true;
  return provider === GATEWAY_PROVIDER && SLUG.test(id);
}

function checkId(check: Check, spot: NodeRef, id: string, provider: ModelProvider, catalog: Catalog): boolean {
  if (accepts(provider, id, catalog)) return true;
  const ids = catalog.models[provider].ids;
  const near = suggest(check, id, ids, 3);
  const listed =
    ids.length === 0 ? 'Write it as vendor/model.' : `Configured for ${provider}: ${ids.slice(0, 12).join(', ')}.`;
  const hint = near === undefined ? listed : `Did you mean ${near}?`;
  wrong(check, spot, provider === GATEWAY_PROVIDER ? 'a vendor/model slug' : `a model of ${provider}`, {
    code: 'model-id',
    hint,
  });
  return false;
}

function exclusive(check: Check, model: MapSpot): void {
  const gateway = field(model, 'gateway');
  const fallbacks = field(model, 'fallbacks');
  if (gateway === undefined || fallbacks === undefined) return;
  const message = 'model.gateway and model.fallbacks exclude each other; keep one';
  fault(check, 'model-gateway', message, gateway.key, pathOf(gateway.trail));
  fault(check, 'model-fallbacks', message, fallbacks.key, pathOf(fallbacks.trail));
}

type Gateway = NonNullable<ModelSpec['gateway']>;
type GatewayProvider = NonNullable<Gateway['provider']>;

function checkGateway(
  check: Check,
  spot: NodeRef,
  provider: ModelProvider | undefined,
  primary: string | undefined,
): Gateway | undefined {
  if (provider !== undefined && provider !== GATEWAY_PROVIDER) {
    const message = `model.gateway is accepted only with ${GATEWAY_PROVIDER}; this model's provider is ${provider}`;
    fault(check, 'model-gateway', message, spot.key, pathOf(spot.trail));
  }
  const found = strict(check, spot, ['models', 'provider']);
  if (found === undefined) return undefined;
  const taken = new Set(primary === undefined ? [] : [primary]);
  const models = required(
    check,
    found,
    'models',
    listOf(slug(taken), 'a list of 1 to 3 vendor/model slugs', 1, 3, 'model-gateway'),
  );
  const routing = optional(check, found, 'provider', checkGatewayProvider);
  return models === undefined ? undefined : compact<Gateway>({ models, provider: routing });
}

const slug =
  (taken: Set<string>): Reader<string> =>
  (check, spot) => {
    const id = modelId(check, spot);
    if (id === undefined) return undefined;
    if (!SLUG.test(id)) return wrong(check, spot, 'a vendor/model slug', { code: 'model-gateway' });
    if (!taken.has(id)) {
      taken.add(id);
      return id;
    }
    return faultAt(
      check,
      'model-gateway',
      `${pathOf(spot.trail)} repeats ${id}; each model is named once, the primary included`,
      spot,
    );
  };

const checkGatewayProvider: Reader<GatewayProvider> = (check, spot) => {
  const found = strict(check, spot, ['allowFallbacks', 'order', 'sort', 'only', 'ignore']);
  if (found === undefined) return undefined;
  const names = listOf(text({ what: 'a provider name' }), 'a list of provider names', 1);
  return compact<GatewayProvider>({
    allowFallbacks: optional(check, found, 'allowFallbacks', boolean),
    order: optional(check, found, 'order', names),
    sort: optional(check, found, 'sort', oneOf(['price', 'throughput', 'latency'] as const)),
    only: optional(check, found, 'only', names),
    ignore: optional(check, found, 'ignore', names),
  });
};

type Fallback = NonNullable<ModelSpec['fallbacks']>[number];

function checkFallbacks(
  check: Check,
  spot: NodeRef,
  provider: ModelProvider | undefined,
  primary: string | undefined,
  catalog: Catalog,
): readonly Fallback[] | undefined {
  const taken = new Set(primary === undefined ? [] : [primary]);
  const fallbacks: Fallback[] = [];
  for (const item of items(check, spot, 'a list of 1 or 2 fallbacks', 1, 2, 'model-fallbacks') ?? []) {
    const found = strict(check, item, ['id', 'provider']);
    if (found === undefined) continue;
    const own = optional(check, found, 'provider', oneOf(PROVIDERS));
    const isForeign = own !== undefined && provider !== undefined && own !== provider;
    if (isForeign) {
      const at = field(found, 'provider') as NodeRef;
      faultAt(
        check,
        'model-fallbacks',
        `${pathOf(at.trail)} must equal the model's provider ${provider}, not ${own}`,
        at,
      );
    }
    const id = required(check, found, 'id', modelId);
    if (id === undefined || provider === undefined) continue;
    const at = field(found, 'id') as NodeRef;
    if (taken.has(id)) {
      faultAt(
        check,
        'model-fallbacks',
        `${pathOf(at.trail)} repeats ${id}; each model is named once, the primary included`,
        at,
      );
      // Where the provider itself cannot be, it is no question which of its models this is.
    } else if (!isForeign && checkId(check, at, id, provider, catalog)) {
      fallbacks.push({ id, provider });
    }
    taken.add(id);
  }
  return fallbacks;
}

/** The declared effort, valid for the harness, the model and every fallback. */
export function checkEffort(
  check: Check,
  spot: NodeRef,
  harness: Harness | undefined,
  model: ModelSpec | undefined,
  hasModel: boolean,
  catalog: Catalog,
): ReasoningEffort | undefined {
  const effort = oneOf(EFFORTS)(check, spot);
  if (effort === undefined || harness === undefined) return effort;
  const rules = catalog.harnesses[harness];
  if (!rules.efforts.includes(effort)) {
    const message = `reasoningEffort ${effort} is not accepted by ${harness}`;
    return fault(check, 'effort-unsupported', message, spot.key, pathOf(spot.trail), {
      hint: `${harness} accepts ${rules.efforts.join(', ')}.`,
    });
  }
  if (hasModel && model === undefined) return effort; // The model is wrong already; what it narrows is unknown.
  const used = model ?? { provider: rules.defaultProvider, id: rules.defaultModel };
  for (const one of [used, ...(model?.fallbacks ?? [])]) {
    const byModel = catalog.effortsByModel[one.provider];
    const narrowed = byModel !== undefined && Object.hasOwn(byModel, one.id) ? byModel[one.id] : undefined;
    if (narrowed === undefined || narrowed.includes(effort)) continue;
    const role = one === used ? 'model' : 'fallback';
    const message = `reasoningEffort ${effort} is not accepted by the ${role} ${one.id}`;
    return fault(check, 'effort-unsupported', message, spot.key, pathOf(spot.trail), {
      hint: `${one.id} accepts ${narrowed.join(', ')}.`,
    });
  }
  return effort;
}
