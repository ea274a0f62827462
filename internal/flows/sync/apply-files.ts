// Applies files that a person sent: the tree is built from them, compiled with the loop on what it needs, and applied with
// the owner `manual`. Outside paths come from the files given, templates from the configured sources. A real apply leaves a
// run with the reason `apply`, whatever its outcome (docs/reference/repositories.md#runs).

import { gitId } from '../../base/hash.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { insertRun, moveRun } from '../../adapters/store/repositories/reconciles.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { Fault } from '../../domain/fault.ts';
import { type Actor, catalogOf, type FlowContext, type ProjectRef, syncPortsOf } from '../context.ts';
import { secretText } from '../sealed.ts';
import { applyPlan } from './apply.ts';
import { compileWith } from './compile.ts';
import { type ApplyRequest, type ApplyResult } from './plan.ts';
import { consequencesOf } from './report.ts';
import { remarksOnSlugs } from './slugs.ts';
import { withoutEnd } from '../../domain/text.ts';

export interface SentFile {
  readonly path: string;
  /** A text, or its bytes in UTF-8. */
  readonly content: string | Buffer;
  readonly encoding?: 'utf8' | 'base64' | undefined;
}
export interface FilesRequest {
  readonly project: ProjectRef;
  readonly files: readonly SentFile[];
  readonly context: { readonly [name: string]: string };
  readonly dryRun: boolean;
  readonly prune: boolean;
  readonly adopt: boolean;
  readonly actor: Actor;
}
export interface FilesResult extends ApplyResult {
  readonly status: 'applied' | 'unchanged' | 'planned';
  /** Id of the run; a dry run leaves none, and has an id all the same. */
  readonly applyId: string;
}

/**
 * Applies or plans. Faults: `invalid` for a path or an encoding that is none, `unprocessable` with the diagnostics when
 * the tree or the plan has an error, in which case nothing changed.
 */
export async function applyFiles(ctx: FlowContext, request: FilesRequest): Promise<FilesResult> {
  const startedAt = ctx.runtime.now();
  const entries = await entriesOf(request.files);
  if (entries.size < request.files.length) throw badFile('a path is given twice');
  const { output, ms: compileMs } = await compileAll(ctx, request, entries);
  const remarks = await remarksOnSlugs(syncPortsOf(ctx), output);
  const operationId = ctx.runtime.uuid();
  const finish: NonNullable<ApplyRequest['finish']> = async (tx, result, took) => {
    const stages = [{ name: 'compile', ms: rounded(compileMs) }, ...took];
    await keepRun(ctx, tx, { request, output, operationId, startedAt, result, stages });
    return 'commit';
  };
  const result = await applyPlan(ctx, {
    operationId,
    projectId: request.project.id,
    owner: { kind: 'manual' },
    compiled: { ...output, diagnostics: [...output.diagnostics, ...remarks] },
    hasSvc: true,
    fileBytes: (path) => entries.get(path)?.bytes,
    prune: request.prune,
    adopt: request.adopt,
    dryRun: request.dryRun,
    withImpact: request.dryRun,
    guard: 'off',
    // People who apply by hand expect the state to be what they sent, also where somebody edited the rows.
    verify: true,
    commit: null,
    actor: request.actor,
    shippedAvatars: catalogOf(ctx).catalog.avatars,
    finish,
  });
  logOutcome(ctx, request, operationId, result);
  const { status } = result;
  if (status === 'failed') throw refused(result);
  if (status === 'held' || status === 'superseded') throw new Error(`what is applied by hand is never ${status}`);
  return { ...result, status, applyId: operationId };
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10;

function refused(result: ApplyResult): Fault {
  const count = result.diagnostics.filter((item) => item.severity === 'error').length;
  const message = `The tree has ${count} error${count === 1 ? '' : 's'}; nothing was changed.`;
  return new Fault('unprocessable', 'apply-refused', message, { diagnostics: result.diagnostics });
}

function logOutcome(ctx: FlowContext, request: FilesRequest, operationId: string, result: ApplyResult): void {
  if (request.dryRun) return;
  const { status, actions, diagnostics } = result;
  const changed = actions.filter((action) => action.op !== 'unchanged').length;
  const fields = { project: request.project.slug, operationId, status, changed, diagnostics: diagnostics.length };
  ctx.runtime.log.info({ ...fields, actor: request.actor.name }, 'apply.finished');
}

const badFile = (what: string): Fault =>
  new Fault('invalid', 'invalid-file', `The files are not as expected: ${what}.`);

/** The files by path, with a turn of the event loop between so many bytes of them. */
async function entriesOf(files: readonly SentFile[]): Promise<Map<string, BundleEntry>> {
  const entries = new Map<string, BundleEntry>();
  let bytes = 0;
  for (const file of files) {
    const entry = entryOf(file);
    entries.set(entry.path, entry);
    bytes += entry.bytes?.length ?? 0;
    if (bytes < turnBytes) continue;
    bytes = 0;
    await yieldToEventLoop();
  }
  return entries;
}
const turnBytes = 8_388_608;

/** A path from the tree root: no empty, `.` or `..` step, no NUL. Shown as JSON, since it may hold anything. */
function entryOf(file: SentFile): BundleEntry {
  const { path, content } = file;
  const isPlain = path.split('/').every((step) => step !== '' && step !== '.' && step !== '..');
  if (!isPlain || path.includes('\0') || !path.isWellFormed()) {
    throw badFile(`${JSON.stringify(path.slice(0, 200))} is not a path from the root of the tree`);
  }
  if (file.encoding !== 'base64' && typeof content === 'string' && !content.isWellFormed()) {
    throw badFile(`${JSON.stringify(path)} is not text; send it with encoding base64`);
  }
  const text = typeof content === 'string' ? Buffer.from(content, 'utf8') : content;
  const bytes = file.encoding === 'base64' ? decoded(path, text) : text;
  const oid = gitId('blob', bytes);
  return { path, kind: 'file', oid, bytes };
}

function decoded(path: string, text: Buffer): Buffer {
  const content = text.toString('utf8');
  const bytes = Buffer.from(content, 'base64');
  const isWhole = withoutEnd(bytes.toString('base64'), '=') === withoutEnd(content, '=');
  if (!isWhole) throw badFile(`${JSON.stringify(path)} is not base64`);
  return bytes;
}

/** What was not sent does not exist. */
async function compileAll(
  ctx: FlowContext,
  request: FilesRequest,
  entries: ReadonlyMap<string, BundleEntry>,
): Promise<{ output: CompileOutput; ms: number }> {
  const begun = performance.now();
  const ports = syncPortsOf(ctx);
  const hasSvc = [...entries.keys()].some((path) => path.startsWith('.svc/'));
  const absent = new Set<string>();
  const secret = (name: string): Promise<string | undefined> =>
    secretText(ctx, request.project, name, { kind: 'templates', name: 'apply' });
  const complete = await compileWith(ports, {
    projectId: request.project.id,
    context: request.context,
    isSent: true,
    // The files are not kept: where the values come from is.
    ...(!request.dryRun && { origins: 'all' as const }),
    bundle: async () => ({ entries, absent: new Set(absent), hasSvc }),
    readMore: async (paths) => {
      for (const path of paths) absent.add(path);
    },
    resolveTemplates: (specifiers) => ports.resolveTemplates(specifiers, { secret }),
  });
  if (complete !== undefined) return { output: complete.output, ms: performance.now() - begun };
  throw new Fault('unprocessable', 'compile-needs', 'Imports ask for ever more files.');
}

interface Kept {
  readonly request: FilesRequest;
  readonly output: CompileOutput;
  readonly operationId: string;
  readonly startedAt: Date;
  readonly result: ApplyResult;
  readonly stages: readonly { readonly name: string; readonly ms: number }[];
}

/** The run of an apply: made and ended in the transaction of what it tells. */
async function keepRun(ctx: FlowContext, tx: Sql, kept: Kept): Promise<void> {
  const { request, output, operationId: id, startedAt, result, stages } = kept;
  if (result.status === 'planned') throw new Error('a dry run leaves no run');
  await insertRun(tx, {
    id,
    projectId: request.project.id,
    repositoryId: null,
    repositoryName: null,
    commit: null,
    reason: 'apply',
    daemonId: ctx.daemonId,
    startedAt,
    request: { kind: 'apply', actor: request.actor.name, prune: request.prune, adopt: request.adopt },
  });
  const { status, actions, diagnostics, webhooks } = result;
  const consequences = consequencesOf(result);
  const inputs = { context: request.context, templateLock: output.templateLock };
  const patch = { status, stages, actions, consequences, diagnostics, webhooks, inputs };
  await moveRun(tx, id, patch, ctx.runtime.now());
}
