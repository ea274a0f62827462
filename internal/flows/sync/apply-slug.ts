// The slug of a webhook endpoint (contract, section 3): stable, unique, and derived from project and name alone.

import { createHash } from 'node:crypto';

const DERIVED_CHARS = 10;

/** Lower-cased name with other characters than `a-z0-9-` as `-`, then `-` and ten characters of project and name. */
export function endpointSlug(projectId: string, name: string): string {
  const digest = createHash('sha256').update(`${projectId}\0${name}`).digest('hex');
  const derived = BigInt(`0x${digest}`).toString(36).slice(-DERIVED_CHARS);
  return `${name.toLowerCase().replaceAll(/[^a-z0-9-]/g, '-')}-${derived}`;
}

/** Where callers post to (spec, Webhook ingest). */
export function ingestUrl(baseUrl: string, slug: string): string {
  return `${baseUrl}/api/v1/webhook-endpoints/${slug}/events`;
}
