// The words of a plan on a pull request: a pure function of what was planned. What it quotes from files stands in code, so
// that nothing in it addresses anybody, and without what looks like a credential.

import type { Action, Consequences, ScheduleConsequence } from '../../core/plan/types.ts';
import { maskCredentials, maskLine } from '../../domain/credential.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import { code, cut, fenced, plain } from '../markup.ts';
import type { CommitPlan } from '../sync/sync.ts';

export type PullText =
  | {
      readonly kind: 'plan';
      readonly head: string;
      readonly plan: CommitPlan;
      /** Live sessions of agents that go, by agent. */
      readonly sessions: ReadonlyMap<string, number>;
    }
  /** The commit could not be read. */
  | { readonly kind: 'unread'; readonly head: string; readonly condition: string; readonly detail: string }
  /** It changes nothing that compile reads, any more. */
  | { readonly kind: 'untouched'; readonly head: string }
  /** It is to be merged into a branch that is not followed. */
  | { readonly kind: 'elsewhere'; readonly head: string };

export interface Where {
  readonly repositoryId: string;
  /** `project/repository`. */
  readonly name: string;
  /** The command that shows more. */
  readonly command: string;
  /** The page that shows more. */
  readonly page: string;
}

const points = { changes: 60_000, all: 64_500, value: 300, line: 600 } as const;

/** By which our comment is known among others. */
export const planMarker = (repositoryId: string): string => `<!-- svc:plan v=1 repository=${repositoryId} -->`;

/** What decides whether there is something new to tell: without what moves with the clock. */
export function settledPart(text: PullText): Json {
  if (text.kind !== 'plan') return { ...text };
  const { actions, consequences, diagnostics, status, held } = text.plan.result;
  const { schedules, ...rest } = consequences;
  const timeless = (list: readonly ScheduleConsequence[]) => list.map((one) => ({ ...one, next: [] }));
  const settled = {
    status,
    actions: actions.filter((one) => one.op !== 'unchanged'),
    held: held ?? null,
    diagnostics,
    ...rest,
    schedules: {
      gained: timeless(schedules.gained),
      changed: timeless(schedules.changed),
      lost: timeless(schedules.lost),
    },
    sessions: [...text.sessions],
  };
  return JSON.parse(canonicalJson(settled as unknown as Json)) as Json;
}

/** `1 to create, 2 to update`; what is to be changed, in a line. */
export function countsOf(actions: readonly Action[]): string {
  const parts = (['create', 'update', 'delete'] as const).flatMap((op) => {
    const count = actions.filter((one) => one.op === op).length;
    return count === 0 ? [] : [`${count} to ${op}`];
  });
  return parts.length === 0 ? 'nothing to change' : parts.join(', ');
}

/** The one line that a check has as its title. */
export function headline(text: PullText): string {
  if (text.kind === 'untouched') return 'Nothing to change';
  if (text.kind === 'elsewhere') return 'To be merged elsewhere';
  if (text.kind === 'unread') return `The commit cannot be read: ${text.condition}`;
  const { result } = text.plan;
  const errors = result.diagnostics.filter((one) => one.severity === 'error').length;
  if (result.status === 'failed') return `${errors} ${errors === 1 ? 'error' : 'errors'}; it would not be applied`;
  if (result.held !== undefined) return `It would be held: ${plain(result.held.message)}`;
  const counts = countsOf(result.actions);
  return counts.charAt(0).toUpperCase() + counts.slice(1);
}

/** A comment, at most 65,536 code points with room for a mark of its call. */
export function commentText(text: PullText, where: Where): string {
  const head = [
    planMarker(where.repositoryId),
    `### Plan for ${code(where.name)}`,
    '',
    `**${headline(text)}** at ${code(text.head.slice(0, 12))}`,
  ];
  const foot = ['', `More: ${code(where.command)} or ${where.page}`];
  if (text.kind === 'untouched' || text.kind === 'elsewhere') {
    const why =
      text.kind === 'untouched'
        ? 'This pull request changes no file that is read.'
        : 'This pull request is not to be merged into the branch that is followed: it changes nothing here.';
    return [...head, '', why, ...foot].join('\n');
  }
  if (text.kind === 'unread') return [...head, '', fenced([plain(text.detail)]), ...foot].join('\n');
  const { result } = text.plan;
  const changes = changeLines(result.actions);
  const shown = within(changes, points.changes);
  const parts = [...head];
  if (shown.lines.length > 0) parts.push('', fenced(shown.lines, 'diff'));
  if (shown.more > 0) parts.push(`… and ${shown.more} more lines`);
  const rest = [...consequenceLines(result.consequences), ...sessionLines(text), ...impactLines(result.eventImpact)];
  if (rest.length > 0) rest.unshift('', '**What follows**', '');
  if (result.diagnostics.length > 0) rest.push('', '**Diagnostics**', '', ...result.diagnostics.map(diagnosticLine));
  const used = [...parts, ...foot].reduce((sum, line) => sum + [...line].length + 1, 0);
  const after = within(rest, points.all - used - 40);
  parts.push(...after.lines);
  if (after.more > 0) parts.push('', `… and ${after.more} more lines`);
  return [...parts, ...foot].join('\n');
}

/** The summary of the check; the comment says the rest. */
export function summaryText(text: PullText, where: Where): string {
  if (text.kind !== 'plan') return text.kind === 'unread' ? fenced([plain(text.detail)]) : headline(text);
  const { result, files } = text.plan;
  const elsewhere = result.diagnostics.filter((one) => one.file === undefined || !files.has(one.file));
  const lines = [`${countsOf(result.actions)}.`, '', ...elsewhere.map(diagnosticLine)];
  const { lines: shown, more } = within(lines, points.changes);
  return [...shown, ...(more > 0 ? [`… and ${more} more`] : []), '', `More: ${code(where.command)}`].join('\n');
}

const signs = { create: '+', update: '!', delete: '-', unchanged: ' ' } as const;

function changeLines(actions: readonly Action[]): string[] {
  return actions
    .filter((one) => one.op !== 'unchanged')
    .flatMap(({ op, kind, name, changes }) => [
      `${signs[op]} ${kind} ${plain(name)}`,
      ...changes.map(({ path, from, to }) => {
        const [before, now] = [from, to].map((value) => (value === null ? undefined : valueText(path, value)));
        if (before === undefined) return `    ${plain(path)}: ${now ?? 'null'}`;
        return `    ${plain(path)}: ${before} → ${now ?? 'absent'}`;
      }),
    ]);
}

/** Masked as a line of a document is, so that the field's name counts too. */
function valueText(path: string, value: Json): string {
  const field = path.split('.').at(-1) ?? path;
  // Of a long one no more is looked at than may be shown.
  const json = JSON.stringify(value).slice(0, 4 * points.value + 1_024);
  const masked = maskLine(`${field}: ${json}`).slice(field.length + 2);
  return cut(plain(masked), points.value);
}

function consequenceLines({ schedules, endpoints, triggers }: Consequences): string[] {
  const schedule = (sign: string, list: readonly ScheduleConsequence[]): string[] =>
    list.map(({ agent, ordinal, cron, timezone, next, from }) => {
      const was = from === undefined ? '' : ` (was ${code(from.cron)} ${code(from.timezone)})`;
      const times = next.length === 0 ? '' : `, next ${next.slice(0, 3).join(', ')}`;
      return `- ${sign} schedule ${code(`${agent}#${ordinal}`)}: ${code(cron)} ${code(timezone)}${was}${times}`;
    });
  const trigger = (sign: string, list: Consequences['triggers']['activated'], note: string): string[] =>
    list.map((one) => `- ${sign} trigger ${code(`${one.agent}#${one.ordinal}`)} on ${code(one.event)}${note}`);
  return [
    ...schedule('new', schedules.gained),
    ...schedule('changed', schedules.changed),
    ...schedule('ended', schedules.lost),
    ...endpoints.gained.map((name) => `- new endpoint ${code(name)}`),
    ...endpoints.lost.map((name) => `- endpoint ${code(name)} is used no more`),
    ...trigger('active', triggers.activated, ''),
    ...trigger('skipped', triggers.skipped, ', until its connection exists'),
  ];
}

function sessionLines(text: PullText): string[] {
  if (text.kind !== 'plan') return [];
  return [...text.sessions].map(
    ([agent, count]) => `- ${count} live ${count === 1 ? 'session' : 'sessions'} of ${code(agent)}, which goes`,
  );
}

function impactLines(impact: CommitPlan['result']['eventImpact']): string[] {
  return (impact?.triggers ?? []).map(({ agent, ordinal, event, newly, stopped }) => {
    const parts = [
      ...(newly.count > 0 ? [`${newly.count} would newly match`] : []),
      ...(stopped.count > 0 ? [`${stopped.count} would match no more`] : []),
    ];
    const of = `${code(`${agent}#${ordinal}`)} on ${code(event)}`;
    return `- of the events stored in the last 7 days: ${parts.join(', ')} (${of})`;
  });
}

function diagnosticLine(one: Diagnostic): string {
  const place = one.file === undefined ? '' : ` ${code(`${one.file}${one.line === undefined ? '' : `:${one.line}`}`)}`;
  return `- ${one.severity} ${code(one.code)}${place} ${code(cut(diagnosticText(one), points.line))}`;
}

/** Message and hint, without what looks like a credential. */
export function diagnosticText({ message, hint }: Diagnostic): string {
  return maskCredentials(plain(hint === undefined ? message : `${message} (${hint})`));
}

/** The first lines that fit, and how many do not. */
function within(lines: readonly string[], most: number): { readonly lines: string[]; readonly more: number } {
  const shown: string[] = [];
  let used = 0;
  for (const line of lines) {
    used += [...line].length + 1;
    if (used > most) break;
    shown.push(line);
  }
  return { lines: shown, more: lines.length - shown.length };
}
