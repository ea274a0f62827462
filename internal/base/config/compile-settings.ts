// The sections of the SVC_CONFIG file that decide how a tree compiles, checked: the catalog, with the presets of
// `sandboxes`, and the template sources.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import type { Catalog } from '../../domain/catalog.ts';
import { CatalogSection, extendCatalog } from './catalog.ts';
import { DEFAULT_CATALOG } from './default-catalog.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { readSection } from './section.ts';
import { type SandboxesSettings, sandboxesSettings } from './sandbox-settings.ts';

export interface CompileSettings {
  readonly catalog: Catalog;
  readonly templateSources: TemplatesSection;
}

/**
 * The shipped catalog with the file's `catalog` added, and its `templates`. Relative directories count from `base`, the
 * directory of the file. Throws ConfigError that names the key.
 */
export function compileSettings(file: ConfigFile, base: string): CompileSettings {
  const section = file.catalog === undefined ? undefined : readSection(CatalogSection, file.catalog, 'catalog');
  const sources = file.templates === undefined ? [] : readSection(TemplatesSection, file.templates, 'templates');
  return {
    catalog: withPresets(extended(section), sandboxesSettings(file, base)),
    templateSources: sources.map((source) =>
      'directory' in source && !isAbsolute(source.directory)
        ? { ...source, directory: resolve(base, source.directory) }
        : source,
    ),
  };
}

/** The operator's presets, with their ceilings. */
function withPresets(catalog: Catalog, { presets }: SandboxesSettings): Catalog {
  const limits = Object.entries(presets).flatMap(([name, preset]) =>
    preset.limits === undefined ? [] : [[name, preset.limits] as const],
  );
  return {
    ...catalog,
    presets: [...new Set([...catalog.presets, ...Object.keys(presets)])].sort(),
    ...(limits.length > 0 && { presetLimits: Object.fromEntries(limits) }),
  };
}

function extended(section: CatalogSection | undefined): Catalog {
  try {
    return extendCatalog(DEFAULT_CATALOG, section);
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
