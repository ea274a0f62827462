// What operators look at first (docs/reference/http-api.md#overview): whether anything of a project is wrong, what changed last,
// what runs and what comes, in one bounded answer; and what changes from then on, as ids. Decides what needs a person and
// how it is said. Never changes anything, and carries nothing but names, states and counts: no payload, prompt or value.

export {
  dryArchiveSession,
  dryCommit,
  dryDeleteAgent,
  dryDeleteEndpoint,
  dryDeleteSecret,
  dryReleaseBinding,
  dryRemoveConnection,
  dryRemoveRepository,
} from './dry-runs.ts';
export {
  dryChangeProject,
  dryDeleteOrg,
  dryDeleteProject,
  dryEndServiceAccount,
  dryRemoveMember,
  dryRemoveReceiver,
  dryRevokeToken,
} from './dry-tenancy.ts';
export { watchChanges } from './changes.ts';
export { refreshGauges } from './gauges.ts';
export { readOverview } from './overview.ts';
