// Names of resources, and what is said of a text that is none.

import { resourceNamePattern } from '../../domain/spec.ts';
import type { Check, NodeRef, Reader } from './read.ts';
import { isReference, string, wrong } from './read.ts';
import { withoutEnd } from '../../domain/text.ts';

/** A resource name: 1 to 128 of `A-Za-z0-9_.-` (docs/reference/compile.md#text-and-limits). */
export const resourceName: Reader<string> = (check, spot) => {
  const value = string(check, spot, 'a name');
  return value === undefined || resourceNamePattern.test(value) ? value : wrongName(check, spot, value);
};

/** Reports a text that is no resource name, with the nearest that is one. */
export function wrongName(check: Check, spot: NodeRef, value: string): undefined {
  const joined = value
    .trim()
    .slice(0, 200)
    .replaceAll(/[^\w.-]+/g, '-');
  const near = withoutEnd(joined.replace(/^-+/, ''), '-');
  const hint = resourceNamePattern.test(near) && !isReference(spot.trail) ? { hint: `Did you mean ${near}?` } : {};
  return wrong(check, spot, '1 to 128 of the characters A-Z a-z 0-9 _ . -', { code: 'name-invalid', ...hint });
}
