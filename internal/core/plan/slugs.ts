// Models by vendor/model slug, held against what their provider has where it could be asked (docs/reference/compile.md#models).
// A list that is a day behind must hold up nobody's sync, so that what it lacks is a warning.

import type { Diagnostic } from '../../domain/diagnostic.ts';
import { nearest } from '../../domain/nearest.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import { type Placed, toDiagnostic } from './stored.ts';

type Step = string | number;

/** Every slug of a model with its path in the spec; none where the provider has a list of its own. */
function slugsOf(model: ModelSpec | undefined): readonly (readonly [slug: string, path: readonly Step[]])[] {
  if (model === undefined || model.provider !== 'provider-c') return [];
  return [
    [model.id, ['model', 'id']],
    ...(model.gateway?.models ?? []).map((slug, index) => [slug, ['model', 'gateway', 'models', index]] as const),
    ...(model.fallbacks ?? []).map(({ id }, index) => [id, ['model', 'fallbacks', index, 'id']] as const),
  ];
}

/** A tag says how a model is served, and is in no list; a preset is of the account. */
const isListed = (slug: string, listed: ReadonlySet<string>): boolean =>
  listed.has(slug) || listed.has(slug.replace(/:[^:/]*$/, '')) || slug.startsWith('@preset/');

/** Whether a tree names any slug that a provider could be asked about. */
export const namesSlugs = ({ resources }: Placed): boolean =>
  resources.some((resource) => resource.kind === 'Agent' && slugsOf(resource.spec.model).length > 0);

/** Warns of each slug that the provider does not list. */
export function unlistedSlugs(desired: Placed, listed: ReadonlySet<string>): Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const resource of desired.resources) {
    if (resource.kind !== 'Agent') continue;
    for (const [slug, path] of slugsOf(resource.spec.model)) {
      if (isListed(slug, listed)) continue;
      const near = nearest(slug, listed, 3);
      const message = `provider-c does not list the model ${slug}; a session's first call to it would fail`;
      const hint = near === undefined ? 'Write a vendor/model that it lists.' : `Did you mean ${near}?`;
      found.push(toDiagnostic(desired, { resource, path, code: 'model-unlisted', severity: 'warning', message, hint }));
    }
  }
  return found;
}
