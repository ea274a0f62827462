// A session and its transcript for people. Pure. What it reads comes from a server, perhaps a newer one: fields that are
// missing are left out, never guessed.

import { rowOf, type Row } from './lists.ts';
import { targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { clean, type Colour, count, details, type Paint, relativeTime } from './text.ts';

interface SessionOptions {
  readonly paint: Paint;
  readonly now: Date;
}

const given = (row: Row, field: string): string | undefined =>
  row.raw(field) === undefined || row.raw(field) === null ? undefined : clean(row.text(field), true);

/** `$1.20`, or nothing where nothing was spent. */
export function costText(session: Row): string {
  const cost = Number(session.raw('usage.costUsd') ?? 0);
  if (!(cost > 0)) return '-';
  return cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
}

function usageText(session: Row): string | undefined {
  const calls = Number(session.raw('usage.calls') ?? 0);
  if (calls === 0) return undefined;
  const tokens = (field: string): string => Number(session.raw(`usage.${field}`) ?? 0).toLocaleString('en');
  const unpriced = Number(session.raw('usage.unpricedCalls') ?? 0);
  const cost = unpriced === 0 ? '' : `, of which ${unpriced} at an unknown price`;
  return `$${String(session.raw('usage.costUsd') ?? '0')} in ${count(calls, 'model call')}${cost}: ${tokens('inputTokens')} tokens in, ${tokens('outputTokens')} out`;
}

/** Where it comes from: the event and trigger, a person, or another session. */
function originText(session: Row): string | undefined {
  const parent = given(session, 'parentId');
  switch (session.text('origin')) {
    case 'event':
      return `event ${given(session, 'eventId') ?? '-'}, trigger ${given(session, 'ordinal') ?? '-'}`;
    case 'manual':
      return 'started by hand';
    case 'session':
      return `spawned by session ${parent ?? '-'}`;
    case 'replacement':
      return `replaces session ${parent ?? '-'}`;
    default:
      return undefined;
  }
}

const when = (session: Row, field: string, now: Date): string | undefined => {
  const at = given(session, field);
  return at === undefined ? undefined : `${at} (${relativeTime(at, now)})`;
};

/** One session with what it holds. */
export function sessionText(value: unknown, { paint, now }: SessionOptions): string {
  const session = rowOf(value);
  const state = session.text('state');
  const head = details(
    [
      ['session', paint('bold', clean(session.text('displayTitle'), true))],
      ['id', given(session, 'id')],
      ['agent', `${clean(session.text('agent'), true)}, revision ${session.text('revision')}`],
      ['state', paint(statusColour(state), clean(state.replaceAll('_', ' '), true))],
      ['reason', given(session, 'reason')],
      ['origin', originText(session)],
      ['created', when(session, 'createdAt', now)],
      ['started', when(session, 'startedAt', now)],
      ['last active', when(session, 'lastActiveAt', now)],
      ['ended', when(session, 'endedAt', now)],
      ['sandbox', sandboxText(session)],
      ['inbox', inboxText(session)],
      ['turns', turnsText(session)],
      ['used', usageText(session)],
    ],
    paint,
  );
  return [head, ...holdings(session, paint)].join('\n');
}

/** Which sandbox it runs in, and what that cannot enforce. */
function sandboxText(session: Row): string | undefined {
  const provider = given(session, 'sandbox.provider');
  if (provider === undefined) return undefined;
  const lacking = session.raw('sandbox.notEnforced');
  const list = Array.isArray(lacking) ? lacking.map((one) => clean(String(one), true)).join(', ') : '';
  return list === '' ? provider : `${provider}, which does not enforce ${list}`;
}

function inboxText(session: Row): string | undefined {
  const names = { pending: 'waiting', inFlight: 'going in', done: 'read', failed: 'not delivered' };
  const parts = Object.entries(names).flatMap(([field, name]) => {
    const number = Number(session.raw(`inbox.${field}`) ?? 0);
    return number === 0 ? [] : [`${number} ${name}`];
  });
  return parts.length === 0 ? undefined : parts.join(', ');
}

function turnsText(session: Row): string | undefined {
  const turns = Number(session.raw('turns') ?? 0);
  if (turns === 0) return undefined;
  const error = given(session, 'lastTurn.error');
  return `${turns}, the last ${session.text('lastTurn.state')}${error === undefined ? '' : `: ${error}`}`;
}

const rows = (session: Row, field: string): readonly Row[] =>
  ((session.raw(field) ?? []) as readonly unknown[]).map(rowOf);

function holdings(session: Row, paint: Paint): string[] {
  const lines: string[] = [];
  const section = (title: string, entries: readonly string[]): void => {
    if (entries.length > 0) lines.push('', paint('bold', title), ...entries.map((entry) => `  ${clean(entry, true)}`));
  };
  section(
    'claims',
    rows(session, 'claims').map((claim) =>
      claim.text('kind') === 'slot' ? 'the slot of its agent' : `thread ${claim.text('key')}`,
    ),
  );
  section(
    'bindings',
    rows(session, 'bindings').map(
      (binding) =>
        `${targetText(binding)}  ${binding.text('lifecycle')}, continuity ${binding.text('continuity')}  ${binding.text('id')}`,
    ),
  );
  section(
    'checks',
    rows(session, 'checks').map((check) => {
      const conclusion = given(check, 'conclusion');
      const said = conclusion === undefined ? '' : `: ${conclusion}`;
      return `${check.text('name')} on ${targetText(check)}, cycle ${check.text('cycle')}: ${check.text('state')}${said}`;
    }),
  );
  section(
    'waits for an answer (svc session allow, svc session reject)',
    rows(session, 'permissions').map((request) => `${request.text('title')}  ${request.text('id')}`),
  );
  const notes = session.raw('sandbox.notes');
  section('to know', Array.isArray(notes) ? notes.map(String) : []);
  const refs = Object.entries(Object(session.raw('mountRefs')) as { readonly [path: string]: unknown });
  section(
    'mounts',
    refs.map(([path, ref]) => `${path} at ${String(ref)}`),
  );
  return lines;
}

const ROLE_COLOURS: { readonly [role: string]: Colour } = { user: 'cyan', assistant: 'green', tool: 'blue' };
const SENDERS: { readonly [sender: string]: string } = {
  event: 'event',
  operator: 'operator',
  session: 'session',
  platform: 'platform',
};
const DELIVERIES: { readonly [state: string]: string } = {
  pending: 'waiting',
  in_flight: 'going in',
  failed: 'not delivered',
};

/** What an assistant says in one go is stored in pieces, as it came: one message again, under the time of its first. */
export function joinPieces(messages: readonly unknown[]): unknown[] {
  const joined: unknown[] = [];
  for (const message of messages) {
    const [row, before] = [rowOf(message), rowOf(joined.at(-1) ?? {})];
    const kind = row.raw('kind');
    const isPiece = row.raw('role') === 'assistant' && (kind === 'text' || kind === 'thought');
    if (isPiece && before.raw('role') === 'assistant' && before.raw('kind') === kind) {
      const text = `${String(before.raw('text'))}${String(row.raw('text'))}`;
      joined[joined.length - 1] = { ...Object(joined.at(-1)), text };
    } else joined.push(message);
  }
  return joined;
}

/** `12:00:05  assistant` and the text below it. */
export function messageText(value: unknown, paint: Paint): string {
  const message = rowOf(value);
  const role = message.text('role');
  const kind = message.text('kind');
  const said = kind === 'text' || kind === 'prompt' ? [] : [kind.replaceAll('_', ' ')];
  const delivery = DELIVERIES[message.text('delivery.state')];
  const reason = given(message, 'delivery.reason');
  const marks = [
    ...said,
    ...(delivery === undefined ? [] : [reason === undefined ? delivery : `${delivery}: ${reason}`]),
  ];
  const head = [
    paint('grey', timeText(message.text('at'))),
    paint(ROLE_COLOURS[role] ?? 'grey', paint('bold', clean(speaker(message, role), true))),
    ...(marks.length === 0 ? [] : [paint('grey', `(${clean(marks.join(', '), true)})`)]),
  ].join('  ');
  const body = typeof message.raw('text') === 'string' ? clean(String(message.raw('text'))).trimEnd() : '';
  return body === '' ? head : `${head}\n${body.replace(/^(?=.)/gm, '    ')}`;
}

/** Who speaks: what a session is told comes from an event, a person, another session or the platform. */
function speaker(message: Row, role: string): string {
  if (role !== 'user') return role;
  const sender = SENDERS[String(message.raw('delivery.sender') ?? message.raw('detail.sender'))] ?? role;
  const name = given(message, 'detail.name');
  const event = given(message, 'eventId');
  if (sender === 'event' && event !== undefined) {
    const key = given(message, 'detail.event');
    return key === undefined ? `event ${event}` : `${key} ${event}`;
  }
  return name === undefined ? sender : `${sender} ${name}`;
}

/** A change of state on a line of its own. */
export function stateText(value: unknown, paint: Paint): string {
  const session = rowOf(value);
  const state = session.text('state');
  const reason = given(session, 'reason');
  return paint('grey', `── ${clean(state.replaceAll('_', ' '), true)}${reason === undefined ? '' : `: ${reason}`}`);
}

const timeText = (at: string): string => at.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
