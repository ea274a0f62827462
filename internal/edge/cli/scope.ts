// `--org` on commands that work at project or organization scope: a flag, or `--org=ORG` for another organization.

import type { Call } from './types.ts';

/** Which of the two operations is meant, and the parameters that name another organization than the settings do. */
export function scopeOf(call: Call): { readonly isOrg: boolean; readonly params: { readonly org?: string } } {
  const isOrg = call.flag('org');
  const other = isOrg ? call.text('org') : undefined;
  return { isOrg, params: other === undefined || other === 'true' ? {} : { org: other } };
}
