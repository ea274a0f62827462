// The sections of the SVC_CONFIG file that decide how a tree compiles, checked: the catalog, with the presets of
// `sandboxes`, and the template sources.

import { isAbsolute, resolve } from 'node:path';
import type { Catalog } from '../../domain/catalog.ts';
import { CatalogSection, extendCatalog } from './catalog.ts';
import { DEFAULT_CATALOG } from './default-catalog.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { readSection } from './section.ts';
import { type SandboxesSettings, sandboxesSettings } from './sandbox-settings.ts';
import { TemplatesSection } from './templates.ts';

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
