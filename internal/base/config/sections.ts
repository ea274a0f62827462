// The rich sections of the SVC_CONFIG file, checked: what they add to the shipped catalog, and where templates come from.

import * as v from 'valibot';
import type { Catalog } from '../../words/catalog.ts';
import type { Json } from '../../words/json.ts';
import { CatalogSection, DEFAULT_CATALOG, extendCatalog } from './catalog.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { TemplatesSection } from './templates.ts';

export interface Sections {
  readonly catalog: Catalog;
  readonly templates: TemplatesSection;
}

/** Throws ConfigError naming the key that cannot be used. */
export function readSections(file: ConfigFile): Sections {
  const own = section(CatalogSection, file.catalog, 'catalog');
  const templates = section(TemplatesSection, file.templates, 'templates') ?? [];
  try {
    return { catalog: extendCatalog(DEFAULT_CATALOG, own), templates };
  } catch (error) {
    if (error instanceof RangeError) throw new ConfigError('catalog', `cannot be used: ${error.message}`);
    throw error;
  }
}

function section<const S extends v.GenericSchema>(
  schema: S,
  value: Json | undefined,
  name: string,
): v.InferOutput<S> | undefined {
  if (value === undefined) return undefined;
  const parsed = v.safeParse(schema, value);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const path = v.getDotPath(issue);
  throw new ConfigError(path === null ? name : `${name}.${path}`, `cannot be used: ${issue.message}`);
}
