// One session: what it does, what it costs, what it asks, and what it left.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Message, Session, WholeSession } from '../../../../schemas/api/sessions.ts';
import type { Agent } from '../../../../schemas/api/agents.ts';
import { Action } from './action.ts';
import { call } from './api.ts';
import { shell } from './command.ts';
import { asked, because } from './dry-run.ts';
import {
  Clock,
  Command,
  duration,
  Elapsed,
  Failure,
  Field,
  html,
  kindOf,
  type Markup,
  Status,
  Time,
  useRead,
} from './kit.ts';
import { useLive } from './live.ts';
import { sumUsd, tokens, usd } from './numbers.ts';
import { pageHref, type PageProps, type Place } from './pages.ts';
import { Diff, Files } from './session-results.ts';
import { TranscriptLog } from './transcript.ts';

/** What is said of its agent: the cap of a session, and what people call it. */
interface OfAgent {
  readonly capUsd?: string;
  readonly displayName?: string;
}
interface Found extends OfAgent {
  readonly session: WholeSession;
}

/** Both are the agent's as it is now, not those of the revision; of an agent that is gone there is neither. */
function useAgent(place: Place, name: string | undefined): OfAgent & { readonly isKnown: boolean } {
  const read = useRead(
    async (signal): Promise<OfAgent> => {
      if (name === undefined) return {};
      const path = `${place.api}/agents/${encodeURIComponent(name)}`;
      const { spec, identity } = await call<Agent>('GET', path, { signal });
      const capUsd = (spec as { spendCaps?: { maxPerSessionUsd?: string } }).spendCaps?.maxPerSessionUsd;
      const displayName = identity?.displayName;
      return { ...(capUsd !== undefined && { capUsd }), ...(displayName !== undefined && { displayName }) };
    },
    `agent ${name ?? ''}`,
  );
  useLive(['agents'], read.again, (change) => change.id === name);
  return { isKnown: read.value !== undefined || read.error !== undefined, ...read.value };
}

const origins = {
  event: 'an event',
  manual: 'hand',
  session: 'another session',
  replacement: 'replacing another session',
} as const;

const queuePollMs = 5_000;
/** What it waits for, and its number in the queue, move with the clock and with others: nothing tells of that. */
function useQueue(session: WholeSession | undefined, again: () => void): void {
  const isWaiting = session?.live === true && !session.loaded && session.inbox.pending > 0;
  useEffect(() => {
    if (!isWaiting) return undefined;
    const look = (): void => {
      if (!document.hidden) again();
    };
    const timer = setInterval(look, queuePollMs);
    return () => clearInterval(timer);
  }, [isWaiting]);
}

export function Page(props: PageProps): Markup {
  const { place, id } = props;
  const path = `${place.api}/sessions/${encodeURIComponent(id)}`;
  const read = useRead((signal) => call<WholeSession>('GET', path, { signal }), path);
  useLive(['sessions'], read.again, (change) => change.id === id);
  // What it is bound to, and its checks, change by others as well: by an event each time.
  useLive([], read.again, undefined, ['events']);
  const session = read.value;
  useQueue(session, read.again);
  const { isKnown, ...ofAgent } = useAgent(place, session?.agent);
  const failure = read.error === undefined ? null : html`<${Failure} error=${read.error} />`;
  // All of its head at once: nothing of it moves when its agent is known.
  if (session === undefined || !isKnown)
    return html`<section data-testid="page-session"><h1>Session</h1>${failure ?? html`<p class="empty">Reading…</p>`}</section>`;
  return html`<section data-testid="page-session">
    <div class="title"><h1>${session.displayTitle}</h1><${Command} command=${shell`svc session show ${session.id}`} /></div>
    ${failure}
    <${Head} place=${place} found=${{ session, ...ofAgent }} />
    <${Controls} place=${place} session=${session} path=${path} again=${read.again} />
    <div class="talk"><${TranscriptLog} key=${id} place=${place} path=${path} id=${id} isLive=${session.live} />
      <${Asks} place=${place} session=${session} path=${path} again=${read.again} />
      <${Say} place=${place} session=${session} path=${path} /></div>
    <${Holdings} place=${place} session=${session} />
    <${Files} path=${path} id=${session.id} mark=${session.turns} />
    <${Diff} path=${path} id=${session.id} mark=${session.turns} />
  </section>`;
}

function stateText({ state, reason, reasonText, position, loaded, wire }: Session): string {
  const why = reason === undefined ? '' : `: ${reasonText ?? reason}`;
  // One that rests may have given its place up, and is launched again for its next message.
  const rests = state === 'idle' && !loaded ? ', not loaded' : '';
  const cut = wire === 'lost' ? ', its wire is lost' : '';
  return `${state.replaceAll('_', ' ')}${rests}${cut}${position === undefined ? '' : `, number ${position} in the queue`}${why}`;
}

function Head(props: { readonly place: Place; readonly found: Found }): Markup {
  const { place, found } = props;
  const { session, capUsd, displayName } = found;
  const { usage, inbox, lastTurn } = session;
  const spent = Number(usage.costUsd);
  const cost = `${capUsd === undefined ? usd(usage.costUsd) : sumUsd(usage.costUsd)}${capUsd === undefined ? '' : ` of $${capUsd}`}`;
  const kind = session.state === 'running' ? 'good' : kindOf(session.state);
  const waiting = inbox.pending + inbox.inFlight;
  return html`<dl class="facts">
    <div><dt>Agent</dt><dd><a href=${pageHref(place, 'agents', session.agent)}>${session.agent}</a> r${session.revision}${displayName === undefined || displayName === session.agent ? null : html` <span data-testid="session-agent-name">${displayName}</span>`}</dd></div>
    <div><dt>State</dt><dd><${Status} kind=${kind} text=${stateText(session)} testId="session-state" /></dd></div>
    <div><dt>Turn</dt><dd data-testid="session-turn">${lastTurn === undefined ? 'none yet' : html`<span>${session.turns} ${lastTurn.state} <${Elapsed} since=${lastTurn.startedAt} until=${lastTurn.endedAt} /></span>`}${lastTurn?.error === undefined ? null : html` <small>${lastTurn.error}</small>`}</dd></div>
    <div><dt>Cost</dt><dd><span data-testid="session-cost">${cost}</span>
      ${capUsd === undefined ? null : html`<meter min="0" max=${capUsd} value=${spent} aria-label=${`spent ${cost}`}></meter>`}
      ${usage.unpricedCalls === 0 ? null : html` <small>${usage.unpricedCalls} call${usage.unpricedCalls === 1 ? '' : 's'} of unknown price</small>`}</dd></div>
    <div><dt>Started by</dt><dd>${session.eventId === undefined ? origins[session.origin] : html`<a href=${pageHref(place, 'events', session.eventId)}>event ${session.eventId.slice(0, 8)} (why)</a>`}
      ${session.parentId === undefined ? null : html` <a href=${pageHref(place, 'sessions', session.parentId)}>session ${session.parentId.slice(0, 8)}</a>`}</dd></div>
    ${session.bindings.length === 0 ? null : html`<div><dt>Bound</dt><dd data-testid="session-bound"><${Bound} place=${place} session=${session} /></dd></div>`}
    <div><dt>Inbox</dt><dd>${waiting === 0 ? 'empty' : `${waiting} wait${waiting === 1 ? 's' : ''}`}${inbox.failed === 0 ? '' : `, ${inbox.failed} not delivered`}</dd></div>
    <div><dt>Tokens</dt><dd>${tokens(usage.inputTokens)} in, ${tokens(usage.outputTokens)} out</dd></div>
    <div><dt>Created</dt><dd><${Time} at=${session.createdAt} /></dd></div>
    ${session.endedAt === undefined ? null : html`<div><dt>Ended</dt><dd><${Time} at=${session.endedAt} /></dd></div>`}
  </dl>`;
}

/** Targets of bindings that the head names; the others stand with what it holds. */
const boundMost = 3;

function Bound({ place, session }: { readonly place: Place; readonly session: WholeSession }): Markup {
  const all = `${pageHref(place, 'bindings')}?session=${session.id}`;
  const { bindings } = session;
  return html`<span>${bindings.slice(0, boundMost).map(({ target }, index) => html`${index === 0 ? '' : ', '}<a href=${all} title=${target.type}>${target.key}</a>`)}${bindings.length > boundMost ? html`, <a href=${all}>${bindings.length - boundMost} more</a>` : null}</span>`;
}

interface Part {
  readonly place: Place;
  readonly session: WholeSession;
  readonly path: string;
  readonly again: () => void;
}

function Controls({ place, session, path, again }: Part): Markup {
  const { id, live, state } = session;
  if (!live) return html`<p class="empty">It has ended; what it said stays.</p>`;
  const runs = ['running', 'waiting_permission', 'interrupting'].includes(state);
  const stop = async (): Promise<void> => {
    await call('POST', `${path}/interrupt`);
    again();
  };
  const archive = async (reason?: string): Promise<void> => {
    await call('POST', `${path}/archive`, because(reason));
    again();
  };
  return html`<div class="actions">
    ${runs ? html`<${Action} place=${place} label="Stop turn" testId="stop-turn" needs="sessions:control" command=${shell`svc session interrupt ${id}`} run=${stop} />` : null}
    <${Action} place=${place} label="Archive" testId="archive" needs="sessions:control" command=${shell`svc session archive ${id}`} run=${archive}
      confirm=${asked('Archive the session', 'POST', `${path}/archive`, {})} />
  </div>`;
}

/** What its harness asks, at the end of what it said. */
function Asks({ place, session, path, again }: Part): Markup | null {
  const answer = (id: string, decision: string) => async (): Promise<void> => {
    await call('POST', `${path}/permissions/${id}`, { body: { decision } });
    again();
  };
  if (session.permissions.length === 0) return null;
  const button = (id: string, label: string, testId: string, decision: string, command: string) =>
    html`<${Action} place=${place} label=${label} testId=${testId} needs="sessions:control" primary=${decision === 'allow'} command=${`svc session ${command}`} run=${answer(id, decision)} />`;
  return html`<div class="asks" role="group" aria-label="Questions">
    ${session.permissions.map(
      ({
        id,
        title,
        request,
        createdAt,
      }) => html`<div class="notice ask" data-testid=${`ask-${id}`}><p><${Clock} at=${createdAt} withSeconds=${false} /> <strong>asks</strong> ${title}</p>
        <div class="actions">${button(id, 'Allow', 'allow', 'allow', `allow ${session.id} ${id}`)}
          ${button(id, 'Always allow', 'allow-always', 'allow_always', `allow ${session.id} ${id} --always`)}
          ${button(id, 'Reject', 'reject', 'reject', `reject ${session.id} ${id}`)}</div>
        <details><summary>What exactly</summary><pre>${JSON.stringify(request, null, 2)}</pre></details></div>`,
    )}
  </div>`;
}

function Say({ place, session, path }: Pick<Part, 'place' | 'session' | 'path'>): Markup | null {
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const box = useRef<HTMLTextAreaElement>(null);
  if (!session.live) return null;
  const isAllowed = place.permissions.includes('sessions:control');
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (text.trim() === '' || busy) return;
    setBusy(true);
    setError(undefined);
    // The button has nothing to send then, and a disabled one loses the focus.
    box.current?.focus();
    try {
      await call<Message>('POST', `${path}/messages`, { body: { text } });
      // What was typed on meanwhile is the next one.
      setText((typed) => (typed.startsWith(text) ? typed.slice(text.length) : typed));
    } catch (caught) {
      setError(caught);
    }
    setBusy(false);
  };
  const type = (event: Event): void => setText((event.currentTarget as HTMLTextAreaElement).value);
  const keys = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send(event);
  };
  return html`<form onSubmit=${send} class="say">
    <${Field} label="Say" hint=${isAllowed ? 'It interrupts the turn that runs. Ctrl-Enter sends.' : 'needs sessions:control'}>
      <textarea ref=${box} data-testid="say" rows="2" maxlength="100000" value=${text} onInput=${type} onKeyDown=${keys} disabled=${!isAllowed}></textarea><//>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <p><button type="submit" data-testid="say-send" disabled=${!isAllowed || busy || text.trim() === ''} title=${shell`svc session send ${session.id} TEXT`}>Send</button></p>
  </form>`;
}

function stageText({ stage, name, ms, cache }: NonNullable<WholeSession['provisioning']>[number]): string {
  const what = name === undefined ? stage : `${stage} ${name}`;
  return `${what} ${duration(ms)}${cache === undefined ? '' : ` (cache ${cache})`}`;
}

function Holdings({ place, session }: Pick<Part, 'place' | 'session'>): Markup | null {
  const { bindings, checks, claims } = session;
  const notEnforced = session.sandbox?.['notEnforced'];
  const lacking = Array.isArray(notEnforced) ? notEnforced.map(String) : [];
  const stages = session.provisioning ?? [];
  const denied = session.egress?.denied ?? [];
  const lines = bindings.length + checks.length + claims.length + denied.length + (lacking.length === 0 ? 0 : 1);
  if (lines + stages.length === 0) return null;
  return html`<details><summary>Holds and limits ${lines}</summary><ul>
    ${claims.map((claim) => html`<li>${claim.kind === 'slot' ? 'the slot of its agent' : `thread ${claim.key ?? ''}`}</li>`)}
    ${bindings.map(({ id, target }) => html`<li>bound to <a href=${`${pageHref(place, 'bindings')}?session=${session.id}`}>${target.type} ${target.key}</a> <small>${id}</small></li>`)}
    ${checks.map(({ name, state, conclusion }) => html`<li>check ${name}: ${conclusion ?? state}</li>`)}
    ${lacking.length === 0 ? null : html`<li>its sandbox does not enforce ${lacking.join(', ')}</li>`}
    ${denied.map(({ host, count }) => html`<li data-testid="denied"><code>${host}</code> refused ${count === 1 ? 'once' : `${count} times`}: it is not allowed, or a private address (<a href=${pageHref(place, 'settings')}>what is</a>)</li>`)}
    ${stages.length === 0 ? null : html`<li data-testid="stages">its latest launch: ${stages.map(stageText).join(', ')}</li>`}
  </ul></details>`;
}
