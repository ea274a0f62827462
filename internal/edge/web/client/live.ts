// What changes, as it happens: one stream of ids for all tabs of a browser on one project. The tab that holds the lock reads
// it and tells the others; whoever is hidden lets go of the lock, so that a browser nobody looks at reads nothing. What
// changed is read again from the API: the stream carries no data. Silence of twenty seconds is said, and so is a lost
// session; what was read last stays on the page.

import { useEffect, useRef, useState } from 'preact/hooks';
import { fetchApi, quietMs } from './api.ts';

export type Topic = 'events' | 'sessions' | 'reconciles' | 'agents' | 'connections';
export type LiveState = 'live' | 'stale' | 'signed-out';
export interface Change {
  readonly topic: Topic;
  readonly id: string;
}
/** `reset`: something may have been missed. */
type News = Change | 'reset';

/** Between tabs. */
type Told =
  | { readonly kind: 'heard'; readonly lastId: string }
  | { readonly kind: 'news'; readonly news: News; readonly lastId: string }
  | { readonly kind: 'lost' | 'signed-out' | 'ask' };

/** Without a word for so long, what is shown may be old: the service says something every 15 s. */
const staleMs = 20_000;
const afterMs = { quiet: 700, most: 5_000 };
const againMs = { first: 250, most: 2_000 };
const topics: readonly Topic[] = ['events', 'sessions', 'reconciles', 'agents', 'connections'];

let state: LiveState = 'stale';
let isKnown = false;
const stateReaders = new Set<() => void>();
const readers = new Set<(news: News) => void>();
let heardAt = 0;
let lastId = '';
let channel: BroadcastChannel | undefined;
let stopLeading: (() => void) | undefined;
/** A stream was read before. */
let hasRead = false;
let api = '';
/** When the page began to read, by this browser's clock: the first stream tells what has changed since. */
const begunAt = performance.timeOrigin;

function setState(next: LiveState): void {
  isKnown = true;
  if (state === next) return;
  state = next;
  for (const reader of stateReaders) reader();
}

function take(told: Told): void {
  if (told.kind === 'heard' || told.kind === 'news') {
    const wasLost = state === 'stale' && heardAt !== 0;
    heardAt = Date.now();
    lastId = told.lastId;
    setState('live');
    if (told.kind === 'news') for (const reader of readers) reader(told.news);
    // Tabs that slept may have missed what the reading one was told.
    else if (wasLost) for (const reader of readers) reader('reset');
  } else if (told.kind === 'lost') setState('stale');
  else if (told.kind === 'signed-out') setState('signed-out');
  else if (stopLeading !== undefined) channel?.postMessage({ kind: 'heard', lastId } satisfies Told);
}

function tell(told: Told): void {
  channel?.postMessage(told);
  take(told);
}

/** One message of the stream, its lines joined. */
function readMessage(text: string): boolean {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, name = '', value = ''] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name !== '') fields.set(name, value);
  }
  const id = fields.get('id') ?? lastId;
  const event = fields.get('event');
  if (event === 'signed-out') {
    tell({ kind: 'signed-out' });
    return false;
  }
  if (event === 'reset') tell({ kind: 'news', news: 'reset', lastId: id });
  else if (fields.has('data')) {
    const { topic, id: changed } = JSON.parse(fields.get('data') ?? '{}') as Change;
    tell({ kind: 'news', news: { topic, id: changed }, lastId: id });
  } else tell({ kind: 'heard', lastId: id });
  return true;
}

/** Reads the stream once, until it ends. False: this session does not read any more. */
async function readStream(signal: AbortSignal): Promise<boolean> {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), staleMs);
  const since = lastId === '' ? `&since=${encodeURIComponent(new Date(begunAt).toISOString())}` : '';
  try {
    const response = await fetchApi(`${api}/stream?topics=${topics.join(',')}${since}`, {
      signal: AbortSignal.any([signal, silence.signal]),
      headers: lastId === '' ? {} : { 'last-event-id': lastId },
    });
    if ([401, 403, 404].includes(response.status)) {
      tell({ kind: 'signed-out' });
      return false;
    }
    if (!response.ok || response.body === null) throw new Error(`the stream answered ${response.status}`);
    // Whoever ended the last one may have come back as another version.
    if (hasRead) void checkVersion();
    hasRead = true;
    let rest = '';
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), staleMs);
      const parts = `${rest}${read.value}`.split('\n\n');
      rest = parts.pop() ?? '';
      for (const part of parts) if (!readMessage(part)) return false;
    }
    return true;
  } finally {
    clearTimeout(timer);
  }
}

/** Reads the stream, again when it ends, until the signal aborts or the session ends. */
async function lead(signal: AbortSignal): Promise<void> {
  let delay = againMs.first;
  while (!signal.aborted) {
    const since = Date.now();
    const isOver = await readStream(signal).then(
      (goesOn) => !goesOn,
      () => {
        if (!signal.aborted) void checkVersion();
        return false;
      },
    );
    if (isOver || signal.aborted) return;
    if (Date.now() - since > againMs.most) delay = againMs.first;
    else if (delay > againMs.first) tell({ kind: 'lost' });
    await new Promise((resolve) => setTimeout(resolve, delay));
    delay = Math.min(delay * 2, againMs.most);
  }
}

function follow(): void {
  if (stopLeading !== undefined || document.hidden) return;
  const stop = new AbortController();
  stopLeading = () => {
    stop.abort();
    stopLeading = undefined;
  };
  navigator.locks
    .request(`svc.live ${api}`, { signal: stop.signal }, async () =>
      state === 'signed-out' ? undefined : lead(stop.signal),
    )
    .catch(() => undefined);
}

function onVisibility(): void {
  if (document.hidden) return stopLeading?.();
  channel?.postMessage({ kind: 'ask' } satisfies Told);
  follow();
  // Whatever was told while nobody looked has been missed.
  for (const reader of readers) reader('reset');
}

let newer = false;
const newerReaders = new Set<() => void>();

/** Another version of the service answers when the address of this script is gone. */
async function checkVersion(): Promise<void> {
  if (newer) return;
  const response = await fetch(import.meta.url, { method: 'HEAD', cache: 'no-store' }).catch(() => undefined);
  if (response?.status !== 404) return;
  newer = true;
  for (const reader of newerReaders) reader();
}

/** Begins to follow a project, once for a document and project. */
export function startLive(projectApi: string): void {
  if (api === projectApi) return;
  stopLeading?.();
  channel?.close();
  api = projectApi;
  lastId = '';
  heardAt = 0;
  channel = new BroadcastChannel(`svc.live ${api}`);
  channel.addEventListener('message', (event: MessageEvent<Told>) => take(event.data));
  channel.postMessage({ kind: 'ask' } satisfies Told);
  const begun = performance.now();
  // What the page shows goes first; what changes meanwhile the stream tells afterwards.
  const begin = (): void => {
    if (api !== projectApi) return;
    if (quietMs() > afterMs.quiet || performance.now() - begun > afterMs.most) follow();
    else setTimeout(begin, 100);
  };
  begin();
}

document.addEventListener('visibilitychange', onVisibility);
addEventListener('storage', ({ key }) => {
  // Another tab has signed in.
  if (key !== 'svc.key' || state !== 'signed-out') return;
  setState('stale');
  stopLeading?.();
  follow();
});
addEventListener('pagehide', () => stopLeading?.());
setInterval(() => {
  if (heardAt !== 0 && state === 'live' && Date.now() - heardAt > staleMs) setState('stale');
}, 1_000);

function useSignal<T>(set: Set<() => void>, read: () => T): T {
  const [value, setValue] = useState(read);
  useEffect(() => {
    const look = (): void => setValue(read());
    set.add(look);
    look();
    return () => void set.delete(look);
  }, []);
  return value;
}

export const useLiveState = (): { readonly state: LiveState; readonly isKnown: boolean; readonly heardAt: number } => {
  const told = useSignal(stateReaders, () => state);
  return { state: told, isKnown, heardAt };
};
export const useNewer = (): boolean => useSignal(newerReaders, () => newer);

/** Between two readings of one page, however much changes, and of what costs more to read than it is worth. */
const restMs = 500;
const slowMs = 5_000;

/**
 * Calls `again` when something of the topics changes, at once and then at most every half second, for `slowly` every five
 * seconds; `wants` passes over what a page does not show.
 */
export function useLive(
  of: readonly Topic[],
  again: () => void,
  wants: (change: Change) => boolean = () => true,
  slowly: readonly Topic[] = [],
): void {
  const ref = useRef(again);
  ref.current = again;
  const wantsRef = useRef(wants);
  wantsRef.current = wants;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let slow: ReturnType<typeof setTimeout> | undefined;
    let slowAt = -slowMs;
    let isDue = false;
    const run = (): void => {
      isDue = false;
      timer = setTimeout(() => {
        timer = undefined;
        if (isDue) run();
      }, restMs);
      ref.current();
    };
    const ask = (): void => {
      slow = undefined;
      slowAt = performance.now();
      reader('reset');
    };
    const reader = (news: News): void => {
      if (document.hidden) return;
      if (news !== 'reset' && slowly.includes(news.topic) && wantsRef.current(news)) {
        slow ??= setTimeout(ask, slowAt + slowMs - performance.now());
        return;
      }
      if (news !== 'reset' && (!of.includes(news.topic) || !wantsRef.current(news))) return;
      if (timer === undefined) run();
      else isDue = true;
    };
    readers.add(reader);
    return () => {
      clearTimeout(timer);
      clearTimeout(slow);
      readers.delete(reader);
    };
  }, []);
}

/** Reads what no topic tells of again every five seconds, while somebody looks and this browser is signed in. */
export function usePolled(again: () => void, isPolled = true): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    if (!isPolled) return undefined;
    const look = (): void => {
      if (!document.hidden && state !== 'signed-out') latest.current();
    };
    const timer = setInterval(look, slowMs);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [isPolled]);
}

const dueMs = { every: 5_000, slack: 1_000 } as const;
/** Reads again once a time is over at which something changes by the clock, and nothing tells of it. In milliseconds. */
export function useDue(at: number, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const look = (): void => {
      if (!document.hidden && Date.now() > at + dueMs.slack) latest.current();
    };
    const timer = setInterval(look, dueMs.every);
    return () => clearInterval(timer);
  }, [at]);
}
