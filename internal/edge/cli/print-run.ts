// A reconcile run or a plan for people: condition, stages, changes field by field, consequences, diagnostics. Pure.
// What it reads comes from a server, perhaps a newer one: fields that are missing are left out, never guessed.

import type { Action } from '../../../schemas/api/common.ts';
import type {
  Consequences,
  EventImpact,
  ImpactCount,
  ScheduleConsequence,
  Stage,
  WholeRun,
} from '../../../schemas/api/reconciles.ts';
import { printDiagnostics } from './diagnostics.ts';
import {
  clean,
  type Colour,
  count,
  cut,
  details,
  durationText,
  pad,
  type Paint,
  relativeTime,
  widthOf,
} from './text.ts';

/** A run or a plan as far as it is shown: what an older server leaves out is left out here. */
export type Run = Pick<WholeRun, 'id'> & Partial<Omit<WholeRun, 'status'>> & { readonly status: string };
/** What a plan, an apply and a run have in common. */
type Plan = Pick<Run, 'actions' | 'consequences' | 'webhooks' | 'diagnostics' | 'status' | 'origins'> & {
  readonly eventImpact?: EventImpact | undefined;
};

export interface PrintOptions {
  readonly paint: Paint;
  readonly width?: number | undefined;
  readonly now: Date;
}

const statusColours: { readonly [status: string]: Colour } = {
  applied: 'green',
  synced: 'green',
  unchanged: 'green',
  ready: 'green',
  active: 'green',
  running: 'blue',
  pending: 'blue',
  queued: 'blue',
  provisioning: 'blue',
  starting: 'blue',
  routed: 'green',
  idle: 'green',
  blocked: 'yellow',
  waiting_permission: 'yellow',
  interrupting: 'yellow',
  unmatched: 'grey',
  archived: 'grey',
  replaced: 'grey',
  released: 'grey',
  planned: 'blue',
  held: 'yellow',
  superseded: 'yellow',
  quarantined: 'yellow',
  suspended: 'yellow',
  reserved: 'yellow',
  skipped: 'yellow',
  warning: 'yellow',
  degraded: 'yellow',
  authorization_required: 'yellow',
  scope_required: 'yellow',
  uncertain: 'yellow',
  disabled: 'grey',
  removed: 'red',
  failed: 'red',
  error: 'red',
};
export const statusColour = (status: string): Colour => statusColours[status] ?? 'cyan';

/** A commit as it is shown: twelve characters of an id; a folder's keeps its prefix. */
export function shortCommit(commit: string | null | undefined): string {
  if (commit === null || commit === undefined || commit === '') return '-';
  const folder = /^folder:(.*)$/.exec(commit);
  return folder === null ? clean(commit.slice(0, 12), true) : `folder:${clean((folder[1] ?? '').slice(0, 12), true)}`;
}

/** ` "cap spend" by ann`; '' where nothing is known of the commit. */
export function aboutText({
  commitMessage = '',
  commitAuthor = '',
}: Pick<Run, 'commitMessage' | 'commitAuthor'>): string {
  const message = commitMessage === '' ? '' : ` "${clean(commitMessage, true)}"`;
  return `${message}${commitAuthor === '' ? '' : ` by ${clean(commitAuthor, true)}`}`;
}

export function runMs(run: Run): number | undefined {
  if (!run.startedAt || !run.finishedAt) return undefined;
  return Math.max(0, Date.parse(run.finishedAt) - Date.parse(run.startedAt));
}

/** `2 created, 1 updated, 3 unchanged`. */
export function countText(actions: readonly Action[], tense: 'done' | 'planned' = 'done'): string {
  const words = { create: 'created', update: 'updated', delete: 'deleted', unchanged: 'unchanged' } as const;
  const parts = (['create', 'update', 'delete', 'unchanged'] as const).flatMap((op) => {
    const number = actions.filter((action) => action.op === op).length;
    if (number === 0) return [];
    return [`${number} ${tense === 'planned' && op !== 'unchanged' ? `to ${op}` : words[op]}`];
  });
  return parts.length === 0 ? 'no resources' : parts.join(', ');
}

const namesMax = 3;
/** The first of the agents that change, by name; '' where none does. */
function namesText(actions: readonly Action[]): string {
  const changed = actions.filter((action) => action.op !== 'unchanged' && action.kind === 'Agent');
  const signs = { create: '+', update: '~', delete: '-', unchanged: '' } as const;
  const named = changed.slice(0, namesMax).map((action) => `${signs[action.op]}${clean(action.name, true)}`);
  return [...named, ...(changed.length > namesMax ? [`and ${changed.length - namesMax} more`] : [])].join(' ');
}

/** `manual`, or what a person did. */
export const reasonText = ({ reason, act }: Pick<Run, 'reason' | 'act'>): string =>
  act === undefined ? (reason ?? '-') : `${reason} (${act})`;

/** One line: when, repository, status, commit, reason, counts, how long. */
export function runLine(run: Run, options: PrintOptions): string {
  const { paint } = options;
  const ms = runMs(run);
  const parts = [
    paint('grey', run.startedAt ?? ''),
    paint('bold', clean(run.repository ?? 'manual', true)),
    paint(statusColour(run.status), run.status),
    shortCommit(run.commit),
    ...(run.reason === undefined ? [] : [`by ${reasonText(run)}`]),
    ...(run.actions !== undefined && run.actions.length > 0
      ? [`(${countText(run.actions, run.status === 'held' ? 'planned' : 'done')})`, namesText(run.actions)]
      : []),
    ...(ms === undefined ? [] : [`in ${durationText(ms)}`]),
    ...(run.condition ? [paint('red', run.condition)] : []),
  ];
  return parts.filter((part) => part !== '').join('  ');
}

/** The whole run. */
export function printRun(run: Run, options: PrintOptions): string {
  const { paint, now } = options;
  const ms = runMs(run);
  const head = details(
    [
      ['run', run.id],
      ['repository', run.repository ? clean(run.repository, true) : undefined],
      ['status', paint(statusColour(run.status), run.status)],
      ['condition', run.condition ? paint('red', clean(run.condition, true)) : undefined],
      ['detail', run.detail ? clean(run.detail) : undefined],
      ['commit', run.commit ? `${clean(run.commit, true)}${aboutText(run)}` : undefined],
      ['reason', run.reason === undefined ? undefined : reasonText(run)],
      ['started', run.startedAt === undefined ? undefined : `${run.startedAt} (${relativeTime(run.startedAt, now)})`],
      ['took', ms === undefined ? undefined : durationText(ms)],
    ],
    paint,
  );
  return [head, ...printStages(run.stages ?? [], paint), ...printPlan(run, options)].join('\n');
}

function printStages(stages: readonly Stage[], paint: Paint): string[] {
  if (stages.length === 0) return [];
  const width = Math.max(...stages.map((stage) => stage.name.length));
  const times = stages.map((stage) => (stage.ms === undefined ? '…' : durationText(stage.ms)));
  const right = Math.max(...times.map((time) => time.length));
  const longest = Math.max(1, ...stages.map((stage) => stage.ms ?? 0));
  return [
    '',
    paint('bold', 'stages'),
    ...stages.map((stage, index) => {
      const bar = '▪'.repeat(Math.round(((stage.ms ?? 0) / longest) * 20));
      return `  ${clean(stage.name, true).padEnd(width)}  ${(times[index] ?? '').padStart(right)}  ${paint('grey', bar)}`.trimEnd();
    }),
  ];
}

/** Changes, consequences, webhooks and diagnostics of a run or a dry run; what is empty is left out. */
export function printPlan(plan: Plan, options: PrintOptions): string[] {
  const planned = ['planned', 'held', 'failed'].includes(plan.status);
  const lines: string[] = [];
  const actions = plan.actions ?? [];
  if (actions.length > 0) {
    lines.push('', options.paint('bold', `changes: ${countText(actions, planned ? 'planned' : 'done')}`));
    for (const action of actions)
      if (action.op !== 'unchanged') lines.push(...printAction(action, options, plan.origins?.[action.name]));
  }
  lines.push(...printConsequences(plan.consequences ?? {}, options));
  const would = plan.status === 'applied' ? '' : 'would ';
  lines.push(...printImpact(plan.eventImpact ?? plan.consequences?.eventImpact, would, options));
  const hooks = plan.webhooks ?? [];
  if (hooks.length > 0) {
    lines.push('', options.paint('bold', 'webhooks'));
    // One receipt per trigger: several on one key and endpoint say the same.
    const told = hooks.map(
      (hook) =>
        `  ${clean(hook.endpoint, true)}  ${options.paint('cyan', clean(hook.ingestUrl, true))}  ${clean(hook.event, true)}`,
    );
    lines.push(...new Set(told));
  }
  if (plan.diagnostics !== undefined && plan.diagnostics.length > 0) {
    lines.push('', printDiagnostics(plan.diagnostics, options.paint));
  }
  return lines;
}

const opSigns = {
  create: ['+', 'green'],
  update: ['~', 'yellow'],
  delete: ['-', 'red'],
  unchanged: ['=', 'grey'],
} as const;

type ActionOrigins = NonNullable<Run['origins']>[string] | undefined;

function printAction(action: Action, options: PrintOptions, origins: ActionOrigins): string[] {
  const [sign, colour] = opSigns[action.op];
  const lines = [options.paint(colour, `  ${sign} ${action.kind} ${clean(action.name, true)}`)];
  for (const change of action.changes ?? []) {
    lines.push(...printChange(change, options));
    const { file, line } = origins?.[change.path] ?? {};
    const place = file === undefined || file === null ? '' : `${clean(file, true)}${line === null ? '' : `:${line}`}`;
    if (place !== '') lines.push(options.paint('grey', `        at ${place}`));
  }
  return lines;
}

// Long values get a line for each side; a side that is null is a field that came or went.
export function printChange(change: Action['changes'][number], { paint, width }: PrintOptions): string[] {
  const room = Math.max(30, (width ?? 160) - 10);
  const path = clean(change.path, true);
  const from = change.from === null || change.from === undefined ? undefined : valueText(change.from);
  const to = change.to === null || change.to === undefined ? undefined : valueText(change.to);
  if (from === undefined) return [paint('green', cut(`      + ${path}: ${to ?? 'null'}`, room + 10))];
  if (to === undefined) return [paint('red', cut(`      - ${path}: ${from}`, room + 10))];
  const short = `      ~ ${path}: ${from} → ${to}`;
  if (widthOf(short) <= room + 10) return [paint('yellow', short)];
  const [left, right] = apart(from, to, room);
  return [paint('yellow', `      ~ ${path}:`), paint('red', `        - ${left}`), paint('green', `        + ${right}`)];
}

const valueText = (value: unknown): string => clean(JSON.stringify(value) ?? 'null', true);

// Where two long texts begin alike, what they share is dropped, so that the difference is within the width.
function apart(from: string, to: string, room: number): readonly [string, string] {
  let same = 0;
  while (same < from.length && from[same] === to[same]) same++;
  const skip = same < room / 2 ? 0 : same - 20;
  const side = (text: string): string => cut(skip === 0 ? text : `…${text.slice(skip)}`, room);
  return [side(from), side(to)];
}

function printConsequences(consequences: Consequences, { paint, now }: PrintOptions): string[] {
  const { schedules, endpoints, triggers, sessions } = consequences;
  const rows: (readonly [sign: '+' | '~' | '-' | '=', what: string, name: string, text: string])[] = [];
  const tick = (schedule: ScheduleConsequence): string => {
    const next = (schedule.next ?? []).slice(0, 3).map((at) => relativeTime(at, now));
    const was = schedule.from === undefined ? '' : ` (was ${schedule.from.cron} ${schedule.from.timezone})`;
    return `${schedule.cron} ${schedule.timezone}${was}${next.length === 0 ? '' : `, next ${next.join(', ')}`}`;
  };
  const schedule = (sign: '+' | '~' | '-', list: readonly ScheduleConsequence[] | undefined): void => {
    for (const each of list ?? []) rows.push([sign, 'schedule', `${each.agent}#${each.ordinal}`, tick(each)]);
  };
  schedule('+', schedules?.gained);
  schedule('~', schedules?.changed);
  schedule('-', schedules?.lost);
  for (const name of endpoints?.gained ?? []) rows.push(['+', 'endpoint', name, '']);
  for (const name of endpoints?.lost ?? []) rows.push(['-', 'endpoint', name, '']);
  for (const each of triggers?.activated ?? [])
    rows.push(['+', 'trigger', `${each.agent}#${each.ordinal}`, each.event]);
  for (const each of triggers?.skipped ?? []) {
    rows.push(['-', 'trigger', `${each.agent}#${each.ordinal}`, `${each.event} (skipped until its connection exists)`]);
  }
  for (const { agent, revision, count: n } of sessions?.kept ?? [])
    rows.push(['=', 'sessions', agent, `${n} live keep${n === 1 ? 's' : ''} r${revision}`]);
  for (const { agent, revision, count: n } of sessions?.archived ?? [])
    rows.push(['-', 'sessions', agent, `${n} live on r${revision} ${n === 1 ? 'is' : 'are'} archived`]);
  if (rows.length === 0) return [];
  const width = Math.max(...rows.map((row) => widthOf(clean(row[2], true))));
  const colours = { '+': 'green', '~': 'yellow', '-': 'red', '=': 'grey' } as const;
  return [
    '',
    paint('bold', 'consequences'),
    ...rows.map(([sign, what, name, text]) =>
      `  ${paint(colours[sign], sign)} ${what.padEnd(8)}  ${pad(clean(name, true), width)}  ${clean(text, true)}`.trimEnd(),
    ),
  ];
}

// Nothing where no stored event has a key whose triggers change. `would ` of what is not applied, or not yet.
function printImpact(impact: EventImpact | undefined, would: string, { paint }: PrintOptions): string[] {
  if (impact?.reason !== undefined)
    return ['', paint('bold', 'events of the last 7 days'), `  not matched again: ${clean(impact.reason, true)}`];
  if (impact === undefined || impact.events === 0) return [];
  const looked = `${impact.truncated === true ? 'the newest ' : ''}${count(impact.events, 'event')}`;
  const head = `events of the last 7 days (${looked} matched again)`;
  const triggers = impact.triggers ?? [];
  if (triggers.length === 0) return ['', paint('bold', head), '  all match as before'];
  const some = (sign: '+' | '-', kind: ImpactCount): string[] => {
    const ids = (kind.eventIds ?? []).map((id) => clean(id, true));
    if (ids.length === 0) return [];
    return [
      `      ${paint(sign === '+' ? 'green' : 'red', sign)} ${ids.join(', ')}${kind.count > ids.length ? ', …' : ''}`,
    ];
  };
  const lines = triggers.flatMap(({ agent, ordinal, event, newly, stopped }) => {
    const parts = [
      ...(newly.count > 0 ? [`${newly.count} ${would}newly match`] : []),
      ...(stopped.count > 0 ? [`${stopped.count} ${would}stop matching`] : []),
    ];
    const name = `agent ${clean(agent, true)} trigger ${ordinal} (${clean(event, true)})`;
    return [`  ${name}: ${parts.join(', ')}`, ...some('+', newly), ...some('-', stopped)];
  });
  return ['', paint('bold', head), ...lines];
}
