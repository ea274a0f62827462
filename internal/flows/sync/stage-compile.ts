// The stage that turns files into resources: asks the worker until it needs nothing more, and not at all where the last
// answer still stands. Changes no resource.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import { insertSnapshot } from '../../adapters/store/repositories/snapshots.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import { portsOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { inputsKey, type Templates, templatesKey } from '../compiled.ts';
import { inSvc, store } from './stage-fetch.ts';
import { hostOf } from './source.ts';
import { type Stage, touch, type Work } from './work.ts';

/** Rounds of asking for what compile still needs; a closure that needs more is an endless one. */
const needRounds = 101;

/** What the files say. What is wrong with them is for the apply to record. */
export const compile: Stage = {
  name: 'compile',
  async run(work) {
    const { repository, tip } = work;
    work.compiled = await compileAll(work);
    failpoint('sync.compiled');
    // The periodic comparison of a commit that failed before, and fails again: nobody needs to read that every time.
    const known = work.runId === null && repository.state.seenCommit === tip?.commit;
    return known && !work.compiled.ok ? { status: 'failed', silent: true } : undefined;
  },
};

async function compileAll(work: Work): Promise<CompileOutput> {
  if (work.inputs === null) throw new Error('compile without files');
  const { compiled } = portsOf(work.ctx);
  const known = compiled.find(work.repository.id, inputsKey(work.inputs.record, work.context));
  if (known === undefined) return compileAfresh(work, new Map());
  const templates = await resolveTemplates(work, known.specifiers);
  return templatesKey(templates) === known.templates ? known.output : compileAfresh(work, templates);
}

async function resolveTemplates(work: Work, specifiers: readonly string[]): Promise<Templates> {
  if (specifiers.length === 0) return new Map();
  const { ctx, lock } = work;
  const reader = { kind: 'templates', name: work.repository.name } as const;
  const secret = (name: string) => secretText(ctx, work.project, name, reader);
  return portsOf(ctx).resolveTemplates(specifiers, lock === null ? { secret } : { secret, lock });
}

async function compileAfresh(work: Work, resolved: Templates): Promise<CompileOutput> {
  const ports = portsOf(work.ctx);
  let templates: Templates = new Map();
  for (let round = 0; round < needRounds; round += 1) {
    if (work.inputs === null) throw new Error('compile without files');
    const bundle = await work.inputs.bundle();
    const { size, ...output } = await ports.compile({ bundle, context: work.context, templates });
    const { paths, templates: specifiers } = output.needs;
    if (paths.length === 0 && specifiers.length === 0) {
      await forgetUnused(work, output);
      keep(work, output, templates, size);
      return output;
    }
    if (specifiers.length > 0) {
      const unknown = specifiers.filter((specifier) => !resolved.has(specifier));
      const found = new Map([...resolved, ...(await resolveTemplates(work, unknown))]);
      templates = new Map([...templates, ...[...found].filter(([specifier]) => specifiers.includes(specifier))]);
    }
    if (paths.length > 0) await readMore(work, paths);
  }
  throw new RepoCondition('hostile', 'imports ask for ever more files outside .svc/');
}

/** Keeps an answer for the next sync of the same files. */
function keep(work: Work, output: CompileOutput, templates: Templates, size: number | undefined): void {
  const { compiled } = portsOf(work.ctx);
  const resolved = templatesKey(templates);
  if (work.inputs === null || !output.ok || size === undefined || resolved === undefined) {
    compiled.forget(work.repository.id);
    return;
  }
  const inputs = inputsKey(work.inputs.record, work.context);
  compiled.keep(work.repository.id, { inputs, specifiers: [...templates.keys()], templates: resolved, output, size });
}

/**
 * Leaves files outside `.svc/` that nothing names any more out of the snapshot, so that a commit that touches only those
 * is one that touches nothing. A folder keeps them: its hash covers what was read.
 */
async function forgetUnused(work: Work, { ok, outside }: CompileOutput): Promise<void> {
  const { ctx, inputs, repository } = work;
  const isFolder = repository.path !== null && repository.branch === null;
  if (inputs === null || !ok || outside === undefined || isFolder) return;
  const used = new Set(outside);
  const isKept = (path: string): boolean => inSvc(path) || used.has(path);
  const entries = inputs.record.entries.filter((entry) => isKept(entry.path));
  const absent = inputs.record.absent.filter(isKept);
  if (entries.length === inputs.record.entries.length && absent.length === inputs.record.absent.length) return;
  const snapshotId = ctx.runtime.uuid();
  const record = { ...inputs.record, entries, absent };
  await insertSnapshot(ctx.db, { ...record, id: snapshotId, repositoryId: repository.id });
  work.inputs = { ...inputs, snapshotId, record };
}

/** Reads the files outside `.svc/` that an import or `file:` names, and stores the larger snapshot. */
async function readMore(work: Work, paths: readonly string[]): Promise<void> {
  const { ctx, repository, source, tip, inputs, signal } = work;
  if (inputs === null || tip === null) throw new Error('nothing was read yet');
  const known = inputs.record.entries.map((entry) => entry.path).filter((path) => !inSvc(path));
  const wantPaths = [...new Set([...known, ...inputs.record.absent, ...paths])];
  const read = await portsOf(ctx).limited(hostOf(repository), () =>
    source.snapshot(tip, { prior: inputs.record, wantPaths, full: true, signal }),
  );
  const { remarks } = inputs;
  // The hash of a folder covers what is read outside .svc/, and every read is of the whole as it is by then.
  if (read.commit !== tip.commit) {
    work.tip = { ...tip, commit: read.commit };
    await touch(work, { commit: read.commit });
  }
  await store(work, read);
  if (work.inputs !== null) work.inputs = { ...work.inputs, remarks };
}
