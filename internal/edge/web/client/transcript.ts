// A transcript: its end first, earlier messages when they are asked for, a window of them in the document however many there
// are. It follows at its end alone: who has scrolled up stays where they are, and is told how many came.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Message } from '../../../../schemas/api/sessions.ts';
import { call, isPassing } from './api.ts';
import { beginning, Clock, duration, Failure, html, type Markup, Status } from './kit.ts';
import { useLive, useLiveState } from './live.ts';
import { pageHref, type Place } from './pages.ts';

const pageSize = 100;
/** Messages in the document at a time. */
const windowSize = 120;
/** Numbers are drawn before they commit: what stands so close below the newest may come after it. */
const overlap = 3;
/** Between two readings where there is no stream that tells what was said. */
const stalePollMs = 3_000;
/** What came is said to who listens, together. */
const saidMs = 2_000;

interface Page {
  readonly items: readonly Message[];
  readonly nextCursor: string | null;
}

interface Props {
  readonly place: Place;
  /** Of the session in the API. */
  readonly path: string;
  readonly id: string;
  readonly isLive: boolean;
}

/** Reads on when something is told, by the clock where nothing tells, and at the end. */
function useReading({ id, isLive }: Props, isRead: boolean, readNew: () => void): void {
  const { state } = useLiveState();
  useLive(['sessions'], readNew, (change) => change.id === id);
  useEffect(() => {
    if (!isLive || state === 'live') return undefined;
    const look = (): void => {
      if (!document.hidden) readNew();
    };
    const timer = setInterval(look, stalePollMs);
    return () => clearInterval(timer);
  }, [isLive, state]);
  // Its end may have brought a last word.
  useEffect(() => {
    if (!isLive && isRead) readNew();
  }, [isLive]);
}

/** Reads on by the clock where the service did not answer. */
function useAgain(error: unknown, readOn: () => void): void {
  useEffect(() => {
    if (!isPassing(error)) return undefined;
    const timer = setTimeout(readOn, stalePollMs);
    return () => clearTimeout(timer);
  }, [error]);
}

/** What was read, in order; `after`: from where on something may be new. */
function useKnown() {
  const [messages, setMessages] = useState<readonly Message[]>([]);
  /** How many of them stand before what was read first. */
  const [older, setOlder] = useState(0);
  /** The highest numbers that were read, ascending. */
  const recent = useRef<readonly number[]>([]);
  const after = (): number => (recent.current.length < overlap ? 0 : (recent.current[0] ?? 0));
  const add = (items: readonly Message[]): void => {
    const fresh = items.filter(({ seq }) => seq > after() && !recent.current.includes(seq));
    if (fresh.length === 0) return;
    recent.current = [...recent.current, ...fresh.map(({ seq }) => seq)].sort((a, b) => a - b).slice(-overlap);
    setMessages((known) => [...known, ...fresh].sort((a, b) => a.seq - b.seq));
  };
  const addOlder = (items: readonly Message[]): void => {
    setMessages((known) => [...items, ...known]);
    setOlder((known) => known + items.length);
  };
  return { messages, older, after, add, addOlder, isEmpty: () => recent.current.length === 0 };
}

/** All that was read of a transcript, in order, and how to read on at both of its ends. */
function useMessages(props: Props) {
  const { path } = props;
  const { messages, older, after, add, addOlder, isEmpty } = useKnown();
  const [before, setBefore] = useState<string | null>(null);
  const [isRead, setRead] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const busy = useRef<'no' | 'yes' | 'again'>('no');
  const readNew = async (): Promise<void> => {
    if (busy.current !== 'no') {
      busy.current = 'again';
      return;
    }
    busy.current = 'yes';
    try {
      for (let more = true; more; ) {
        const from = after();
        const page = await call<Page>('GET', `${path}/messages?limit=200&after=${from}`);
        add(page.items);
        more = page.nextCursor !== null && after() > from;
      }
      setError(undefined);
    } catch (caught) {
      setError(caught);
    }
    const isDue = (busy.current as string) === 'again';
    busy.current = 'no';
    if (isDue) void readNew();
  };
  const readOlder = async (): Promise<number> => {
    if (before === null) return 0;
    const cursor = before;
    setBefore(null);
    try {
      const query = `order=desc&limit=${pageSize}&cursor=${encodeURIComponent(cursor)}`;
      const page = await call<Page>('GET', `${path}/messages?${query}`);
      addOlder(page.items.toReversed());
      setBefore(page.nextCursor);
      return page.items.length;
    } catch (caught) {
      setError(caught);
      setBefore(cursor);
      return 0;
    }
  };
  const readEnd = (): void => {
    busy.current = 'yes';
    call<Page>('GET', `${path}/messages?order=desc&limit=${pageSize}`)
      .then((page) => {
        add(page.items.toReversed());
        setBefore(page.nextCursor);
        setRead(true);
        setError(undefined);
      }, setError)
      .finally(() => {
        const isDue = busy.current === 'again';
        busy.current = 'no';
        if (isDue) readOn();
      });
  };
  // What is new came after the end: where nothing of that has been read, it is read first.
  const readOn = (): void => {
    if (busy.current !== 'no') busy.current = 'again';
    else if (isEmpty()) readEnd();
    else void readNew();
  };
  useEffect(readEnd, [path]);
  useAgain(error, readOn);
  useReading(props, isRead, readOn);
  return { messages, older, hasOlder: before !== null, readOlder, isRead, error };
}

type Box = { readonly current: HTMLElement | null };

/** A message of a box, and how far below the top of the screen it is. */
const topOf = (box: Box, id: string): number | undefined =>
  box.current?.querySelector(`[data-testid="${id}"]`)?.getBoundingClientRect().top;

/** Moves a window of messages; what was in sight stays where it is, whatever comes before it. */
function useMoving(box: Box) {
  const held = useRef<{ readonly id: string; readonly top: number } | undefined>(undefined);
  const keep = (): void => {
    const top = held.current === undefined ? undefined : topOf(box, held.current.id);
    if (held.current !== undefined && top !== undefined) box.current?.scrollBy(0, top - held.current.top);
  };
  useLayoutEffect(keep);
  return (move: () => unknown) => async (): Promise<void> => {
    const edge = box.current?.getBoundingClientRect().top ?? 0;
    const all = [...(box.current?.querySelectorAll<HTMLElement>('.message') ?? [])];
    const first = all.find((one) => one.getBoundingClientRect().bottom > edge);
    if (first !== undefined)
      held.current = { id: first.dataset['testid'] ?? '', top: first.getBoundingClientRect().top };
    // The button that was pressed may go with what it brings: the focus stays with what is read.
    box.current?.focus({ preventScroll: true });
    await move();
    // The browser may have kept it in its place as well.
    requestAnimationFrame(() => {
      keep();
      held.current = undefined;
    });
  };
}

/** The same to the end, which is where one wants to be then. */
const toEnd = (box: Box, jump: () => void) => (): void => {
  box.current?.focus({ preventScroll: true });
  jump();
};

export function TranscriptLog(props: Props): Markup {
  const { messages, older, hasOlder, readOlder, isRead, error } = useMessages(props);
  /** What is read of earlier is nothing that has come. */
  const come = messages.length - older;
  const [follows, setFollows] = useState(true);
  /** Index behind the last message of the window; undefined: the end. */
  const [until, setUntil] = useState<number | undefined>(undefined);
  const [seen, setSeen] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const moving = useMoving(box);
  const end = follows ? messages.length : Math.min(until ?? messages.length, messages.length);
  const start = Math.max(0, end - windowSize);
  const shown = messages.slice(start, end);
  const { results, before } = useMemo(() => callsIn(messages), [messages]);
  // What a call gave stands with the call, where that is in sight, and one that was told again stands there as it was told last.
  const told = new Set(shown.flatMap(({ seq }) => [results.get(seq)?.seq ?? [], before.get(seq)?.seq ?? []].flat()));
  const waiting = follows ? 0 : Math.max(0, come - seen);
  useLayoutEffect(() => {
    const element = box.current;
    if (follows && element !== null) element.scrollTop = element.scrollHeight;
  }, [messages.length, follows]);
  // A window that gets smaller is still at its end.
  useEffect(() => {
    const element = box.current;
    if (!follows || element === null) return undefined;
    const observer = new ResizeObserver(() => element.scrollTo(0, element.scrollHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [follows]);
  /** Where the reader was when they stayed: only going on from there to the end follows again. */
  const stayedAt = useRef(0);
  const stay = (): void => {
    stayedAt.current = box.current?.scrollTop ?? 0;
    setFollows(false);
    setUntil(messages.length);
    setSeen(come);
  };
  const jump = (): void => {
    setFollows(true);
    setUntil(undefined);
  };
  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    if (follows && !isAtEnd) stay();
    else if (!follows && isAtEnd && end >= messages.length && element.scrollTop > stayedAt.current) jump();
  };
  const earlier = async (): Promise<void> => {
    if (follows) stay();
    // What stood in the window has moved on by what was read before it, and stays in sight behind that.
    const read = start > 0 ? 0 : await readOlder();
    if (start > 0 || read > 0) setUntil(Math.max(windowSize, end + read - pageSize));
  };
  const later = (): void => setUntil(Math.min(messages.length, end + pageSize));
  const toggle = (event: Event): void => ((event.currentTarget as HTMLInputElement).checked ? jump() : stay());
  return html`<div class="transcript">
    <div class="actions"><h2>Transcript</h2>
      <label><input type="checkbox" data-testid="follow" checked=${follows} onChange=${toggle} /> following</label>
      ${follows ? null : html`<button type="button" class="small" data-testid="jump-end" onClick=${toEnd(box, jump)}>${waiting === 0 ? 'To the end' : `${waiting} new`}</button>`}
    </div>
    ${error === undefined ? null : html`<${Failure} error=${error} />`}
    <${Said} count=${come} isRead=${isRead} />
    <div class="log" ref=${box} role="log" aria-live="off" aria-label="Transcript" tabIndex=${0} data-testid="transcript" onScroll=${onScroll}>
      ${start > 0 || hasOlder ? html`<p><button type="button" class="small" data-testid="page-older" onClick=${moving(earlier)}>Earlier</button></p>` : null}
      ${isRead && messages.length === 0 ? html`<p class="empty">Nothing has been said yet.</p>` : null}
      ${shown.map((message, index) => (told.has(message.seq) ? null : html`<${Entry} key=${message.seq} place=${props.place} message=${message} before=${shown[index - 1]} result=${results.get(message.seq)} begun=${before.get(message.seq)} />`))}
      ${end < messages.length ? html`<p><button type="button" class="small" data-testid="page-newer" onClick=${moving(later)}>Later</button></p>` : null}
    </div></div>`;
}

/** Tells who listens how much came, every two seconds at most. */
function Said(props: { readonly count: number; readonly isRead: boolean }): Markup {
  const [text, setText] = useState('');
  const told = useRef<number | undefined>(undefined);
  const count = useRef(props.count);
  count.current = props.count;
  useEffect(() => {
    if (!props.isRead) return undefined;
    told.current ??= count.current;
    const timer = setInterval(() => {
      const fresh = count.current - (told.current ?? 0);
      told.current = count.current;
      if (fresh > 0) setText(`${fresh} new ${fresh === 1 ? 'message' : 'messages'}`);
    }, saidMs);
    return () => clearInterval(timer);
  }, [props.isRead]);
  return html`<p class="unseen" role="status">${text}</p>`;
}

const folded = new Set(['tool_call', 'tool_result', 'thought', 'plan']);

const callOf = ({ detail }: Message): string | undefined =>
  (detail as { readonly callId?: string } | undefined)?.callId;

/**
 * What each call of a tool gave, and how it was told before what it is for was known, by the number of the call as it was told
 * last; an id is used again after a launch.
 */
function callsIn(messages: readonly Message[]) {
  const results = new Map<number, Message>();
  const before = new Map<number, Message>();
  const open = new Map<string, Message>();
  for (const message of messages) {
    const id = callOf(message);
    if (id === undefined) continue;
    const call = open.get(id);
    if (message.kind === 'tool_call') {
      if (call !== undefined) before.set(message.seq, call);
      open.set(id, message);
    } else if (message.kind === 'tool_result' && call !== undefined) {
      results.set(call.seq, message);
      open.delete(id);
    }
  }
  return { results, before };
}

const wholeText = ({ text, detail }: Message): string =>
  detail === undefined ? text : `${text}\n${JSON.stringify(detail, null, 2)}`;

/** Of kinds that the sender does not say already. */
const kinds: { readonly [kind: string]: string } = {
  text: '',
  message: '',
  prompt: '',
  tool_call: '',
  tool_result: 'result',
  permission: '',
};

/** Which event, person or session it comes from, beside what kind of sender that is. */
function Whose({ place, message }: { readonly place: Place; readonly message: Message }): Markup | null {
  const { eventId, delivery } = message;
  if (delivery === undefined) return null;
  const detail = Object(message.detail) as { readonly [name in 'event' | 'name' | 'agent' | 'sessionId']?: string };
  const { event, name, agent, sessionId } = detail;
  if (delivery.sender === 'event' && eventId !== undefined)
    return html` <a href=${pageHref(place, 'events', eventId)}>${event ?? eventId.slice(0, 13)}</a>`;
  if (delivery.sender === 'session' && sessionId !== undefined)
    return html` <a href=${pageHref(place, 'sessions', sessionId)}>${agent ?? sessionId.slice(0, 13)}</a>`;
  return name === undefined ? null : html` ${name}`;
}

function Entry(props: {
  readonly place: Place;
  readonly message: Message;
  readonly before: Message | undefined;
  readonly result: Message | undefined;
  /** The same call, as it was told before. */
  readonly begun: Message | undefined;
}): Markup {
  const { place, message, before, result, begun } = props;
  const { seq, role, kind, text, at, delivery } = message;
  const isGoingOn = before !== undefined && before.role === role && before.kind === kind && kind === 'text';
  // What it asks, as below where it is answered.
  const sender = kind === 'permission' ? 'asks' : delivery === undefined ? role : delivery.sender;
  const said = kinds[kind] ?? kind.replaceAll('_', ' ');
  const why = delivery?.reason === undefined ? '' : `: ${delivery.reason}`;
  const state =
    delivery === undefined || delivery.state === 'done' ? '' : ` (${delivery.state.replaceAll('_', ' ')}${why})`;
  const head = html`<p class="who">${isGoingOn ? null : html`<span><${Clock} at=${at} withSeconds=${false} /> <strong>${sender}</strong><${Whose} place=${place} message=${message} />${said === '' || said === sender ? '' : ` ${said}`}${state}</span>`}</p>`;
  const first = text.split('\n', 1)[0] ?? '';
  const body = folded.has(kind)
    ? html`<details><summary>${first === '' ? kind : beginning(first, 160)}${result === undefined ? null : html` <${Outcome} call=${begun ?? message} result=${result} />`}</summary><pre>${wholeText(message)}</pre>
        ${result === undefined ? null : html`<div data-testid=${`message-${result.seq}`}><pre>${wholeText(result)}</pre></div>`}</details>`
    : html`<pre>${text}</pre>`;
  return html`<div class=${`message ${role}`} data-testid=${`message-${seq}`}>${head}${body}</div>`;
}

/** How long a call took, and how it ended. */
function Outcome(props: { readonly call: Message; readonly result: Message }): Markup {
  const { call, result } = props;
  const isFailed = (result.detail as { readonly status?: string }).status === 'failed';
  return html`<span class="outcome">${duration(Math.max(0, Date.parse(result.at) - Date.parse(call.at)))} <${Status} kind=${isFailed ? 'bad' : 'good'} text=${isFailed ? 'failed' : 'ok'} /></span>`;
}
