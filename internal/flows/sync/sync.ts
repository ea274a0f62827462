// The door of the reconciler: from "this repository may have changed" to stored resources that are what its files say,
// with a run that tells what happened (design, section 4, "A push becomes agents"; contract, sections 2 and 3). It
// decides when a source is looked at, what a commit means, and how a run ends: applied, unchanged, held, failed,
// superseded or quarantined. A sync reads the row afresh, goes through the stages of engine.ts in order, and changes
// resources in one transaction only (apply.ts). It never takes an error for an empty tree, never retries what only an
// author can mend, and never lets one repository delay another.

export { applyFiles } from './apply-files.ts';
export {
  deleteAgent,
  deleteEndpoint,
  type EndpointView,
  reserveEndpoint,
  showEndpoint,
  showEndpoints,
} from './apply-single.ts';
export { codehostChecks } from './check-runs.ts';
export { diagnose, retryJobs } from './doctor.ts';
export { openForWatch, syncRepository } from './engine.ts';
export {
  addRepository,
  changeRepository,
  findRepository,
  removeRepository,
  requestSync,
  type SettingsInput,
  setPin,
  setSuspended,
} from './manage.ts';
export { probe } from './probe.ts';
export { startSyncPorts } from './start-ports.ts';
export { tellStatus } from './status.ts';
export { streamRuns } from './stream.ts';
export { approve, rollBack } from './rollback.ts';
export { showRepository, showRun, showWholeRun } from './view.ts';
export { keepPolls, scheduleAll, pollTurn, sweep, takeOver } from './watch.ts';
