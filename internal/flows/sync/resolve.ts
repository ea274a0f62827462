// The first stage: which commit, under which inputs, and what to make of it. Writes nothing.

import { createHash } from 'node:crypto';
import type { Tip } from '../../adapters/repo/types.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { runById } from '../../adapters/store/repositories/reconciles.ts';
import { decidingSettings } from '../../adapters/store/repositories/repositories.ts';
import { snapshotById } from '../../adapters/store/repositories/snapshots.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import { catalogOf } from '../context.ts';
import { assess, contextOf, inputsText, type Verdict } from './decide.ts';
import { storedFiles, type ToRead, type TreeFiles } from './snapshot.ts';
import type { SyncTask } from './task.ts';

export interface Resolved extends ToRead {
  /** Of everything besides the commit that decides what a sync does. */
  readonly hash: string;
  /** Of a run that repeats an earlier one: its files, and the template versions that they resolved to. */
  readonly repeated: { readonly lock: TemplateLock; readonly files: TreeFiles } | null;
}

/** Throws RepoCondition where the source cannot be read, or what was to be repeated is gone. */
export async function resolve(task: SyncTask): Promise<Resolved> {
  const { repository, reason, request } = task;
  if (request.kind !== 'sync') return repeat(task, request.from);
  const tip = await resolveTip(task);
  const branch = tip.ref?.replace(/^refs\/heads\//, '') ?? repository.state.refBranch;
  const context = contextOf(repository, { branch, connections: task.connections });
  const hash = hashOf(task, context);
  return { tip, context, hash, verdict: assess({ repository, commit: tip.commit, hash, reason }), repeated: null };
}

function hashOf({ ctx, repository }: SyncTask, context: Resolved['context']): string {
  const text = inputsText({ context, settings: decidingSettings(repository), catalog: catalogOf(ctx).catalogHash });
  return createHash('sha256').update(text).digest('hex');
}

async function resolveTip({ ctx, repository, reader }: SyncTask): Promise<Tip> {
  if (repository.pinnedCommit !== null) return { commit: repository.pinnedCommit };
  // What a folder's hash covers outside .svc/ is what was read of it the last time; a commit needs no such help.
  const isFolder = repository.path !== null && repository.branch === null && repository.state.snapshotId !== null;
  const prior = isFolder ? await snapshotById(ctx.db, repository.state.snapshotId ?? '') : undefined;
  return reader.resolve(prior ?? null);
}

/** Takes commit, context and template versions from an earlier run. */
async function repeat(task: SyncTask, runId: string): Promise<Resolved> {
  const { ctx, repository } = task;
  const run = await runById(ctx.db, repository.projectId, runId);
  if (run === undefined || run.commit === null) throw new RepoCondition('stale', 'the run to repeat is gone');
  const context = (run.inputs['context'] ?? {}) as Resolved['context'];
  const lock = (run.inputs['templateLock'] ?? {}) as TemplateLock;
  const snapshotId = run.inputs['snapshotId'];
  const record = typeof snapshotId === 'string' ? await snapshotById(ctx.db, snapshotId) : undefined;
  const files = record === undefined ? undefined : await storedFiles(task, record, context);
  if (files === undefined) throw new RepoCondition('stale', `the stored inputs of commit ${run.commit} are gone`);
  const verdict: Verdict = { do: 'sync', prior: false };
  return { tip: { commit: run.commit }, context, hash: hashOf(task, context), verdict, repeated: { lock, files } };
}
