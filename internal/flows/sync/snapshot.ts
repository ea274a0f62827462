// The second stage: the files of the commit, from the store where it has them, else from the source, then stored. Changes
// no resource.

import { remarksOnNames, RepoCondition } from '../../adapters/repo/repo.ts';
import type { Snapshot, Tip } from '../../adapters/repo/types.ts';
import {
  insertSnapshot,
  readBlobs,
  snapshotById,
  snapshotOfCommit,
  type StoredSnapshot,
  writeBlobs,
} from '../../adapters/store/repositories/snapshots.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { Bundle, BundleEntry } from '../../domain/bundle.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { inputsKey } from '../compiled.ts';
import { syncPortsOf } from '../context.ts';
import type { SyncPorts } from '../ports.ts';
import { sourceKey } from './source.ts';
import type { SyncTask } from './task.ts';

/** What to do about a tip. */
export type Verdict =
  /** Seen to its end already, under these inputs: no write at all. */
  | { readonly do: 'nothing' }
  /** The same, but the source had a condition that is over now: forget it. */
  | { readonly do: 'recover' }
  /** The commit that a rollback left: say so once, then pass over it. */
  | { readonly do: 'pass-over' }
  /** `prior`: a commit with the same relevant trees as the applied one needs no compile. */
  | { readonly do: 'sync'; readonly prior: boolean };

/** The files that a run compiles, and where they are stored. */
export interface TreeFiles {
  readonly snapshotId: string;
  /** The files themselves, read when somebody needs them. Rejects with a RepoCondition where they are gone. */
  readonly bundle: () => Promise<Bundle>;
  readonly record: StoredSnapshot;
  /** Remarks of the source on what was read. */
  readonly remarks: readonly Diagnostic[];
  /** The compiler's answer to the files as they are here and no templates, where it was asked as soon as they were read. */
  readonly early?: ReturnType<SyncPorts['compile']>;
}

export type SnapshotResult =
  | { readonly kind: 'files'; readonly tip: Tip; readonly files: TreeFiles }
  /** The commit touches nothing that compile reads: the snapshot that is applied is its own. */
  | { readonly kind: 'same-trees'; readonly tip: Tip; readonly snapshotId: string };

/** Whether a path lies in the tree that is read as a whole. */
export const inSvc = (path: string): boolean => path.startsWith('.svc/');

/** A commit that is to be read, and what is known of it. */
export interface ToRead {
  readonly tip: Tip;
  /** What imports may name as variables. */
  readonly context: { readonly [name: string]: string };
  readonly verdict: Verdict;
  /** Of a run that repeats an earlier one: its files. */
  readonly repeated: { readonly files: TreeFiles } | null;
}

/** Throws RepoCondition where the source cannot be read. */
export async function snapshot(task: SyncTask, resolved: ToRead): Promise<SnapshotResult> {
  const { ctx, repository, reader } = task;
  const { tip, repeated, verdict } = resolved;
  if (repeated !== null) return { kind: 'files', tip, files: repeated.files };
  const { state } = repository;
  const last = state.snapshotId === null ? undefined : await recordOf(task, state.snapshotId);
  // What was read elsewhere says nothing about what is to be read now.
  const prior = last?.source === sourceKey(repository) ? last : undefined;
  const isApplied = prior !== undefined && tip.commit === state.appliedCommit;
  const known = isApplied ? prior : await pinnedSnapshot(task, tip);
  const stored = known === undefined ? undefined : await storedFiles(task, known, resolved.context);
  if (stored !== undefined) return { kind: 'files', tip, files: stored };
  const outside = [
    ...(prior?.entries ?? []).map((entry) => entry.path).filter((path) => !inSvc(path)),
    ...(prior?.absent ?? []),
  ];
  const mayStop = verdict.do === 'sync' && verdict.prior && prior !== undefined;
  // What is read is compiled next: the worker starts while the source answers.
  if (!mayStop) syncPortsOf(ctx).warmCompiler();
  const read = await reader.snapshot(tip, { prior: prior ?? null, wantPaths: outside, full: !mayStop });
  if (read.about !== undefined) task.run.about = read.about;
  if (mayStop && read.unchanged) return { kind: 'same-trees', tip, snapshotId: prior.id };
  const early = compileEarly(task, read, resolved.context);
  const taken = await keepRead(task, tip, read, remarksOf(read));
  failpoint('sync.snapshot-stored');
  if (early === undefined) return { kind: 'files', ...taken };
  return { kind: 'files', tip: taken.tip, files: { ...taken.files, early } };
}

/** Asks the compiler while the files are being stored, unless what they compile into is known. */
function compileEarly(
  { ctx, repository }: SyncTask,
  { bundle, record }: Snapshot,
  context: ToRead['context'],
): TreeFiles['early'] {
  if (bundle === null) return undefined;
  const { compiled, compile } = syncPortsOf(ctx);
  const stored = { ...record, hasSvc: bundle.hasSvc, source: sourceKey(repository) };
  if (compiled.find(repository.id, inputsKey(stored, context)) !== undefined) return undefined;
  const early = compile({ bundle, root: repository.root, context, templates: new Map() }, repository.projectId);
  // Whoever takes the answer hears of a failure; where storing fails nobody does, and nothing is lost.
  early.catch(() => undefined);
  return early;
}

/** A stored snapshot, from memory where the last answer of the compiler is of it. */
async function recordOf(
  { ctx, repository }: SyncTask,
  id: string,
): Promise<(StoredSnapshot & { readonly id: string }) | undefined> {
  return syncPortsOf(ctx).compiled.snapshotOf(repository.id, id) ?? snapshotById(ctx.db, id);
}

/** A stored snapshot with its bytes; undefined where they are gone. */
export async function storedFiles(
  { ctx, repository, room, signal }: Pick<SyncTask, 'ctx' | 'repository' | 'room' | 'signal'>,
  record: StoredSnapshot & { readonly id: string },
  context: ToRead['context'],
): Promise<TreeFiles | undefined> {
  let bundle: Bundle | undefined;
  const read = async (): Promise<Bundle | undefined> => (bundle ??= await storedBundle(ctx.db, record));
  const files: TreeFiles = {
    snapshotId: record.id,
    record,
    remarks: await storedRemarks(record),
    bundle: async () => {
      const whole = await read();
      if (whole !== undefined) return whole;
      syncPortsOf(ctx).compiled.forget(repository.id);
      throw new RepoCondition(
        'stale',
        `the stored files of commit ${record.commit} are gone; the next sync reads them`,
      );
    },
  };
  // What they compile into is known: nobody may ask for the files at all.
  if (syncPortsOf(ctx).compiled.find(repository.id, inputsKey(record, context)) !== undefined) return files;
  await room.hold(
    record.entries.reduce((sum, { size }) => sum + size, 0),
    signal,
  );
  return (await read()) === undefined ? undefined : files;
}

/** Of records that are kept: the same one is asked for with every sync that changes nothing. */
const remarksKept = new WeakMap<StoredSnapshot, readonly Diagnostic[]>();

async function storedRemarks(record: StoredSnapshot): Promise<readonly Diagnostic[]> {
  const remarks =
    remarksKept.get(record) ?? remarksOf({ findings: await remarksOnNames(record.entries.map(({ path }) => path)) });
  remarksKept.set(record, remarks);
  return remarks;
}

/** The files of a stored snapshot; undefined where some of them are gone. */
export async function storedBundle(sql: Sql, record: StoredSnapshot): Promise<Bundle | undefined> {
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

/** A pinned commit may not be reachable on the server any more; what is stored of it is as good. */
async function pinnedSnapshot(
  { ctx, repository }: SyncTask,
  tip: Tip,
): Promise<(StoredSnapshot & { id: string }) | undefined> {
  if (repository.pinnedCommit === null) return undefined;
  const id = await snapshotOfCommit(ctx.db, repository.id, tip.commit, sourceKey(repository));
  return id === undefined ? undefined : snapshotById(ctx.db, id);
}

/**
 * Stores what was read, blobs and snapshot in one transaction. A folder is read as it is by then, and the run says so:
 * the tip of the answer is that of what was read.
 */
export async function keepRead(
  task: SyncTask,
  tip: Tip,
  read: Snapshot,
  remarks: readonly Diagnostic[],
): Promise<{ readonly tip: Tip; readonly files: TreeFiles }> {
  if (read.commit !== tip.commit) await task.run.move({ commit: read.commit });
  const files = await storeRead(task, read, remarks);
  return { tip: read.commit === tip.commit ? tip : { ...tip, commit: read.commit }, files };
}

/** Stores a read, blobs and snapshot in one transaction. */
export async function storeRead(
  { ctx, repository }: Pick<SyncTask, 'ctx' | 'repository'>,
  read: Snapshot,
  remarks: readonly Diagnostic[],
): Promise<TreeFiles> {
  const { bundle } = read;
  if (bundle === null) throw new Error('the source left out the files');
  const snapshotId = ctx.runtime.uuid();
  const record: StoredSnapshot = { ...read.record, hasSvc: bundle.hasSvc, source: sourceKey(repository) };
  const blobs = new Map<string, Uint8Array>();
  for (const { oid, bytes } of bundle.entries.values()) if (bytes !== undefined) blobs.set(oid, bytes);
  await ctx.db.tx(async (tx) => {
    await writeBlobs(tx, blobs);
    await insertSnapshot(tx, { ...record, id: snapshotId, repositoryId: repository.id });
  });
  return { snapshotId, bundle: async () => bundle, record, remarks };
}

/** What the source remarks on what was read, as diagnostics. */
export function remarksOf({ findings }: Pick<Snapshot, 'findings'>): Diagnostic[] {
  return findings
    .filter((finding) => finding.rule !== 'too-large')
    .map(({ message, path }) => ({ severity: 'warning', code: 'hostile-path', message, file: path }));
}
