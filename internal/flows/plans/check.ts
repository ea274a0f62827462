// The check of a plan on a pull request: `in_progress` before, then annotations at their lines, fifty a request and none
// twice, and with the last of them the conclusion of the compile.

import { join } from 'node:path/posix';
import { maskCredentials } from '../../domain/credential.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, objectAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { Permissions } from '../installation-token.ts';
import { whereOf } from './comment.ts';
import { contextName, codehostCallOf, writeOnce } from './hub.ts';
import { digestOf } from './shapes.ts';
import type { PullEnd } from '../../adapters/store/repositories/pull-plans.ts';
import type { PlanPublication } from './publication.ts';
import { diagnosticText, headline, type PullText, summaryText } from './text.ts';
import { idAndUrl } from '../../adapters/providers/codehost/codehost.ts';

const permissions: Permissions = { checks: 'write' };
/** Of the provider: annotations a request, and characters. `counted`: more than a check can have. */
const most = { annotations: 50, title: 255, message: 16_000, counted: 1_000_000 } as const;

/** A check of an earlier head that nobody concluded is ended. */
export async function dropOldCheck(publication: PlanPublication): Promise<void> {
  const { row } = publication;
  if (row.checkHead === row.head) return;
  if (row.checkId !== null && !row.checkDone) {
    const output = { title: 'Overtaken', summary: 'A newer commit has been pushed.' };
    await permitted(publication, () =>
      change(publication, { status: 'completed', conclusion: 'cancelled', output }, 0),
    );
  }
  await publication.save({ checkHead: row.head, checkId: null, checkAnnotated: 0, checkDone: false });
}

const ends = {
  over: { conclusion: 'cancelled', title: 'Over', summary: 'The pull request was closed before its plan was told.' },
  elsewhere: {
    conclusion: 'neutral',
    title: 'To be merged elsewhere',
    summary: 'The pull request is not to be merged into the branch that is followed.',
  },
} as const;

/** Ends the check of a pull request that is told nothing more; true where there was one to end. */
export async function endCheck(publication: PlanPublication, ended: PullEnd): Promise<boolean> {
  const { row } = publication;
  // What was concluded stays with what is over, and says nothing of another branch.
  if (row.checkId === null || (row.checkDone && ended === 'over')) return false;
  const { conclusion, ...output } = ends[ended];
  await permitted(publication, () =>
    change(publication, { status: 'completed', conclusion, output }, row.checkAnnotated),
  );
  await publication.save({ checkId: null, checkAnnotated: 0, checkDone: false, sequence: row.sequence + 1 });
  return true;
}

/** Begins the check where there is none, and with `text` concludes it. Does nothing where the connection may not. */
export async function publishCheck(publication: PlanPublication, text: PullText | undefined): Promise<void> {
  if (!publication.wants('check')) return;
  await permitted(publication, async () => {
    if (publication.row.checkId === null) await begin(publication);
    else if (text !== undefined && !publication.row.checkDone) await recount(publication);
    if (text !== undefined && !publication.row.checkDone) await conclude(publication, text);
  });
}

async function permitted(publication: PlanPublication, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'permission-missing') throw error;
    publication.hub.ctx.runtime.log.info({ repository: publication.hub.repository.name }, 'plan.check_not_permitted');
  }
}

async function begin(publication: PlanPublication): Promise<void> {
  const { hub, row } = publication;
  const name = contextName(hub);
  const externalId = `${row.repositoryId}:${row.number}:${row.sequence}`;
  const body: JsonObject = {
    name,
    head_sha: row.head,
    status: 'in_progress',
    external_id: externalId,
    details_url: whereOf(hub).page,
    output: { title: 'Planning', summary: 'What applying this commit would change is being worked out.' },
  };
  // Not of the whole body: daemons may be reached at different addresses, and it is the same check.
  const input = digestOf([name, row.head, externalId]);
  const key = publication.keyOf('check', input);
  const of = { alias: 'plan', tool: 'create_check_run', key, fullName: row.fullName, permissions, input } as const;
  const made = await writeOnce(hub, of, (codehost) =>
    codehost.write(
      { method: 'POST', path: '/check-runs', body },
      { probe: { kind: 'checkRun', commit: row.head, name, externalId }, shape: idAndUrl },
    ),
  );
  const checkId = idAt(made['id']) ?? null;
  await publication.save({
    checkHead: row.head,
    checkId,
    checkAnnotated: 0,
    checkDone: false,
    sequence: row.sequence + 1,
  });
}

/** After a telling that broke off: how many annotations the provider has. */
async function recount(publication: PlanPublication): Promise<void> {
  const { hub, row } = publication;
  if (row.attempts === 0 && row.checkAnnotated === 0) return;
  const codehost = codehostCallOf(hub, row.fullName, permissions);
  const check = objectAt(await codehost.json(`/check-runs/${row.checkId ?? ''}`));
  const count = Number(objectAt(check['output'])['annotations_count'] ?? 0);
  // What is no count says nothing: behind one below none, no part would ever be the last.
  if (!Number.isSafeInteger(count) || count < 0 || count > most.counted) return;
  if (count !== row.checkAnnotated) await publication.save({ checkAnnotated: count });
}

async function conclude(publication: PlanPublication, text: PullText): Promise<void> {
  const where = whereOf(publication.hub);
  const title = [...headline(text)].slice(0, most.title).join('');
  const output = { title, summary: summaryText(text, where) };
  const annotations = annotationsOf(publication, text);
  const conclusion = conclusionOf(text);
  for (;;) {
    const from = publication.row.checkAnnotated;
    const part = annotations.slice(from, from + most.annotations);
    const isLast = from + part.length >= annotations.length;
    const state: JsonObject = isLast ? { status: 'completed', conclusion } : { status: 'in_progress' };
    const shown = { ...output, ...(part.length > 0 && { annotations: part }) };
    await change(publication, { ...state, output: shown }, from + part.length);
    await publication.save({
      checkAnnotated: from + part.length,
      checkDone: isLast,
      sequence: publication.row.sequence + 1,
    });
    if (isLast) return;
  }
}

/** `annotations`: how many there are behind it. */
async function change(publication: PlanPublication, body: JsonObject, annotations: number): Promise<void> {
  const { hub, row } = publication;
  const id = row.checkId ?? '';
  const input = digestOf(body);
  const key = publication.keyOf(`check=${id}`, input);
  const of = { alias: 'plan', tool: 'update_check_run', key, fullName: row.fullName, permissions, input } as const;
  const probe = { kind: 'checkChanged', id, annotations, conclusion: body['conclusion'] ?? null };
  await writeOnce(hub, of, (codehost) =>
    codehost.write({ method: 'PATCH', path: `/check-runs/${id}`, body }, { probe, shape: idAndUrl }),
  );
}

function conclusionOf(text: PullText): 'success' | 'neutral' | 'failure' {
  if (text.kind !== 'plan') return text.kind === 'unread' ? 'failure' : 'success';
  if (text.plan.result.status === 'failed') return 'failure';
  return text.plan.result.held === undefined ? 'success' : 'neutral';
}

function annotationsOf({ hub }: PlanPublication, text: PullText): JsonObject[] {
  if (text.kind !== 'plan') return [];
  const { root } = hub.repository;
  const { files, result } = text.plan;
  return result.diagnostics.flatMap((one) =>
    one.file === undefined || !files.has(one.file) ? [] : [annotationOf(join(root, one.file), one)],
  );
}

function annotationOf(path: string, one: Diagnostic): JsonObject {
  const { line = 1, endLine = line, column, endColumn } = one;
  const isOneLine = line === endLine && column !== undefined;
  return {
    path,
    start_line: line,
    end_line: Math.max(line, endLine),
    // The provider takes columns of a single line only.
    ...(isOneLine && { start_column: column, end_column: Math.max(column, (endColumn ?? column + 1) - 1) }),
    annotation_level: one.severity === 'error' ? 'failure' : 'warning',
    title: maskCredentials(one.code).slice(0, most.title),
    message: diagnosticText(one).slice(0, most.message),
  };
}
