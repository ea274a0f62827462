// The error tracker's wire: consent and its one exchange, reads of installation, organization and projects, reads of
// issues and events, search over its tool server, and the proof and meaning of its webhooks, in the neutral vocabulary
// (docs/reference/error-tracking.md). Every address is one of the configuration's: none that the provider names is followed.
// An exchange, refresh or confirmation whose outcome is not known says so; it is never sent again from here.
// It never looks at a tenant, stores nothing and logs nothing.

export { exchangeCode, refreshTokens, confirmInstallation } from './exchange.ts';
export {
  readEvent,
  readInstallation,
  readIssue,
  readOrganization,
  readProjectPage,
} from './read.ts';
export { type ErrtrackSettings, ProviderFailure } from './request.ts';
export { searchIssues } from './search.ts';
export { belongsTo, projectEvent, projectIssue } from './project.ts';
export { type ErrtrackDelivery, normalize, verifySignature } from './normalize.ts';

/** The page at the provider where an administrator consents to the application. */
export function consentUrl(settings: { readonly baseUrl: string; readonly appSlug: string }, state: string): string {
  const url = new URL(`/sentry-apps/${encodeURIComponent(settings.appSlug)}/external-install/`, settings.baseUrl);
  url.searchParams.set('state', state);
  return url.href;
}
