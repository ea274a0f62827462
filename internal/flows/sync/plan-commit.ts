// What applying a commit would change, for a commit that nobody has asked to apply: the head of a pull request. Reads its
// files as a sync does, compiles them, and plans against what is stored. Changes no resource and leaves no run.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { Snapshot } from '../../adapters/repo/types.ts';
import { type InHand, repositoryInHand } from '../../adapters/store/repositories/repositories.ts';
import { snapshotById, snapshotOfCommit } from '../../adapters/store/repositories/snapshots.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import type { TemplateLock } from '../../domain/bundle.ts';
import { unlessAborted } from '../../base/waits.ts';
import { catalogOf, type FlowContext, syncPortsOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { applyPlan } from './apply.ts';
import { compileWith } from './compile.ts';
import { contextOf } from './resolve.ts';
import type { ApplyResult } from './plan.ts';
import { remarksOnSlugs } from './slugs.ts';
import { inSvc, remarksOf, storedFiles, storeRead, type TreeFiles } from './snapshot.ts';
import type { ReadRoom } from '../large-reads.ts';
import { createReader, openRepository, serverOf, type SourceReader, sourceKey } from './source.ts';

export interface CommitPlan {
  readonly result: ApplyResult;
  /** Files of the tree that compile was given, relative to the repository's root: only those have lines to point at. */
  readonly files: ReadonlySet<string>;
}

/** Paths outside `.svc/` that the applied commit reads, or looked for; relative to the repository's root. */
export async function pathsReadOutside(
  ctx: FlowContext,
  { state }: InHand['repository'],
): Promise<ReadonlySet<string>> {
  const applied = state.snapshotId === null ? undefined : await snapshotById(ctx.db, state.snapshotId);
  const read = (applied?.entries ?? []).map((entry) => entry.path).filter((path) => !inSvc(path));
  return new Set([...read, ...(applied?.absent ?? [])]);
}

/**
 * Plans the commit as the next one of the followed branch. Undefined where the repository is gone or suspended. Throws
 * RepoCondition where the commit cannot be read.
 */
export async function planCommit(
  ctx: FlowContext,
  of: {
    readonly repositoryId: string;
    readonly commit: string;
    readonly signal: AbortSignal;
    /** Of an earlier run, to be repeated; absent: those of today. */
    readonly inputs?: {
      readonly snapshotId: string | undefined;
      readonly context: { readonly [name: string]: string };
      readonly lock: TemplateLock;
    };
    readonly isSuspendedToo?: boolean;
  },
): Promise<CommitPlan | undefined> {
  const found = await repositoryInHand(ctx.db, of.repositoryId, null);
  if (found === undefined || (found.repository.suspended && of.isSuspendedToo !== true)) return undefined;
  const { repository, project, connections } = found;
  const ports = syncPortsOf(ctx);
  const { inputs } = of;
  const context = inputs?.context ?? contextOf(repository, { branch: repository.state.refBranch, connections });
  const room = ports.largeReads.roomOf(repository.projectId);
  const reader = createReader({
    source: openRepository(ctx, project, repository, room),
    room,
    limited: ports.limited,
    server: serverOf(repository),
    urgent: false,
    limitMs: ports.readSeconds * 1000,
    signal: of.signal,
    mayBegin: () => undefined,
  });
  try {
    const stored = await kept(ctx, found, { ...of, room, context });
    if (stored === undefined && inputs !== undefined)
      throw new RepoCondition('stale', `the stored inputs of commit ${of.commit} are gone`);
    let files = stored ?? (await read(ctx, found, reader, of.commit));
    const compiling = compileWith(ports, {
      ...{ projectId: repository.projectId, context, root: repository.root },
      bundle: () => files.bundle(),
      readMore: async (paths) => {
        files = await readMore(ctx, found, reader, files, paths);
      },
      resolveTemplates: (specifiers) =>
        ports.resolveTemplates(specifiers, {
          secret: (name) => secretText(ctx, project, name, { kind: 'templates', name: repository.name }),
          ...(inputs !== undefined && { lock: inputs.lock }),
        }),
    });
    const complete = await unlessAborted(compiling, of.signal);
    if (complete === undefined) throw new RepoCondition('hostile', 'imports ask for ever more files outside .svc/');
    const result = await dryRun(ctx, found, complete.output, files, of.commit);
    return { result, files: new Set((await files.bundle()).entries.keys()) };
  } finally {
    await reader.close();
  }
}

async function dryRun(
  ctx: FlowContext,
  { repository }: InHand,
  output: CompileOutput,
  files: TreeFiles,
  commit: string,
): Promise<ApplyResult> {
  const remarks = await remarksOnSlugs(syncPortsOf(ctx), output);
  return applyPlan(ctx, {
    operationId: ctx.runtime.uuid(),
    projectId: repository.projectId,
    owner: { kind: 'repository', repositoryId: repository.id, fence: repository.fence },
    compiled: { ...output, diagnostics: [...output.diagnostics, ...files.remarks, ...remarks] },
    hasSvc: files.record.hasSvc,
    fileBytes: async (path) => (await files.bundle()).entries.get(path)?.bytes,
    prune: true,
    adopt: repository.adopt,
    dryRun: true,
    withImpact: true,
    guard: repository.guard,
    verify: false,
    commit,
    actor: { kind: 'system', id: null, name: 'pull-request-plan' },
    shippedAvatars: catalogOf(ctx).catalog.avatars,
  });
}

/** The files of a commit that was read not long ago. */
async function kept(
  ctx: FlowContext,
  { repository }: InHand,
  of: {
    readonly commit: string;
    readonly signal: AbortSignal;
    readonly room: ReadRoom;
    readonly context: { readonly [name: string]: string };
    readonly inputs?: { readonly snapshotId: string | undefined };
  },
): Promise<TreeFiles | undefined> {
  const latest = () => snapshotOfCommit(ctx.db, repository.id, of.commit, sourceKey(repository));
  const id = of.inputs === undefined ? await latest() : of.inputs.snapshotId;
  const record = id === undefined ? undefined : await snapshotById(ctx.db, id);
  const { room, signal } = of;
  return record === undefined ? undefined : storedFiles({ ctx, repository, room, signal }, record, of.context);
}

async function read(ctx: FlowContext, { repository }: InHand, reader: SourceReader, commit: string) {
  const { snapshotId } = repository.state;
  const last = snapshotId === null ? undefined : await snapshotById(ctx.db, snapshotId);
  const prior = last?.source === sourceKey(repository) ? last : null;
  const wantPaths = [...(await pathsReadOutside(ctx, repository))];
  const taken = await reader.snapshot({ commit }, { prior, wantPaths, full: true });
  return store(ctx, repository, taken);
}

async function readMore(
  ctx: FlowContext,
  { repository }: InHand,
  reader: SourceReader,
  { record }: TreeFiles,
  paths: readonly string[],
): Promise<TreeFiles> {
  const known = record.entries.map((entry) => entry.path).filter((path) => !inSvc(path));
  const wantPaths = [...new Set([...known, ...record.absent, ...paths])];
  const taken = await reader.snapshot({ commit: record.commit }, { prior: record, wantPaths, full: true });
  return store(ctx, repository, taken);
}

const store = (ctx: FlowContext, repository: InHand['repository'], taken: Snapshot): Promise<TreeFiles> =>
  storeRead({ ctx, repository }, taken, remarksOf(taken));
