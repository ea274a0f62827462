// A session and its transcript for people. Pure. What it reads comes from a server, perhaps a newer one: fields that are
// missing are left out, never guessed.

import type { Usage } from '../../../schemas/api/common.ts';
import type { Message, WholeSession } from '../../../schemas/api/sessions.ts';
import { targetText } from './print-event.ts';
import { statusColour } from './print-run.ts';
import { clean, type Colour, count, details, durationText, type Paint, relativeTime } from './text.ts';

interface SessionOptions {
  readonly paint: Paint;
  readonly now: Date;
}

/** Text of a member that may be absent. */
const given = (value: string | number | null | undefined): string | undefined =>
  value === undefined || value === null ? undefined : clean(String(value), true);

/** `$1.20`, or nothing where nothing was spent. */
export function costText(usage: Usage | undefined): string {
  const cost = Number(usage?.costUsd ?? 0);
  if (!(cost > 0)) return '-';
  return cost < 0.01 ? '<$0.01' : `$${cost.toFixed(2)}`;
}

function usageText(usage: Usage | undefined): string | undefined {
  if (usage === undefined || usage.calls === 0) return undefined;
  const tokens = (field: 'inputTokens' | 'outputTokens'): string => (usage[field] ?? 0).toLocaleString('en');
  const unpriced = usage.unpricedCalls ?? 0;
  const cost = unpriced === 0 ? '' : `, of which ${unpriced} at an unknown price`;
  return `$${usage.costUsd} in ${count(usage.calls, 'model call')}${cost}: ${tokens('inputTokens')} tokens in, ${tokens('outputTokens')} out`;
}

/** Where it comes from: the event and trigger, a person, or another session. */
function originText(session: WholeSession): string | undefined {
  const parent = given(session.parentId);
  switch (session.origin) {
    case 'event':
      return `event ${given(session.eventId) ?? '-'}, trigger ${given(session.ordinal) ?? '-'}`;
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

const when = (time: string | undefined, now: Date): string | undefined => {
  const at = given(time);
  return at === undefined ? undefined : `${at} (${relativeTime(at, now)})`;
};

/** One session with what it holds. */
export function sessionText(session: WholeSession, { paint, now }: SessionOptions): string {
  const { state } = session;
  const head = details(
    [
      ['session', paint('bold', clean(session.displayTitle, true))],
      ['id', given(session.id)],
      ['agent', `${clean(session.agent, true)}, revision ${session.revision}`],
      ['state', `${paint(statusColour(state), clean(state.replaceAll('_', ' '), true))}${restText(session)}`],
      ['reason', reasonText(session)],
      ['origin', originText(session)],
      ['created', when(session.createdAt, now)],
      ['started', when(session.startedAt, now)],
      ['last active', when(session.lastActiveAt, now)],
      ['ended', when(session.endedAt, now)],
      ['sandbox', sandboxText(session)],
      ['inbox', inboxText(session)],
      ['turns', turnsText(session, now)],
      ['used', usageText(session.usage)],
    ],
    paint,
  );
  return [head, ...holdings(session, paint)].join('\n');
}

/** That one which rests has given its place up, and that nothing goes to and fro between it and its sandbox. */
const restText = ({ state, loaded, wire }: WholeSession): string =>
  `${state === 'idle' && loaded === false ? ', not loaded' : ''}${wire === 'lost' ? ', its wire is lost' : ''}`;

/** What it waits for, with its place in the queue and the same in words, where it waits. */
function reasonText(session: WholeSession): string | undefined {
  const reason = given(session.reason);
  if (reason === undefined) return undefined;
  const position = given(session.position);
  const words = given(session.reasonText);
  return `${reason}${position === undefined ? '' : `, number ${position} in the queue`}${words === undefined ? '' : `: ${words}`}`;
}

/** Which sandbox it runs in, and what that cannot enforce. */
function sandboxText({ sandbox }: WholeSession): string | undefined {
  const provider = sandbox?.['provider'];
  if (typeof provider !== 'string') return undefined;
  const lacking = sandbox?.['notEnforced'];
  const list = Array.isArray(lacking) ? lacking.map((one) => clean(String(one), true)).join(', ') : '';
  const name = clean(provider, true);
  return list === '' ? name : `${name}, which does not enforce ${list}`;
}

function inboxText({ inbox }: WholeSession): string | undefined {
  const names = { pending: 'waiting', inFlight: 'going in', done: 'read', failed: 'not delivered' };
  const parts = Object.entries(names).flatMap(([field, name]) => {
    const number = inbox?.[field as keyof typeof names] ?? 0;
    return number === 0 ? [] : [`${number} ${name}`];
  });
  return parts.length === 0 ? undefined : parts.join(', ');
}

/** `3, the last running for 2m41s`. */
function turnsText({ turns, lastTurn }: WholeSession, now: Date): string | undefined {
  if (!(turns > 0)) return undefined;
  const error = given(lastTurn?.error);
  const { startedAt, endedAt } = lastTurn ?? {};
  const ms =
    startedAt === undefined ? Number.NaN : (endedAt ? Date.parse(endedAt) : now.getTime()) - Date.parse(startedAt);
  const took = Number.isNaN(ms) ? '' : ` ${endedAt ? 'in' : 'for'} ${durationText(Math.max(0, ms))}`;
  return `${turns}, the last ${lastTurn?.state ?? '-'}${took}${error === undefined ? '' : `: ${error}`}`;
}

function holdings(session: WholeSession, paint: Paint): string[] {
  const lines: string[] = [];
  const section = (title: string, entries: readonly string[]): void => {
    if (entries.length > 0) lines.push('', paint('bold', title), ...entries.map((entry) => `  ${clean(entry, true)}`));
  };
  section(
    'claims',
    (session.claims ?? []).map((claim) =>
      claim.kind === 'slot' ? 'the slot of its agent' : `thread ${claim.key ?? '-'}`,
    ),
  );
  section(
    'bindings',
    (session.bindings ?? []).map(
      (binding) =>
        `${targetText(binding.target)}  ${binding.lifecycle}, continuity ${binding.continuity}  ${binding.id}`,
    ),
  );
  section(
    'checks',
    (session.checks ?? []).map((check) => {
      const conclusion = given(check.conclusion);
      const said = conclusion === undefined ? '' : `: ${conclusion}`;
      return `${check.name} on ${targetText(check.target)}, cycle ${check.cycle}: ${check.state}${said}`;
    }),
  );
  section(
    'waits for an answer (svc session allow, svc session reject)',
    (session.permissions ?? []).map((request) => `${request.title}  ${request.id}`),
  );
  section(
    'latest launch',
    (session.provisioning ?? []).map(({ stage, name, ms, cache }) => {
      const what = [stage, name].filter((part) => part !== undefined).join(' ');
      return `${what}  ${durationText(ms)}${cache === undefined ? '' : `, cache ${cache}`}`;
    }),
  );
  section(
    'refused on the way out (not what `svc project show` and the installation allow, or a private address)',
    (session.egress?.denied ?? []).map(({ host, count: times }) => `${host}  ${count(times, 'request')}`),
  );
  const notes = session.sandbox?.['notes'];
  section('to know', Array.isArray(notes) ? notes.map(String) : []);
  const refs = Object.entries(session.mountRefs ?? {});
  section(
    'mounts',
    refs.map(([path, ref]) => `${path} at ${ref}`),
  );
  return lines;
}

const roleColours: { readonly [role: string]: Colour } = { user: 'cyan', assistant: 'green', tool: 'blue' };
const senders: { readonly [sender: string]: string } = {
  event: 'event',
  operator: 'operator',
  session: 'session',
  platform: 'platform',
};
const deliveries: { readonly [state: string]: string } = {
  pending: 'waiting',
  in_flight: 'going in',
  failed: 'not delivered',
};

/**
 * What an assistant says in one go is stored in pieces, as it came: one message again, under the time of its first. So is a call
 * of a tool that was told again when it was known what it is for.
 */
export function joinPieces(messages: readonly Message[]): Message[] {
  const joined: Message[] = [];
  for (const message of messages) {
    const before = joined.at(-1);
    const { role, kind } = message;
    const isPiece = role === 'assistant' && (kind === 'text' || kind === 'thought');
    if (isPiece && before?.role === 'assistant' && before.kind === kind) {
      joined[joined.length - 1] = { ...before, text: `${before.text}${message.text}` };
    } else if (before?.kind === 'tool_call' && kind === 'tool_call' && callOf(before) === callOf(message)) {
      joined[joined.length - 1] = { ...message, at: before.at };
    } else joined.push(message);
  }
  return joined;
}

/** The id of its call; without one it is of no other message's. */
const callOf = ({ seq, detail }: Message): unknown => Object(detail).callId ?? seq;

/** `12:00:05  assistant` and the text below it. */
export function messageText(message: Message, paint: Paint): string {
  const { role, kind } = message;
  const said = kind === 'text' || kind === 'prompt' ? [] : [kind.replaceAll('_', ' ')];
  const delivery = deliveries[message.delivery?.state ?? ''];
  const reason = given(message.delivery?.reason);
  const marks = [
    ...said,
    ...(delivery === undefined ? [] : [reason === undefined ? delivery : `${delivery}: ${reason}`]),
  ];
  const head = [
    paint('grey', timeText(message.at)),
    paint(roleColours[role] ?? 'grey', paint('bold', clean(speaker(message, role), true))),
    ...(marks.length === 0 ? [] : [paint('grey', `(${clean(marks.join(', '), true)})`)]),
  ].join('  ');
  const body = clean(message.text ?? '').trimEnd();
  return body === '' ? head : `${head}\n${body.replace(/^(?=.)/gm, '    ')}`;
}

/** Who speaks: what a session is told comes from an event, a person, another session or the platform. */
function speaker(message: Message, role: string): string {
  if (role !== 'user') return role;
  const detail = Object(message.detail) as {
    readonly sender?: unknown;
    readonly name?: string;
    readonly event?: string;
  };
  const sender = senders[message.delivery?.sender ?? String(detail.sender)] ?? role;
  const name = given(detail.name);
  const event = given(message.eventId);
  if (sender === 'event' && event !== undefined) {
    const key = given(detail.event);
    return key === undefined ? `event ${event}` : `${key} ${event}`;
  }
  return name === undefined ? sender : `${sender} ${name}`;
}

/** What a stream tells of a change of state. */
export type SessionChange = Pick<WholeSession, 'state' | 'reason'> & { readonly live?: boolean };

/** A change of state on a line of its own. */
export function stateText({ state, reason: why }: SessionChange, paint: Paint): string {
  // That it waits for a place is what being queued means.
  const reason = why === 'capacity' ? undefined : given(why);
  return paint('grey', `── ${clean(state.replaceAll('_', ' '), true)}${reason === undefined ? '' : `: ${reason}`}`);
}

const timeText = (at: string): string => at.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
