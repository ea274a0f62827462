// An event for people: what came in, what each trigger made of it clause by clause, and what came of it. Pure. What it
// reads comes from a server, perhaps a newer one: fields that are missing are left out, never guessed.

import type { Target } from '../../../schemas/api/common.ts';
import type { Event, EventExplanation, EventRoute } from '../../../schemas/api/events.ts';
import type { ExplainedClause, TriggerExplanation } from '../../../schemas/api/triggers.ts';
import { jsonLines, short } from './lists.ts';
import { statusColour } from './print-run.ts';
import { clean, details, type Paint, relativeTime } from './text.ts';

/** What a decision did, and what it would do (docs/reference/where.md#explanations). */
const decisions: { readonly [decision: string]: readonly [done: string, would: string] } = {
  spawn: ['started session', 'would start a session'],
  deliver: ['delivered to session', 'would be delivered to a live session'],
  converted: ['delivered to session', 'would be delivered to a live session'],
  released: ['delivered, and its binding released from session', 'would be delivered, and its binding released'],
  'unmatched-drop': ['found no session: dropped', 'would find no session, and be dropped'],
  'unmatched-warn': ['found no session: a warning', 'would find no session: a warning'],
  'unmatched-error': ['found no session: an error', 'would find no session: an error'],
  'unmatched-spawn': ['found no session: started session', 'would find no session, and start one'],
};
const becauseTexts: { readonly [because: string]: string } = {
  target: ' (it holds the target already)',
  thread: ' (it holds the thread already)',
  slot: ' (the agent has one session at a time)',
  loop: ' (ended as a loop of binding events)',
};

/** `started session 01a1…`: of a recorded route. */
function doneText(route: Decided): string {
  const decision = route.decision ?? '-';
  const [done] = decisions[decision] ?? [decision];
  const { sessionIds, sessionId, because: why } = route;
  const ids = sessionIds ?? (sessionId === undefined ? [] : [sessionId]);
  const because = typeof why === 'string' ? becauseTexts[why] : '';
  // What is no word of ours is a sentence: what stood in the way, whether there was a session or not.
  if (because === undefined) return `${clean(why ?? '-', true)} [${clean(decision, true)}]`;
  const names = ids.map((id) => clean(id, true)).join(', ');
  // A delivery to nobody and a release without a holder name no session.
  const text = names === '' ? done.replace(/ (to|from) session$/, '').replace(/ session$/, '') : `${done} ${names}`;
  return `${text}${because} [${clean(decision, true)}]`;
}

const triggerName = (one: { readonly agent: string; readonly ordinal: number }): string =>
  `${clean(one.agent, true)}#${one.ordinal}`;

/** `triage#0 spawn, notes#1 deliver`: on one line of a list. */
export function routesText(routes: readonly EventRoute[] = []): string {
  return routes.length === 0 ? '-' : routes.map((one) => `${triggerName(one)} ${one.decision}`).join(', ');
}

export const targetText = (target: Target | null | undefined): string =>
  target === null || target === undefined ? '-' : `${target.type} ${target.key}`;

/** Of a trigger for an event that may come, or one that was recorded. */
type Explanation = TriggerExplanation & Partial<EventExplanation>;
interface Explanations {
  readonly triggers?: readonly Explanation[];
  readonly more?: boolean | undefined;
}
/** Of a recorded route, and of a trigger's explanation. */
type Decided = Pick<EventRoute, 'sessionId' | 'sessionIds' | 'because'> & { readonly decision: string | null };

interface EventOptions {
  readonly paint: Paint;
  readonly now: Date;
}

function statusText(event: Event, paint: Paint): string {
  const { routerStatus: status, severity } = event;
  const shown = severity === undefined ? status : `${status} (${severity})`;
  return paint(statusColour(severity ?? status), clean(shown, true));
}

/** The event without its payload. */
function headText(event: Event, { paint, now }: EventOptions): string {
  const given = (text: string | undefined): string | undefined => (text === undefined ? undefined : clean(text, true));
  const received = given(event.receivedAt);
  return details(
    [
      ['event', paint('bold', clean(event.key, true))],
      ['id', given(event.id)],
      ['received', received === undefined ? undefined : `${received} (${relativeTime(received, now)})`],
      ['status', statusText(event, paint)],
      ['reason', given(event.reason)],
      ['target', event.target ? clean(targetText(event.target), true) : undefined],
      ['replay of', given(event.replayOf)],
    ],
    paint,
  );
}

/** The whole event. */
export function eventText(event: Event, options: EventOptions): string {
  const { paint } = options;
  const routes = event.routes ?? [];
  const lines = [headText(event, options)];
  if (routes.length > 0) {
    lines.push('', paint('bold', 'what came of it'));
    for (const route of routes) lines.push(`  ${paint('bold', triggerName(route))}  ${doneText(route)}`);
  }
  const { payload } = event;
  const body = payload === null || payload === undefined ? '  not kept any more' : jsonLines(payload, '  ');
  return [...lines, '', paint('bold', 'payload'), body].join('\n');
}

/** A recorded event's explanation, below what the event is. */
export function explainedEventText(event: Event, answer: Explanations, options: EventOptions): string {
  const { triggers = [] } = answer;
  const told = new Set(triggers.map(triggerName));
  const gone = event.routes.filter((one) => !told.has(triggerName(one)));
  const parts = [headText(event, options), explainText(answer, options.paint)];
  if (gone.length > 0) {
    const lines = gone.map((route) => `  ${options.paint('bold', triggerName(route))}  ${doneText(route)}`);
    parts.push([options.paint('bold', 'triggers that are not there any more'), ...lines].join('\n'));
  }
  return parts.join('\n\n');
}

/** Every trigger on the key, what each clause read, and what followed or would follow. */
export function explainText({ triggers = [], more }: Explanations, paint: Paint): string {
  const rest = more === true ? ['there are more triggers than the answer has room for'] : [];
  if (triggers.length === 0) return rest[0] ?? 'no trigger listens to this event';
  const firm = triggers.filter((one) => one.matched && !one.fallback).map(triggerName);
  const texts = triggers.map((trigger) => {
    const { clauses } = trigger;
    const fallback = trigger.fallback ? ' (fallback)' : '';
    const head = `${paint('bold', triggerName(trigger))}${fallback}  ${verdict(trigger, firm, paint)}`;
    return [head, ...alignedClauses(clauses, paint)].join('\n');
  });
  return [...texts, ...rest].join('\n\n');
}

function verdict(trigger: Explanation, firm: readonly string[], paint: Paint): string {
  const { matched } = trigger;
  if (trigger.recorded === true) {
    const now = matched ? '' : paint('yellow', ', and would not match now');
    const { severity } = trigger;
    const colour = severity === undefined ? 'green' : statusColour(severity);
    return `${paint(colour, `✓ ${doneText(trigger)}`)}${now}`;
  }
  if (matched) {
    const { decision } = trigger;
    if (decision === null) return paint('green', '✓ matches');
    return paint(
      trigger.because === undefined ? 'green' : 'yellow',
      `✓ matches: ${wouldText(decision, trigger.because)}`,
    );
  }
  const { standsBackFor } = trigger;
  const isIdle = trigger.fallback && trigger.clauses.every((one) => one.matched);
  const others = standsBackFor === undefined ? firm : standsBackFor.map(triggerName);
  if (isIdle) return paint('grey', `✗ stands back: ${others.join(', ') || 'another trigger'} matched`);
  return paint('grey', '✗ does not match');
}

/** `would start a session [spawn]`: of a trigger that has not routed the event. */
function wouldText(decision: string, why: string | undefined): string {
  const [, would] = decisions[decision] ?? ['', decision];
  const because = why === undefined ? '' : becauseTexts[why];
  return `${because === undefined ? clean(why ?? '-', true) : would + because} [${clean(decision, true)}]`;
}

function alignedClauses(clauses: readonly ExplainedClause[], paint: Paint): string[] {
  const texts = clauses.map((clause) => `${clean(clause.path, true)} ${clauseWords(clause.clause)}`);
  const width = Math.min(60, Math.max(0, ...texts.map((text) => text.length)));
  return clauses.map((clause, at) => {
    const mark = clause.matched ? paint('green', '✓') : paint('red', '✗');
    const { value, truncated } = clause;
    const shown = truncated === true && typeof value === 'string' ? `the beginning of ${value}` : JSON.stringify(value);
    const instead = clause.instead === undefined ? '' : ` (payload has ${clean(clause.instead.join(', '), true)})`;
    const found = value === undefined ? `nothing is there${instead}` : `found ${short(shown)}`;
    return `  ${mark} ${(texts[at] ?? '').padEnd(width)}  ${paint('grey', found)}`;
  });
}

/** A clause as a person would say it (docs/reference/where.md#clauses). */
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
