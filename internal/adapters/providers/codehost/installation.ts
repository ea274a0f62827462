// What the code host says of an installation: to its application when it is asked, and in deliveries. The key stays in
// memory; its own words end here.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { request } from 'undici';
import { idAt, listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { InstallationChange, Observed } from '../../../domain/connection.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { boundedText } from '../../../base/net/answer.ts';
import { dispatcherFor } from './guard.ts';
import { isLimit } from './limit.ts';
import { answerBytes, appToken, type MintRequest, publicApiUrl } from './token.ts';
import { isPlain, withoutEnd } from '../../../domain/text.ts';

export interface SeenInstallation {
  /** `unavailable`: nobody answered, or not as the provider does; nothing is known. `limited`: it did not look. */
  readonly word: 'active' | 'suspended' | 'removed' | 'credential-refused' | 'unavailable' | 'limited';
  readonly observed?: Observed;
}

/** Reads the installation, in one call; never throws for what the provider answers or does not. */
export async function readInstallation(input: Omit<MintRequest, 'scope'>): Promise<SeenInstallation> {
  let key: KeyObject;
  try {
    key = createPrivateKey(input.privateKey);
  } catch {
    return { word: 'credential-refused' };
  }
  const url = `${withoutEnd(input.apiUrl ?? publicApiUrl, '/')}/app/installations/${encodeURIComponent(input.installationId)}`;
  try {
    const { statusCode, headers, body } = await request(url, {
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${appToken(input, key)}`,
        'user-agent': 'svc',
        'x-github-api-version': '2022-11-28',
      },
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
      signal: AbortSignal.timeout(20_000),
      dispatcher: dispatcherFor(new URL(url), input.allowPrivate),
    });
    const answer = await boundedText(body, answerBytes);
    if (statusCode === 401) return { word: 'credential-refused' };
    if (statusCode === 404) return { word: 'removed' };
    if (isLimit(statusCode, headers, answer)) return { word: 'limited' };
    if (statusCode !== 200) return { word: 'unavailable' };
    const installation = objectAt(JSON.parse(answer) as Json);
    // What names another, or none, is no answer to what was asked.
    if (idAt(installation['id']) !== input.installationId) return { word: 'unavailable' };
    const isSuspended = textAt(installation['suspended_at']) !== undefined;
    return { word: isSuspended ? 'suspended' : 'active', observed: observedOf(installation) };
  } catch {
    return { word: 'unavailable' };
  }
}

/** Permissions of the provider by the capabilities of mounts that they serve. */
const capabilities: { readonly [permission: string]: string } = {
  contents: 'contents',
  pull_requests: 'pullRequests',
  issues: 'issues',
  checks: 'checks',
  actions: 'actions',
  workflows: 'workflows',
  secrets: 'secrets',
};

function observedOf(installation: JsonObject): Observed {
  const granted = objectAt(installation['permissions']);
  const permissions = Object.entries(capabilities).flatMap(([permission, capability]): [string, 'read' | 'write'][] => {
    const level = textAt(granted[permission]);
    return level === undefined ? [] : [[capability, level === 'read' ? 'read' : 'write']];
  });
  const selection = textAt(installation['repository_selection']);
  return {
    ...(Object.keys(granted).length > 0 && { permissions: Object.fromEntries(permissions) }),
    ...((selection === 'all' || selection === 'selected') && { repositories: { selection } }),
  };
}

const changes: { readonly [event: string]: InstallationChange['what'] | undefined } = {
  'installation.created': 'established',
  'installation.unsuspend': 'established',
  'installation.deleted': 'removed',
  'installation.suspend': 'suspended',
  'installation.new_permissions_accepted': 'permissions',
  'installation_repositories.added': 'repositories',
  'installation_repositories.removed': 'repositories',
  'installation_target.renamed': 'renamed',
};
const namesMax = 2_000;
/** What no repository is called is no name: the database refuses some of it, and the rest of a delivery counts. */
const namesIn = (value: Json | undefined): string[] =>
  listAt(value)
    .slice(0, namesMax)
    .flatMap((one) => textAt(objectAt(one)['full_name']) ?? [])
    .filter(isPlain);

/** Which installation a delivery is of; undefined where it does not say. */
export const installationOf = (body: JsonObject): string | undefined => idAt(objectAt(body['installation'])['id']);

/** What a delivery says of its installation; undefined for whatever is about something else. */
export function installationChangeOf(event: string, body: JsonObject): InstallationChange | undefined {
  const what = changes[`${event}.${textAt(body['action']) ?? ''}`];
  if (what === undefined) return undefined;
  const observed = observedOf(objectAt(body['installation']));
  const selection = textAt(body['repository_selection']) ?? observed.repositories?.selection;
  const isWhole = what === 'established' && listAt(body['repositories']).length > 0;
  return {
    what,
    observed: {
      ...(observed.permissions !== undefined && { permissions: observed.permissions }),
      ...((selection === 'all' || selection === 'selected') && {
        repositories: { selection, ...(isWhole && { names: namesIn(body['repositories']) }) },
      }),
    },
    added: namesIn(body['repositories_added']),
    removed: namesIn(body['repositories_removed']),
  };
}
