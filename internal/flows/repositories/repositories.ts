// The door of what people do to repositories and how they are shown (docs/reference/repositories.md): their settings, a sync
// that is asked for, the commit that they stay at or go back to, and their runs, also as they happen. Each change is one
// transaction with its audit entry, and ends with a run to wait for or a sync to come; what a sync does is in flows/sync.

export { approve, planOfCommit, planOfRollback, release, rollBack, setPin } from './commits.ts';
export {
  addRepository,
  changeRepository,
  findRepository,
  planOfRemoval,
  removeRepository,
  repositoryVersion,
  requestSync,
  type SettingsInput,
  setSuspended,
} from './settings.ts';
export { showRepository, showRun, showRunRow, showWholeRun, streamRuns } from './view.ts';
