// Reads of the provider's REST API with the application's token. Regions are two words with an address each of the
// configuration; of a list's `Link` header the cursor alone is taken.

import { idAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { isPlain } from '../../../domain/text.ts';
import { type ErrtrackSettings, ProviderFailure, read } from './request.ts';

export interface InstallationRead {
  readonly installationId: string;
  readonly appSlug: string;
  readonly status: string;
  readonly organization: { readonly id: string; readonly slug: string };
}

const object = (body: unknown): JsonObject => objectAt(body as Json);

/** The installation as the provider has it now. Throws ProviderFailure. */
export async function readInstallation(
  settings: ErrtrackSettings,
  installationId: string,
  token: string,
): Promise<InstallationRead> {
  const path = `/api/0/sentry-app-installations/${encodeURIComponent(installationId)}/`;
  const { body } = await read(settings, new URL(path, settings.baseUrl).href, token);
  const found = object(body);
  const organization = objectAt(found['organization']);
  const [uuid, status] = [textAt(found['uuid']), textAt(found['status'])];
  const [appSlug, id, slug] = [
    textAt(objectAt(found['app'])['slug']),
    idAt(organization['id']),
    textAt(organization['slug']),
  ];
  if (uuid === undefined || status === undefined || appSlug === undefined || id === undefined || slug === undefined) {
    throw new ProviderFailure('unreadable');
  }
  return { installationId: uuid, appSlug, status, organization: { id, slug } };
}

export interface OrganizationRead {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly region: 'us' | 'de';
}

/** The organization, read at `from` (the provider's base, or a region). Throws ProviderFailure. */
export async function readOrganization(
  settings: ErrtrackSettings,
  from: 'base' | 'us' | 'de',
  slug: string,
  token: string,
): Promise<OrganizationRead> {
  const base = from === 'base' ? settings.baseUrl : settings.regions[from];
  const { body } = await read(settings, new URL(`/api/0/organizations/${encodeURIComponent(slug)}/`, base).href, token);
  const found = object(body);
  const [id, foundSlug, name] = [idAt(found['id']), textAt(found['slug']), textAt(found['name'])];
  const regionUrl = textAt(objectAt(found['links'])['regionUrl']);
  const region = (['us', 'de'] as const).find((word) => sameOrigin(settings.regions[word], regionUrl));
  if (id === undefined || foundSlug === undefined || region === undefined) throw new ProviderFailure('unreadable');
  // Shown to people, and no more: one that cannot be kept ends no setup, whose code is spent by now.
  return { id, slug: foundSlug, name: name !== undefined && isPlain(name) ? name : foundSlug, region };
}

const sameOrigin = (address: string, other: string | undefined): boolean =>
  other !== undefined && URL.canParse(other) && new URL(other).href === new URL(address).href;

/** A page of the organization's projects, and the cursor of the next. Throws ProviderFailure. */
export async function readProjectPage(
  settings: ErrtrackSettings,
  at: { readonly region: 'us' | 'de'; readonly organization: string; readonly cursor: string | null },
  token: string,
): Promise<{ readonly body: unknown; readonly next: string | null }> {
  const path = `/api/0/organizations/${encodeURIComponent(at.organization)}/projects/`;
  const url = new URL(path, settings.regions[at.region]);
  url.searchParams.set('per_page', '100');
  if (at.cursor !== null) url.searchParams.set('cursor', at.cursor);
  const { body, headers } = await read(settings, url.href, token);
  return { body, next: nextCursor(headers['link']) };
}

/** The cursor of `rel="next"` with results, null where there is none. The address beside it is not looked at. */
function nextCursor(header: string | string[] | undefined): string | null {
  for (const part of String(header ?? '').split(/,\s*(?=<)/)) {
    if (!/;\s*rel="next"/.test(part) || !/;\s*results="true"/.test(part)) continue;
    return /;\s*cursor="([^"]{0,200})"/.exec(part)?.[1] ?? '';
  }
  return null;
}

const issueUrl = (settings: ErrtrackSettings, at: IssueAt, more = ''): string => {
  const path = `/api/0/organizations/${encodeURIComponent(at.organization)}/issues/${encodeURIComponent(at.issue)}/${more}`;
  return new URL(path, settings.regions[at.region]).href;
};

export interface IssueAt {
  readonly region: 'us' | 'de';
  readonly organization: string;
  /** A number, or a short id. */
  readonly issue: string;
}

/** An issue, as the provider has it. Throws ProviderFailure. */
export async function readIssue(settings: ErrtrackSettings, at: IssueAt, token: string): Promise<JsonObject> {
  return object((await read(settings, issueUrl(settings, at), token)).body);
}

/** The latest event of an issue; null where the provider says that it has none. Throws ProviderFailure. */
export async function readEvent(settings: ErrtrackSettings, at: IssueAt, token: string): Promise<JsonObject | null> {
  try {
    return object((await read(settings, issueUrl(settings, at, 'events/latest/'), token)).body);
  } catch (error) {
    const isNone =
      error instanceof ProviderFailure && error.word === 'not-found' && /^No matching event/.test(error.detail);
    if (isNone) return null;
    throw error;
  }
}
