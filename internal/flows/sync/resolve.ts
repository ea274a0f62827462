// The first stage: which commit, under which inputs, and what to make of it. Writes nothing.

import { sha256 } from '../../base/hash.ts';
import type { Tip } from '../../adapters/repo/types.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { type ReconcileReason, type ReconcileRow, runById } from '../../adapters/store/repositories/reconciles.ts';
import type { InHand, Repository } from '../../adapters/store/repositories/repositories.ts';
import { decidingSettings } from '../../adapters/store/repositories/settings.ts';
import { snapshotById } from '../../adapters/store/repositories/snapshots.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import { withoutEnd } from '../../domain/text.ts';
import type { CatalogPorts } from '../ports.ts';
import { storedFiles, type ToRead, type TreeFiles, type Verdict } from './snapshot.ts';
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
  const hash = hashOf(task.catalog, repository, context);
  return { tip, context, hash, verdict: assess({ repository, commit: tip.commit, hash, reason }), repeated: null };
}

function hashOf(
  { catalogHash }: Pick<CatalogPorts, 'catalogHash'>,
  repository: Repository,
  context: Resolved['context'],
): string {
  return sha256(inputsText({ context, settings: decidingSettings(repository), catalog: catalogHash }));
}

/** Whether what decides a sync besides its commit is still what it was for a run: else the next look syncs anew. */
export function decidesAsFor(
  catalog: Pick<CatalogPorts, 'catalogHash'>,
  { repository, connections }: Pick<InHand, 'repository' | 'connections'>,
  { inputs }: Pick<ReconcileRow, 'inputs'>,
): boolean {
  const { branch = null } = (inputs['context'] ?? {}) as Resolved['context'];
  return inputs['hash'] === hashOf(catalog, repository, contextOf(repository, { branch, connections }));
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
  return {
    tip: { commit: run.commit },
    context,
    hash: hashOf(task.catalog, repository, context),
    verdict,
    repeated: { lock, files },
  };
}

/** A person's sync and the periodic comparison look at everything again, whatever was seen. */
export function assess(input: {
  readonly repository: Pick<Repository, 'quarantinedCommit' | 'state'>;
  readonly commit: string;
  readonly hash: string;
  readonly reason: ReconcileReason;
}): Verdict {
  const { repository, commit, hash, reason } = input;
  const { state } = repository;
  if (commit === repository.quarantinedCommit) {
    if (state.seenCommit === commit && reason !== 'manual') return settled(state.condition);
    return { do: 'pass-over' };
  }
  const thorough = reason === 'manual' || reason === 'resync';
  if (!thorough && state.seenCommit === commit && state.seenHash === hash) return settled(state.condition);
  // After a commit that failed, a commit with the applied one's trees is news again, and good news.
  return { do: 'sync', prior: !thorough && state.snapshotId !== null && state.appliedHash === hash };
}

const settled = (condition: string | null): Verdict => ({ do: condition === null ? 'nothing' : 'recover' });

/** Owner and name of a repository address, such as `acme/app`; for a folder the name it is registered under. */
export function fullNameOf(repository: { readonly name: string; readonly url: string | null }): string {
  const path = repository.url === null ? undefined : pathOf(repository.url);
  return path?.split('/').filter(Boolean).join('/') || repository.name;
}

/** The path of an address with its capitals, which the key has lost. */
function pathOf(url: string): string | undefined {
  const scp = /^(?:[^@/\s]+@)?[A-Za-z0-9.-]+:(?!\/\/)([^\s]+)$/.exec(url);
  const path = scp?.[1] ?? URL.parse(url)?.pathname;
  return path === undefined ? undefined : withoutEnd(path, '/').replace(/\.git$/i, '');
}

/**
 * The context variables of a sync, beneath each document's own (docs/reference/compile.md#variables): what is known of the repository,
 * then what was declared with it, which wins. A folder has no branch; a connection is there where one is named by the
 * repository's `auth`, or the project has exactly one.
 */
export function contextOf(
  repository: Pick<Repository, 'name' | 'url' | 'branch' | 'context' | 'auth'>,
  known: { readonly branch: string | null; readonly connections: readonly string[] },
): { readonly [name: string]: string } {
  const fullName = fullNameOf(repository);
  const parts = fullName.split('/');
  const branch = repository.branch ?? known.branch;
  const named = repository.auth?.kind === 'connection' ? repository.auth.connection : undefined;
  const connection = named ?? (known.connections.length === 1 ? known.connections[0] : undefined);
  return {
    repositoryFullName: fullName,
    repositoryOwner: parts.length > 1 ? parts.slice(0, -1).join('/') : fullName,
    repositoryName: parts.at(-1) ?? fullName,
    ...(branch !== null && { branch }),
    ...(connection !== undefined && { codehostConnection: connection }),
    ...repository.context,
  };
}

/** One text for everything besides the commit that decides what a sync does; hashed by the caller. */
export function inputsText(input: {
  readonly context: { readonly [name: string]: string };
  readonly settings: Json;
  readonly catalog: string;
}): string {
  return canonicalJson({ context: input.context, settings: input.settings, catalog: input.catalog });
}
