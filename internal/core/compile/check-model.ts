// The model and the reasoning effort (docs/reference/compile.md#models), against the configured catalog.

import type { Catalog } from '../../domain/catalog.ts';
import type { Harness, ModelProvider, ModelSpec, ReasoningEffort } from '../../domain/spec.ts';
import { keysOf, without } from '../../../schemas/grammar.ts';
import { fallbacks, gateway, model, modelId, reasoningEffort, slug } from '../../../schemas/model.ts';
import { readFields, reading } from './read-field.ts';
import { scalarOf } from '../source/node.ts';
import type { Check, MapRef, NodeRef, Reader } from './read.ts';
import { compact, fault, faultAt, field, items, optional, pathOf, required, strict, suggest, wrong } from './read.ts';

const isSlug = new RegExp(`^${slug}$`);
/** The one provider that routes through a gateway object. */
const gatewayProvider: ModelProvider = 'provider-c';

/** The model with its provider resolved; undefined where it is absent or wrong. */
export function checkModel(
  check: Check,
  spot: NodeRef,
  harness: Harness | undefined,
  catalog: Catalog,
): ModelSpec | undefined {
  const before = check.errors;
  if (spot.node.kind !== 'map') return notModel(check, spot, harness, catalog);
  const found = strict(check, spot, keysOf(model)) as MapRef;
  const provider = resolveProvider(check, found, harness, catalog);
  const readId: Reader<string> = (_, at) => {
    const id = reading(modelId)(check, at);
    if (provider !== undefined && id !== undefined) checkId(check, at, id, provider, catalog);
    return id;
  };
  // The others are judged beside the id, which is read before them.
  const id = required(check, found, 'id', readId, idHint(provider, harness, catalog));
  const read = readFields(check, found, besideId, {
    gateway: (_, at) => checkGateway(check, at, provider, id),
    fallbacks: (_, at) => checkFallbacks(check, at, provider, id, catalog),
  });
  exclusive(check, found);
  if (check.errors > before) return undefined;
  // Nothing of it was wrong, so that what is required is there; without a harness, nothing of the document is used.
  return compact<ModelSpec>({ provider, id, ...read } as ModelSpec);
}

const besideId = without(model.fields, 'provider', 'id');

/** An id that the provider has: of the harness's own provider, the one that it uses where none is written. */
function idHint(provider: ModelProvider | undefined, harness: Harness | undefined, catalog: Catalog) {
  if (provider === undefined) return undefined;
  const own = harness === undefined ? undefined : catalog.harnesses[harness];
  const id = own?.defaultProvider === provider ? own.defaultModel : catalog.models[provider].ids[0];
  return id === undefined ? undefined : `For example: id: ${id}`;
}

function notModel(check: Check, spot: NodeRef, harness: Harness | undefined, catalog: Catalog): undefined {
  const id = harness === undefined ? undefined : catalog.harnesses[harness].defaultModel;
  const hint = id === undefined ? {} : { hint: `For example: model: { id: ${id} }` };
  return wrong(check, spot, `a map with the keys ${keysOf(model).join(', ')}`, { code: 'invalid-type', ...hint });
}

function resolveProvider(
  check: Check,
  spot: MapRef,
  harness: Harness | undefined,
  catalog: Catalog,
): ModelProvider | undefined {
  const declared = optional(check, spot, 'provider', reading(model.fields.provider));
  if (harness === undefined) return declared;
  const at = field(spot, 'provider');
  if (at === undefined) return catalog.harnesses[harness].defaultProvider;
  if (declared === undefined) return undefined;
  const accepted = catalog.harnesses[harness].providers;
  if (accepted.includes(declared)) return declared;
  const message = `model.provider ${declared} does not run under ${harness}, which accepts ${accepted.join(' and ')}`;
  const runs = Object.entries(catalog.harnesses).find(([, { providers }]) => providers.includes(declared))?.[0];
  const other = runs === undefined ? '' : `, or harness: ${runs}`;
  return fault(check, 'model-provider', message, at.key, pathOf(at.trail), { hint: `Write ${accepted[0]}${other}.` });
}

function accepts(provider: ModelProvider, id: string, catalog: Catalog): boolean {
  const models = catalog.models[provider];
  if (models.ids.includes(id)) return true;
  if (models.pattern !== undefined && new RegExp(`^(?:${models.pattern})$`, 'u').test(id)) return true;
  return provider === gatewayProvider && isSlug.test(id);
}

function checkId(check: Check, spot: NodeRef, id: string, provider: ModelProvider, catalog: Catalog): void {
  if (accepts(provider, id, catalog)) return;
  const ids = catalog.models[provider].ids;
  const near = suggest(check, id, ids, 3);
  const listed =
    ids.length === 0 ? 'Write it as vendor/model.' : `Configured for ${provider}: ${ids.slice(0, 12).join(', ')}.`;
  const hint = near === undefined ? listed : `Did you mean ${near}?`;
  wrong(check, spot, provider === gatewayProvider ? 'a vendor/model slug' : `a model of ${provider}`, {
    code: 'model-id',
    hint,
  });
}

function exclusive(check: Check, spot: MapRef): void {
  const [first, second] = [field(spot, 'gateway'), field(spot, 'fallbacks')];
  if (first === undefined || second === undefined) return;
  const message = 'model.gateway and model.fallbacks exclude each other; keep one';
  fault(check, 'model-gateway', message, first.key, pathOf(first.trail));
  fault(check, 'model-fallbacks', message, second.key, pathOf(second.trail));
}

type Gateway = NonNullable<ModelSpec['gateway']>;

function checkGateway(
  check: Check,
  spot: NodeRef,
  provider: ModelProvider | undefined,
  primary: string | undefined,
): Gateway | undefined {
  if (provider !== undefined && provider !== gatewayProvider) {
    const message = `model.gateway is accepted only with ${gatewayProvider}; this model's provider is ${provider}`;
    fault(check, 'model-gateway', message, spot.key, pathOf(spot.trail));
  }
  const read = reading(gateway)(check, spot);
  if (read === undefined) return undefined;
  const taken = new Set([primary]);
  const { what } = gateway.fields.models;
  // What was read is a list.
  for (const item of items(check, field(spot as MapRef, 'models') as NodeRef, what) as readonly NodeRef[])
    notTaken(check, item, taken, 'model-gateway');
  return read;
}

/** Reports an id that was named before; adds it to what was. */
function notTaken(
  check: Check,
  spot: NodeRef,
  taken: Set<string | undefined>,
  code: 'model-gateway' | 'model-fallbacks',
): boolean {
  const id = String(scalarOf(spot.node)).trim();
  const isNew = !taken.has(id);
  taken.add(id);
  if (isNew) return true;
  const message = `${pathOf(spot.trail)} repeats ${id}; each model is named once, the primary included`;
  faultAt(check, code, message, spot);
  return false;
}

type Fallback = NonNullable<ModelSpec['fallbacks']>[number];

function checkFallbacks(
  check: Check,
  spot: NodeRef,
  provider: ModelProvider | undefined,
  primary: string | undefined,
  catalog: Catalog,
): readonly Fallback[] | undefined {
  const taken = new Set([primary]);
  const found: Fallback[] = [];
  const { item: fallback, what } = fallbacks;
  for (const item of items(check, spot, what, fallbacks) ?? []) {
    const map = strict(check, item, keysOf(fallback));
    if (map === undefined) continue;
    const { id, provider: own } = readFields(check, map, fallback.fields);
    const isForeign = own !== undefined && provider !== undefined && own !== provider;
    if (isForeign) {
      const at = field(map, 'provider') as NodeRef;
      const message = `${pathOf(at.trail)} must equal the model's provider ${provider}, not ${own}`;
      faultAt(check, 'model-fallbacks', message, at);
    }
    if (id === undefined || provider === undefined) continue;
    const at = field(map, 'id') as NodeRef;
    // Where the provider itself cannot be, it is no question which of its models this is.
    if (notTaken(check, at, taken, 'model-fallbacks') && !isForeign) checkId(check, at, id, provider, catalog);
    // Where one of them is wrong, nothing of the model is used.
    found.push({ id, provider });
  }
  return found;
}

/**
 * The declared effort, valid for the harness, the model and every fallback; `declared` is undefined where no model is written,
 * and the harness uses its own.
 */
export function checkEffort(
  check: Check,
  spot: NodeRef,
  harness: Harness | undefined,
  declared: ModelSpec | 'wrong' | undefined,
  catalog: Catalog,
): ReasoningEffort | undefined {
  const effort = reading(reasoningEffort)(check, spot);
  if (effort === undefined || harness === undefined) return effort;
  const rules = catalog.harnesses[harness];
  if (!rules.efforts.includes(effort)) {
    const message = `reasoningEffort ${effort} is not accepted by ${harness}`;
    return fault(check, 'effort-unsupported', message, spot.key, pathOf(spot.trail), {
      hint: `${harness} accepts ${rules.efforts.join(', ')}.`,
    });
  }
  if (declared === 'wrong') return effort; // That is reported already, and what it would narrow is unknown.
  const used = declared ?? { provider: rules.defaultProvider, id: rules.defaultModel };
  for (const one of [used, ...(declared?.fallbacks ?? [])]) {
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
