// An event for people: what came in, what each trigger made of it clause by clause, and what came of it. Pure. What it
// reads comes from a server, perhaps a newer one: fields that are missing are left out, never guessed.

import { jsonLines, rowOf, type Row, short } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean, details, type Paint, relativeTime } from './text.ts';

/** What a decision did, and what it would do (contract, section 3, `routes`). */
const DECISIONS: { readonly [decision: string]: readonly [done: string, would: string] } = {
  spawn: ['started session', 'would start a session'],
  deliver: ['delivered to session', 'would be delivered to a live session'],
  converted: ['delivered to session', 'would be delivered to the session that holds it already'],
  released: ['delivered, and its binding released from session', 'would be delivered, and its binding released'],
  'unmatched-drop': ['found no session: dropped', 'would find no session, and be dropped'],
  'unmatched-warn': ['found no session: a warning', 'would find no session: a warning'],
  'unmatched-error': ['found no session: an error', 'would find no session: an error'],
  'unmatched-spawn': ['found no session: started session', 'would find no session, and start one'],
};
const BECAUSE: { readonly [because: string]: string } = {
  target: ' (it holds the target already)',
  thread: ' (it holds the thread already)',
  slot: ' (the agent has one session at a time)',
  loop: ' (ended as a loop of binding events)',
};

/** `started session 01a1…`: of a recorded route. */
function doneText(route: Row): string {
  const decision = route.text('decision');
  const [done] = DECISIONS[decision] ?? [decision];
  const several = route.raw('sessionIds');
  const ids = Array.isArray(several) ? several.map(String) : [route.raw('sessionId')].filter((id) => id !== undefined);
  const why = route.raw('because');
  const because = typeof why === 'string' ? BECAUSE[why] : '';
  // What is no word of ours is a sentence: what stood in the way, whether there was a session or not.
  if (because === undefined) return `${clean(String(why), true)} [${clean(decision, true)}]`;
  const names = ids.map((id) => clean(String(id), true)).join(', ');
  // A delivery to nobody and a release without a holder name no session.
  const text = names === '' ? done.replace(/ (to|from) session$/, '').replace(/ session$/, '') : `${done} ${names}`;
  return `${text}${because} [${clean(decision, true)}]`;
}

const triggerName = (row: Row): string => `${clean(row.text('agent'), true)}#${row.text('ordinal')}`;

/** `triage#0 spawn, notes#1 deliver`: on one line of a list. */
export function routesText(routes: unknown): string {
  const rows = (Array.isArray(routes) ? routes : []).map(rowOf);
  return rows.length === 0 ? '-' : rows.map((row) => `${triggerName(row)} ${row.text('decision')}`).join(', ');
}

export const targetText = (row: Row): string =>
  row.raw('target') === null || row.raw('target') === undefined
    ? '-'
    : `${row.text('target.type')} ${row.text('target.key')}`;

interface EventOptions {
  readonly paint: Paint;
  readonly now: Date;
}

function statusText(event: Row, paint: Paint): string {
  const status = event.text('routerStatus');
  const severity = event.raw('severity');
  const shown = typeof severity === 'string' ? `${status} (${severity})` : status;
  return paint(statusColour(typeof severity === 'string' ? severity : status), clean(shown, true));
}

/** The event without its payload. */
function headText(event: Row, { paint, now }: EventOptions): string {
  const given = (field: string): string | undefined =>
    event.raw(field) === undefined || event.raw(field) === null ? undefined : clean(event.text(field), true);
  const received = given('receivedAt');
  return details(
    [
      ['event', paint('bold', clean(event.text('key'), true))],
      ['id', given('id')],
      ['received', received === undefined ? undefined : `${received} (${relativeTime(received, now)})`],
      ['status', statusText(event, paint)],
      ['reason', given('reason')],
      ['target', targetText(event) === '-' ? undefined : clean(targetText(event), true)],
      ['replay of', given('replayOf')],
    ],
    paint,
  );
}

/** The whole event. */
export function eventText(value: unknown, options: EventOptions): string {
  const { paint } = options;
  const event = rowOf(value);
  const routes = ((event.raw('routes') ?? []) as readonly unknown[]).map(rowOf);
  const lines = [headText(event, options)];
  if (routes.length > 0) {
    lines.push('', paint('bold', 'what came of it'));
    for (const route of routes) lines.push(`  ${paint('bold', triggerName(route))}  ${doneText(route)}`);
  }
  const payload = event.raw('payload');
  const body = payload === null || payload === undefined ? '  not kept any more' : jsonLines(payload, '  ');
  return [...lines, '', paint('bold', 'payload'), body].join('\n');
}

/** A recorded event's explanation, below what the event is. */
export function explainedEventText(value: unknown, answer: unknown, options: EventOptions): string {
  const event = rowOf(value);
  const triggers = listOf(answer);
  const told = new Set(triggers.map(triggerName));
  const gone = ((event.raw('routes') ?? []) as readonly unknown[])
    .map(rowOf)
    .filter((one) => !told.has(triggerName(one)));
  const parts = [headText(event, options), explainText(answer, options.paint)];
  if (gone.length > 0) {
    const lines = gone.map((route) => `  ${options.paint('bold', triggerName(route))}  ${doneText(route)}`);
    parts.push([options.paint('bold', 'triggers that are not there any more'), ...lines].join('\n'));
  }
  return parts.join('\n\n');
}

const listOf = (answer: unknown): Row[] =>
  ((Object(answer) as { triggers?: readonly unknown[] }).triggers ?? []).map(rowOf);

/** Every trigger on the key, what each clause read, and what followed or would follow. */
export function explainText(answer: unknown, paint: Paint): string {
  const triggers = listOf(answer);
  if (triggers.length === 0) return 'no trigger listens to this event';
  const firm = triggers.filter((one) => one.raw('matched') === true && one.raw('fallback') !== true).map(triggerName);
  return triggers
    .map((trigger) => {
      const clauses = clausesOf(trigger);
      const fallback = trigger.raw('fallback') === true ? ' (fallback)' : '';
      const head = `${paint('bold', triggerName(trigger))}${fallback}  ${verdict(trigger, firm, paint)}`;
      return [head, ...alignedClauses(clauses, paint)].join('\n');
    })
    .join('\n\n');
}

const clausesOf = (trigger: Row): readonly Row[] => ((trigger.raw('clauses') ?? []) as readonly unknown[]).map(rowOf);

function verdict(trigger: Row, firm: readonly string[], paint: Paint): string {
  const matched = trigger.raw('matched') === true;
  if (trigger.raw('recorded') === true) {
    const now = matched ? '' : paint('yellow', ', and would not match now');
    const severity = trigger.raw('severity');
    const colour = typeof severity === 'string' ? statusColour(severity) : 'green';
    return `${paint(colour, `✓ ${doneText(trigger)}`)}${now}`;
  }
  if (matched) {
    const decision = trigger.raw('decision');
    const [, would] = DECISIONS[String(decision)] ?? ['', typeof decision === 'string' ? decision : undefined];
    return paint('green', would === undefined ? '✓ matches' : `✓ matches: ${would} [${clean(String(decision), true)}]`);
  }
  const isIdle = trigger.raw('fallback') === true && clausesOf(trigger).every((one) => one.raw('matched') === true);
  if (isIdle) return paint('grey', `✗ stands back: ${firm.join(', ') || 'another trigger'} matched`);
  return paint('grey', '✗ does not match');
}

function alignedClauses(clauses: readonly Row[], paint: Paint): string[] {
  const texts = clauses.map((clause) => `${clean(clause.text('path'), true)} ${clauseWords(clause.raw('clause'))}`);
  const width = Math.min(60, Math.max(0, ...texts.map((text) => text.length)));
  return clauses.map((clause, at) => {
    const mark = clause.raw('matched') === true ? paint('green', '✓') : paint('red', '✗');
    const value = clause.raw('value');
    const found = value === undefined ? 'nothing is there' : `found ${short(JSON.stringify(value))}`;
    return `  ${mark} ${(texts[at] ?? '').padEnd(width)}  ${paint('grey', found)}`;
  });
}

/** A clause as a person would say it (spec, Where filter grammar). */
function clauseWords(clause: unknown): string {
  if (clause === null || typeof clause !== 'object') return `is ${words(clause)}`;
  const [operator = '', operand] = Object.entries(clause)[0] ?? [];
  const list = Array.isArray(operand) ? operand.map(words).join(', ') : words(operand);
  const said: { readonly [operator: string]: string } = {
    contains: `contains ${list}`,
    exists: operand === true ? 'is there' : 'is not there',
    in: `is one of ${short(list)}`,
    notIn: `is none of ${short(list)}`,
    changedTo: `changed to ${list}`,
  };
  return said[operator] ?? short(JSON.stringify(clause));
}

const words = (value: unknown): string => short(JSON.stringify(value) ?? 'nothing');
