// The door of the reconciler: from "this repository may have changed" to stored resources that are what its files say, with a
// run that tells what happened (ARCHITECTURE.md#how-a-push-becomes-agents, docs/reference/repositories.md#runs). It decides
// when a source is looked at, what a commit means, and how a run ends: applied, unchanged, held, failed, superseded or
// quarantined. A sync reads the row afresh, goes through the stages of run.ts in order, and changes resources in one
// transaction only (apply.ts). It never takes an error for an empty tree, never retries what only an author can mend, and
// never lets one repository delay another.

export { statusText, type SyncRequest } from './run-record.ts';
export { type CommitPlan, pathsReadOutside, planCommit } from './plan-commit.ts';
export { applyFiles } from './apply-files.ts';
export { findTrigger, originsOfRun, originsOfTriggers, readOrigins } from './origins.ts';
export { keepPolls, openForWatch, pollTurn, scheduleAll, sweep, SyncLane, takeOver } from './lane.ts';
export { applyPlan } from './apply.ts';
export { startAppliedImpacts } from './impact.ts';
export type { ApplyResult } from './plan.ts';
export { decidesAsFor, fullNameOf } from './resolve.ts';
export { checkFolder, probe } from './source.ts';
