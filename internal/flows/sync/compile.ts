// The third stage: what the files say. Asks the worker until it needs nothing more, and not at all where the last answer
// still stands. What is wrong with the files is for the plan to tell. Changes no resource.

import type { Tip } from '../../adapters/repo/types.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { insertSnapshot } from '../../adapters/store/repositories/snapshots.ts';
import { failpoint } from '../../base/failpoint.ts';
import { unlessAborted } from '../../base/waits.ts';
import type { CompileInput, CompileOutput } from '../../core/compile/types.ts';
import type { Bundle, TemplateLock } from '../../domain/bundle.ts';
import { inputsKey, type Templates, templatesKey } from '../compiled.ts';
import { syncPortsOf } from '../context.ts';
import type { SyncPorts } from '../ports.ts';
import { secretText } from '../sealed.ts';
import type { Resolved } from './resolve.ts';
import { inSvc, keepRead, type TreeFiles } from './snapshot.ts';
import type { SyncTask } from './task.ts';

/** Rounds of asking for what compile still needs; a closure that needs more is an endless one. */
const needRounds = 101;

export interface CompiledTree {
  /** Of what was read: a folder may have changed meanwhile. */
  readonly tip: Tip;
  readonly files: TreeFiles;
  readonly output: CompileOutput;
}

/** Where a compile gets what it asks for. */
export interface CompileSupply {
  readonly projectId: string;
  readonly context: { readonly [name: string]: string };
  readonly root?: CompileInput['root'];
  /** Of which agents it is to say where their values come from; absent: of none. */
  readonly origins?: CompileInput['origins'];
  readonly isSent?: CompileInput['isSent'];
  bundle(): Promise<Bundle>;
  /** Has the next bundle answer for these paths outside `.svc/`, as there or as absent. */
  readMore(paths: readonly string[]): Promise<void>;
  resolveTemplates(specifiers: readonly string[]): Promise<Templates>;
}

export interface CompleteOutput {
  readonly output: CompileOutput;
  readonly templates: Templates;
  /** Characters of its canonical JSON, where it was counted. */
  readonly size: number | undefined;
}

/** Compiles until nothing is needed that could be had; undefined where imports ask for ever more files. */
export async function compileWith(
  ports: Pick<SyncPorts, 'compile'>,
  supply: CompileSupply,
): Promise<CompleteOutput | undefined> {
  let templates: Templates = new Map();
  for (let round = 0; round < needRounds; round += 1) {
    const bundle = await supply.bundle();
    const { size, ...output } = await ports.compile(
      {
        ...{ bundle, context: supply.context, templates },
        ...(supply.root !== undefined && { root: supply.root }),
        ...(supply.origins !== undefined && { origins: supply.origins }),
        ...(supply.isSent === true && { isSent: true }),
      },
      supply.projectId,
    );
    const { paths, templates: specifiers } = output.needs;
    if (paths.length === 0 && specifiers.length === 0) return { output, templates, size };
    if (specifiers.length > 0) {
      templates = new Map([...templates, ...(await supply.resolveTemplates(specifiers))]);
    }
    if (paths.length > 0) await supply.readMore(paths);
  }
  return undefined;
}

/** Throws RepoCondition where files outside `.svc/` cannot be read. */
export async function compile(
  task: SyncTask,
  resolved: Resolved,
  read: { readonly tip: Tip; readonly files: TreeFiles },
): Promise<CompiledTree> {
  // It, and the registry that it asks for templates, may take longer than a daemon has for its end: what is given up is handed
  // back, and whoever comes next begins it anew. Behind something newer a sync waits for it, so that a repository has one
  // compile at a time.
  const tree = await unlessAborted(compileFiles(task, resolved, read), task.draining);
  failpoint('sync.compiled');
  return tree;
}

async function compileFiles(
  task: SyncTask,
  { context, repeated }: Resolved,
  read: { readonly tip: Tip; readonly files: TreeFiles },
): Promise<CompiledTree> {
  const { ctx, repository } = task;
  const { compiled } = syncPortsOf(ctx);
  const lock = repeated?.lock ?? null;
  const known = compiled.find(repository.id, inputsKey(read.files.record, context));
  const resolved = known === undefined ? new Map() : await resolveTemplates(task, lock, known.specifiers);
  if (known !== undefined && templatesKey(resolved) === known.templates) return { ...read, output: known.output };
  let { tip, files } = read;
  let { early } = files;
  const ports: Pick<SyncPorts, 'compile'> = {
    compile: (input, projectId) => {
      const asked = early;
      early = undefined;
      return asked ?? syncPortsOf(ctx).compile(input, projectId);
    },
  };
  const complete = await compileWith(ports, {
    ...{ projectId: repository.projectId, context, root: repository.root },
    bundle: () => files.bundle(),
    readMore: async (paths) => {
      ({ tip, files } = await readMore(task, { tip, files }, paths));
    },
    resolveTemplates: async (specifiers) => {
      const unknown = specifiers.filter((specifier) => !resolved.has(specifier));
      const found = new Map([...resolved, ...(await resolveTemplates(task, lock, unknown))]);
      return new Map([...found].filter(([specifier]) => specifiers.includes(specifier)));
    },
  });
  if (complete === undefined) throw new RepoCondition('hostile', 'imports ask for ever more files outside .svc/');
  const tree = { tip, files: await withoutUnused(task, files, complete.output), output: complete.output };
  keep(task, context, tree, complete);
  return tree;
}

async function resolveTemplates(
  { ctx, project, repository }: SyncTask,
  lock: TemplateLock | null,
  specifiers: readonly string[],
): Promise<Templates> {
  if (specifiers.length === 0) return new Map();
  const reader = { kind: 'templates', name: repository.name } as const;
  const secret = (name: string) => secretText(ctx, project, name, reader);
  return syncPortsOf(ctx).resolveTemplates(specifiers, lock === null ? { secret } : { secret, lock });
}

/** Keeps an answer for the next sync of the same files. */
function keep(
  { ctx, repository }: SyncTask,
  context: Resolved['context'],
  { files, output }: CompiledTree,
  { templates, size }: CompleteOutput,
): void {
  const { compiled } = syncPortsOf(ctx);
  const resolved = templatesKey(templates);
  if (!output.ok || size === undefined || resolved === undefined) {
    compiled.forget(repository.id);
    return;
  }
  const inputs = inputsKey(files.record, context);
  const snapshot = { ...files.record, id: files.snapshotId };
  compiled.keep(repository.id, {
    ...{ inputs, specifiers: [...templates.keys()], templates: resolved, output, size, snapshot },
  });
}

/**
 * Leaves files outside `.svc/` that nothing names any more out of the snapshot, so that a commit that touches only those
 * is one that touches nothing. A folder keeps them: its hash covers what was read.
 */
async function withoutUnused(
  { ctx, repository }: SyncTask,
  files: TreeFiles,
  { ok, outside }: CompileOutput,
): Promise<TreeFiles> {
  const isFolder = repository.path !== null && repository.branch === null;
  if (!ok || outside === undefined || isFolder) return files;
  const used = new Set(outside);
  const isKept = (path: string): boolean => inSvc(path) || used.has(path);
  const entries = files.record.entries.filter((entry) => isKept(entry.path));
  const absent = files.record.absent.filter(isKept);
  if (entries.length === files.record.entries.length && absent.length === files.record.absent.length) return files;
  const snapshotId = ctx.runtime.uuid();
  const record = { ...files.record, entries, absent };
  await insertSnapshot(ctx.db, { ...record, id: snapshotId, repositoryId: repository.id });
  return { ...files, snapshotId, record };
}

/** Reads the files outside `.svc/` that an import or `file:` names, and stores the larger snapshot. */
async function readMore(
  task: SyncTask,
  { tip, files }: { readonly tip: Tip; readonly files: TreeFiles },
  paths: readonly string[],
): Promise<{ readonly tip: Tip; readonly files: TreeFiles }> {
  const { record } = files;
  const known = record.entries.map((entry) => entry.path).filter((path) => !inSvc(path));
  const wantPaths = [...new Set([...known, ...record.absent, ...paths])];
  const read = await task.reader.snapshot(tip, { prior: record, wantPaths, full: true });
  // The hash of a folder covers what is read outside .svc/, and every read is of the whole as it is by then.
  return keepRead(task, tip, read, files.remarks);
}
