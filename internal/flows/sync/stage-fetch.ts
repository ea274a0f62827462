// The stages that learn: which commit, and which files. Neither changes a resource.

import { createHash } from 'node:crypto';
import { failpoint } from '../../base/failpoint.ts';
import { readBlobs, writeBlobs } from '../../adapters/store/repositories/blobs.ts';
import { codehostConnections } from '../../adapters/store/secrets/credentials.ts';
import { runById } from '../../adapters/store/repositories/reconciles.ts';
import { decidingSettings } from '../../adapters/store/repositories/repositories.ts';
import {
  insertSnapshot,
  snapshotById,
  snapshotOfCommit,
  type StoredSnapshot,
} from '../../adapters/store/repositories/snapshots.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { Snapshot, Tip } from '../../adapters/repo/types.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { Bundle, BundleEntry, TemplateLock } from '../../domain/bundle.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { portsOf } from '../context.ts';
import { inputsKey } from '../compiled.ts';
import { assess, contextOf, inputsText } from './decide.ts';
import { hostOf, sourceKey } from './source.ts';
import { type Ending, ensureRun, type Inputs, recordedInputs, type Stage, touch, type Work } from './work.ts';

/** Whether a path lies in the tree that is read as a whole. */
export const inSvc = (path: string): boolean => path.startsWith('.svc/');

/** Which commit, under which inputs, and what to make of it. Writes nothing. */
export async function resolveAndAssess(work: Work): Promise<Tip> {
  const { ctx, repository, reason, request } = work;
  if (request.kind === 'sync') {
    work.tip = await resolveTip(work);
    const branch = work.tip.ref?.replace(/^refs\/heads\//, '') ?? repository.state.refBranch;
    const connections = await codehostConnections(ctx.db, repository.projectId);
    work.context = contextOf(repository, { branch, connections });
  } else {
    await recall(work, request.from);
  }
  const { tip } = work;
  if (tip === null) throw new Error('resolved to no commit');
  const settings = decidingSettings(repository);
  const text = inputsText({ context: work.context, settings, catalog: portsOf(ctx).catalogHash });
  work.hash = createHash('sha256').update(text).digest('hex');
  work.verdict =
    request.kind === 'sync'
      ? assess({ repository, commit: tip.commit, hash: work.hash, reason })
      : { do: 'sync', prior: false };
  return tip;
}

/** Looks, and opens the run where there is something to do. */
export const resolve: Stage = {
  name: 'resolve',
  async run(work) {
    const tip = await resolveAndAssess(work);
    failpoint('sync.resolved');
    return settle(work, tip);
  },
};

/** The state of a source that answers. */
export const clearedCondition = { failures: 0, condition: null, conditionDetail: null, conditionSince: null };

async function settle(work: Work, tip: Tip): Promise<Ending | undefined> {
  const { repository, reason } = work;
  switch (work.verdict?.do) {
    case 'nothing':
      return { status: 'unchanged', silent: true };
    case 'recover':
      return { status: 'unchanged', silent: true, state: clearedCondition };
    case 'pass-over':
      return {
        status: 'quarantined',
        patch: {
          commit: tip.commit,
          detail: `commit ${tip.commit} was left by a rollback; the next newer commit is synced by itself`,
        },
        state: { ...clearedCondition, seenCommit: tip.commit, seenHash: work.hash },
      };
    case 'sync':
    case undefined:
      break;
  }
  // The periodic comparison of a commit that is applied already leaves a row only when it finds something.
  if (reason === 'resync' && repository.state.seenCommit === tip.commit) return undefined;
  await ensureRun(work);
  await touch(work, { commit: tip.commit, inputs: recordedInputs(work) });
  return undefined;
}

async function resolveTip(work: Work): Promise<Tip> {
  const { ctx, repository, source, signal } = work;
  if (repository.pinnedCommit !== null) return { commit: repository.pinnedCommit };
  if (work.spotted !== null) return work.spotted;
  // What a folder's hash covers outside .svc/ is what was read of it the last time; a commit needs no such help.
  const isFolder = repository.path !== null && repository.branch === null && repository.state.snapshotId !== null;
  const prior = isFolder ? await snapshotById(ctx.db, repository.state.snapshotId ?? '') : undefined;
  return portsOf(ctx).limited(hostOf(repository), () => source.resolve(signal, prior ?? null));
}

/** Takes commit, context and template versions from an earlier run. */
async function recall(work: Work, runId: string): Promise<void> {
  const { ctx, repository } = work;
  const run = await runById(ctx.db, repository.projectId, runId);
  if (run === undefined || run.commit === null) throw new Error('the run to repeat is gone');
  work.tip = { commit: run.commit };
  work.context = (run.inputs['context'] ?? {}) as { [name: string]: string };
  work.lock = (run.inputs['templateLock'] ?? {}) as TemplateLock;
  const snapshotId = run.inputs['snapshotId'];
  const record = typeof snapshotId === 'string' ? await snapshotById(ctx.db, snapshotId) : undefined;
  const stored = record === undefined ? undefined : await storedInputs(work, record);
  if (stored === undefined) throw new RepoCondition('stale', `the stored inputs of commit ${run.commit} are gone`);
  work.inputs = stored;
}

/** A stored snapshot with its bytes; undefined where they are gone. */
async function storedInputs(work: Work, record: StoredSnapshot & { readonly id: string }): Promise<Inputs | undefined> {
  const { ctx, repository } = work;
  let bundle: Bundle | undefined;
  const read = async (): Promise<Bundle | undefined> => (bundle ??= await bundleOf(ctx.db, record));
  const inputs: Inputs = {
    snapshotId: record.id,
    record,
    remarks: [],
    bundle: async () => {
      const whole = await read();
      if (whole !== undefined) return whole;
      portsOf(ctx).compiled.forget(repository.id);
      throw new RepoCondition(
        'stale',
        `the stored files of commit ${record.commit} are gone; the next sync reads them`,
      );
    },
  };
  // What they compile into is known: nobody may ask for the files at all.
  if (portsOf(ctx).compiled.find(repository.id, inputsKey(record, work.context)) !== undefined) return inputs;
  return (await read()) === undefined ? undefined : inputs;
}

async function bundleOf(sql: Sql, record: StoredSnapshot): Promise<Bundle | undefined> {
  const wanted = record.entries.filter((entry) => entry.kind === 'file' && entry.tooLarge === undefined);
  const bytes = await readBlobs(sql, [...new Set(wanted.map((entry) => entry.oid))]);
  if (wanted.some((entry) => !bytes.has(entry.oid))) return undefined;
  const entries = new Map<string, BundleEntry>();
  for (const { path, kind, oid, tooLarge } of record.entries) {
    const content = kind === 'file' && tooLarge === undefined ? bytes.get(oid) : undefined;
    entries.set(path, { path, kind, oid, ...(content && { bytes: content }), ...(tooLarge && { tooLarge }) });
  }
  return { entries, absent: new Set(record.absent), hasSvc: record.hasSvc };
}

/** The files of the commit: from the store where it has them, else from the server, then stored. */
export const snapshot: Stage = {
  name: 'snapshot',
  async run(work) {
    const { ctx, repository, source, tip, signal } = work;
    if (work.inputs !== null || tip === null) return undefined;
    const { state } = repository;
    const last = state.snapshotId === null ? undefined : await snapshotById(ctx.db, state.snapshotId);
    // What was read elsewhere says nothing about what is to be read now.
    const prior = last?.source === sourceKey(repository) ? last : undefined;
    const isApplied = prior !== undefined && tip.commit === state.appliedCommit;
    const known = isApplied ? prior : await pinnedSnapshot(work, tip);
    const stored = known === undefined ? undefined : await storedInputs(work, known);
    if (stored !== undefined) {
      work.inputs = stored;
      return undefined;
    }
    const outside = [
      ...(prior?.entries ?? []).map((entry) => entry.path).filter((path) => !inSvc(path)),
      ...(prior?.absent ?? []),
    ];
    const mayStop = work.verdict?.do === 'sync' && work.verdict.prior && prior !== undefined;
    const read = await portsOf(ctx).limited(hostOf(repository), () =>
      source.snapshot(tip, { prior: prior ?? null, wantPaths: outside, full: !mayStop, signal }),
    );
    if (mayStop && read.unchanged) return sameTrees(work, tip, prior.id);
    // A folder is read as it is by now.
    if (read.commit !== tip.commit) {
      work.tip = { ...tip, commit: read.commit };
      await touch(work, { commit: read.commit });
    }
    await store(work, read);
    failpoint('sync.snapshot-stored');
    return undefined;
  },
};

/** A pinned commit may not be reachable on the server any more; what is stored of it is as good. */
async function pinnedSnapshot(work: Work, tip: Tip): Promise<(StoredSnapshot & { id: string }) | undefined> {
  const { ctx, repository } = work;
  if (repository.pinnedCommit === null) return undefined;
  const id = await snapshotOfCommit(ctx.db, repository.id, tip.commit, sourceKey(repository));
  return id === undefined ? undefined : snapshotById(ctx.db, id);
}

/** A commit that touches nothing that compile reads: its id is all there is to record. */
function sameTrees(work: Work, tip: Tip, snapshotId: string): Ending {
  return {
    status: 'unchanged',
    patch: { commit: tip.commit, inputs: { ...recordedInputs(work), snapshotId } },
    state: appliedState(work, tip, snapshotId, work.repository.state.templateLock),
  };
}

/** The state row after a commit has been applied or found to change nothing. */
export function appliedState(work: Work, tip: Tip, snapshotId: string, templateLock: TemplateLock) {
  const back = work.request.kind === 'rollback';
  return {
    appliedCommit: tip.commit,
    appliedHash: work.hash,
    appliedAt: work.ctx.runtime.now(),
    snapshotId,
    templateLock,
    seenCommit: tip.commit,
    // Stored inputs are not those of today: what a rollback applied is compared afresh when the branch moves.
    seenHash: back ? null : work.hash,
    ...(tip.ref !== undefined && { refBranch: tip.ref.replace(/^refs\/heads\//, '') }),
    ...clearedCondition,
  };
}

/** Stores what was read, blobs and snapshot in one transaction, and makes it the inputs of the work. */
export async function store(work: Work, read: Snapshot): Promise<void> {
  const { ctx, repository } = work;
  const bundle = read.bundle;
  if (bundle === null) throw new Error('the source left out the files');
  const snapshotId = ctx.runtime.uuid();
  const record: StoredSnapshot = { ...read.record, hasSvc: bundle.hasSvc, source: sourceKey(repository) };
  const blobs = new Map<string, Uint8Array>();
  for (const { oid, bytes } of bundle.entries.values()) if (bytes !== undefined) blobs.set(oid, bytes);
  await ctx.db.tx(async (tx) => {
    await writeBlobs(tx, blobs);
    await insertSnapshot(tx, { ...record, id: snapshotId, repositoryId: repository.id });
  });
  const remarks = read.findings
    .filter((finding) => finding.rule !== 'too-large')
    .map(
      (finding): Diagnostic => ({
        severity: 'warning',
        code: 'hostile-path',
        message: finding.message,
        file: finding.path,
      }),
    );
  work.inputs = { snapshotId, bundle: async () => bundle, record, remarks };
}
