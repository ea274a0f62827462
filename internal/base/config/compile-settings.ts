// The sections of the SVC_CONFIG file that decide how a tree compiles, checked: the catalog, with the presets of
// `sandboxes`, and the template sources.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import type { Catalog, NetworkFacts } from '../../domain/catalog.ts';
import type { SandboxProviderName } from '../../domain/sandbox.ts';
import { CatalogSection, extendCatalog } from './catalog.ts';
import { defaultCatalog } from './default-catalog.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { readSection } from './section.ts';
import { sessionSettings } from './session-settings.ts';
import { type SandboxesSettings, sandboxesSettings } from './sandbox-settings.ts';

export interface CompileSettings {
  readonly catalog: Catalog;
  readonly templateSources: TemplatesSection;
}

/**
 * The shipped catalog with the file's `catalog` added, and its `templates`. Relative directories count from `base`, the
 * directory of the file; `sandbox` is the provider of presets that name none. Throws ConfigError that names the key.
 */
export function compileSettings(
  file: ConfigFile,
  base: string,
  sandbox: SandboxProviderName | 'auto' = 'auto',
): CompileSettings {
  const section = file.catalog === undefined ? undefined : readSection(CatalogSection, file.catalog, 'catalog');
  const sources = file.templates === undefined ? [] : readSection(TemplatesSection, file.templates, 'templates');
  return {
    catalog: withPresets(extended(section), sandboxesSettings(file, base), {
      sandbox,
      isFenced: sessionSettings(file).fenced,
    }),
    templateSources: sources.map((source) =>
      'directory' in source && !isAbsolute(source.directory)
        ? { ...source, directory: resolve(base, source.directory) }
        : source,
    ),
  };
}

const engines: ReadonlySet<string> = new Set(['docker', 'kubernetes'] satisfies SandboxProviderName[]);

/** The operator's presets, with their ceilings, and what is known of where their sessions run. */
function withPresets(
  catalog: Catalog,
  settings: SandboxesSettings,
  place: { readonly sandbox: string; readonly isFenced: boolean },
): Catalog {
  const { presets } = settings;
  const limits = Object.entries(presets).flatMap(([name, preset]) =>
    preset.limits === undefined ? [] : [[name, preset.limits] as const],
  );
  const names = [...new Set([...catalog.presets, ...Object.keys(presets)])].sort();
  const of = (name: string) => (Object.hasOwn(presets, name) ? presets[name] : undefined);
  const onEngine = (name: string): boolean => engines.has(of(name)?.provider ?? place.sandbox);
  const lacking = names.filter((name) => onEngine(name) && of(name)?.image === undefined);
  const network = networkOf(names, settings, place);
  return {
    ...catalog,
    presets: names,
    ...(limits.length > 0 && { presetLimits: Object.fromEntries(limits) }),
    ...(lacking.length > 0 && { presetsWithoutImage: lacking }),
    ...(network !== undefined && { network }),
  };
}

/** Nothing is known of a provider that is chosen when the first session needs one. */
function networkOf(
  names: readonly string[],
  { presets, allow }: SandboxesSettings,
  { sandbox, isFenced }: { readonly sandbox: string; readonly isFenced: boolean },
): NetworkFacts | undefined {
  const providerOf = (name: string): string =>
    (Object.hasOwn(presets, name) ? presets[name]?.provider : undefined) ?? sandbox;
  const boxes = names.filter((name) => engines.has(providerOf(name)));
  const local = names.filter((name) => providerOf(name) === 'bubblewrap');
  if (boxes.length + local.length === 0) return undefined;
  return {
    ...(allow !== undefined && { allow }),
    fenced: isFenced ? [...boxes, ...local].sort() : boxes,
    fencedByList: isFenced ? [] : local,
  };
}

function extended(section: CatalogSection | undefined): Catalog {
  try {
    return extendCatalog(defaultCatalog, section);
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError('catalog', `cannot be used: ${error.message}`);
    throw error;
  }
}

// The `templates` section of the SVC_CONFIG file: where managed templates (`@scope/name@version/subpath`) come from.
// One source for each scope. `@svc/templates` ships with the service and needs no entry.

const Scope = v.pipe(v.string(), v.regex(/^@[a-z0-9][a-z0-9._~-]{0,127}$/, 'a scope such as @acme'));

const isRegistry = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    (url?.protocol === 'https:' || url?.protocol === 'http:') &&
    url.username === '' &&
    url.password === '' &&
    url.search === ''
  );
};

const Directory = v.strictObject({
  scope: Scope,
  /** Holds one directory for each package: `<directory>/<name>/…`. */
  directory: v.pipe(v.string(), v.minLength(1)),
});
const Registry = v.strictObject({
  scope: Scope,
  /** Base URL of an npm registry, without credentials. */
  registry: v.pipe(v.string(), v.check(isRegistry, 'an http(s) URL without credentials or query')),
  /** Name of the secret that holds the registry's token. */
  tokenSecretRef: v.optional(v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]{1,128}$/))),
});

export const TemplatesSection = v.pipe(
  v.array(v.union([Directory, Registry], 'needs scope and either directory or registry')),
  v.maxLength(64),
  v.check((list) => new Set(list.map((source) => source.scope)).size === list.length, 'has two sources for one scope'),
);
export type TemplatesSection = v.InferOutput<typeof TemplatesSection>;
