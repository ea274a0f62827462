// The shipped catalog: presets, models, reasoning efforts, brokered tools (docs/reference/compile.md#models, #environments
// and #tools). Data with a date: the lists were last held against what the providers publish on 2026-11-20. An operator adds
// to them in the SVC_CONFIG file, so that a new model needs no new release; nothing here is ever fetched.

import * as v from 'valibot';
import type { Catalog } from '../../domain/catalog.ts';
import { effortNames, harnessNames, providers, resourceNamePattern } from '../../domain/spec.ts';

const isRegExp = (source: string): boolean => {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
};

const Name = v.pipe(v.string(), v.regex(resourceNamePattern, '1 to 128 characters of A-Za-z0-9_.-'));
const ModelId = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(256));
const Models = v.strictObject({
  /** True: these ids and this pattern stand alone, the shipped ones are forgotten. */
  replace: v.optional(v.boolean()),
  ids: v.optional(v.array(ModelId)),
  pattern: v.optional(v.pipe(v.string(), v.maxLength(1024), v.check(isRegExp, 'not a regular expression'))),
});
const HarnessDefaults = v.strictObject({
  defaultProvider: v.optional(v.picklist(providers)),
  defaultModel: v.optional(ModelId),
  defaultEffort: v.optional(v.picklist(effortNames)),
});
const CodehostTool = v.strictObject({
  default: v.exactOptional(v.literal(true)),
  needs: v.exactOptional(v.picklist(['merge', 'secrets'])),
});

/** The `catalog` section of the SVC_CONFIG file. Everything is optional and adds to what ships. */
export const CatalogSection = v.strictObject({
  presets: v.optional(v.array(Name)),
  models: v.optional(v.strictObject(v.entriesFromList(providers, v.optional(Models)))),
  harnesses: v.optional(v.strictObject(v.entriesFromList(harnessNames, v.optional(HarnessDefaults)))),
  efforts: v.optional(
    v.strictObject(
      v.entriesFromList(
        providers,
        v.optional(v.record(ModelId, v.pipe(v.array(v.picklist(effortNames)), v.minLength(1)))),
      ),
    ),
  ),
  codehostTools: v.optional(v.record(Name, CodehostTool)),
});
export type CatalogSection = v.InferOutput<typeof CatalogSection>;

const union = (...lists: readonly (readonly string[] | undefined)[]): string[] =>
  [...new Set(lists.flatMap((list) => list ?? []))].sort();

/** An anchored source, whether or not the operator wrote the anchors. */
const anchored = (source: string): string => `^(?:${source})$`;

function extendModels(base: Catalog['models'], section: CatalogSection['models']): Catalog['models'] {
  const extended = providers.map((provider) => {
    const shipped = base[provider];
    const own = section?.[provider];
    if (own === undefined) return [provider, shipped] as const;
    const pattern = own.pattern === undefined ? (own.replace ? undefined : shipped.pattern) : anchored(own.pattern);
    const ids = union(own.replace ? [] : shipped.ids, own.ids);
    return [provider, pattern === undefined ? { ids } : { ids, pattern }] as const;
  });
  return Object.fromEntries(extended) as Catalog['models'];
}

function extendHarnesses(base: Catalog['harnesses'], section: CatalogSection['harnesses']): Catalog['harnesses'] {
  const extended = harnessNames.map((harness) => {
    const shipped = base[harness];
    const own = section?.[harness];
    const provider = own?.defaultProvider ?? shipped.defaultProvider;
    const effort = own?.defaultEffort ?? shipped.defaultEffort;
    if (!shipped.providers.includes(provider)) {
      throw new RangeError(`catalog.harnesses.${harness}.defaultProvider: ${harness} does not speak to ${provider}`);
    }
    if (!shipped.efforts.includes(effort)) {
      throw new RangeError(`catalog.harnesses.${harness}.defaultEffort: ${harness} does not know ${effort}`);
    }
    const defaultModel = own?.defaultModel ?? shipped.defaultModel;
    return [harness, { ...shipped, defaultProvider: provider, defaultEffort: effort, defaultModel }] as const;
  });
  return Object.fromEntries(extended) as Catalog['harnesses'];
}

/**
 * The catalog with an operator's section added. Lists grow, single values are replaced; `models.<provider>.replace`
 * drops the shipped ids. Throws RangeError naming the setting when a default contradicts its harness.
 */
export function extendCatalog(base: Catalog, section: CatalogSection | undefined): Catalog {
  if (section === undefined) return base;
  const efforts = providers
    .map((provider) => [provider, { ...base.effortsByModel[provider], ...section.efforts?.[provider] }] as const)
    .filter(([, models]) => Object.keys(models).length > 0);
  return {
    presets: union(base.presets, section.presets),
    models: extendModels(base.models, section.models),
    harnesses: extendHarnesses(base.harnesses, section.harnesses),
    effortsByModel: Object.fromEntries(efforts),
    codehostTools: { ...base.codehostTools, ...section.codehostTools },
    avatars: base.avatars,
  };
}
