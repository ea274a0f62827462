// `--org` on commands that work at project or organization scope: a flag, or `--org=ORG` for another organization.

import type { Client } from './client.ts';
import type { Call } from './types.ts';

/** Path under the project, or under the organization where --org is given. */
export function scoped(call: Call, client: Client, path: string): string {
  if (!call.flag('org')) return client.project(path);
  const other = call.text('org');
  return other === undefined || other === 'true'
    ? client.org(path)
    : `/api/v1/orgs/${encodeURIComponent(other)}${path}`;
}
