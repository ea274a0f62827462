// A session as it goes on: its messages and its changes of state (docs/reference/http-api.md#streams). A notification wakes, the rows
// are the truth; a watcher holds no connection between two looks. Ids are messages' numbers, by which a reader resumes.

import { setTimeout as sleep } from 'node:timers/promises';
import { haveWritersEnded, markWriters } from '../../adapters/store/sessions/message-order.ts';
import {
  listMessages,
  type MessageRow,
  sessionChannel,
  sessionState,
  type SessionStateRow,
} from '../../adapters/store/sessions/session-reads.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { FlowContext } from '../context.ts';

export type SessionEvent =
  | { readonly id: string; readonly event: 'message'; readonly data: MessageRow }
  | { readonly id: string; readonly event: 'state'; readonly data: SessionStateRow };

/** How long a change that nobody tells goes unnoticed: the message of an event, whose routing tells hosts alone. */
const pollMs = 1_000;
/** Looks are at least so far apart, however often it is told of changes. */
const restMs = 25;
const pageRows = 100;
/** How many messages are told before it is asked whether all that come before them have been. */
const markRows = 20;

export interface WatchInput {
  readonly projectId: string;
  readonly sessionId: string;
  /** Number of the last message that the reader has; 0: it begins with the first. */
  readonly after: number;
  readonly signal: AbortSignal;
}

/** First the state as it is, then each message and each further state. Ends with the session, or with the signal. */
export async function* watchSession(ctx: FlowContext, input: WatchInput): AsyncGenerator<SessionEvent> {
  const db = ctx.db.looks;
  const { projectId, sessionId, signal } = input;
  let wake: () => void = () => undefined;
  const stop = await db.listen(sessionChannel, (payload) => {
    if (payload === null || payload === sessionId) wake();
  });
  const reader = createReader(input.after);
  let told = '';
  try {
    while (!signal.aborted) {
      const awake = new Promise<void>((resolve) => (wake = resolve));
      // The state before the messages: whatever was said before an end is read after it.
      const state = await sessionState(db, projectId, sessionId);
      const isNews = state !== undefined && told !== toldOf(state);
      if (state?.live && isNews) yield reader.tell(state);
      for (let more = true; more && !signal.aborted; ) {
        const isWhole = await reader.isWhole(db);
        const page = await listMessages(db, sessionId, { order: 'asc', ...reader.next(), limit: pageRows });
        yield* reader.tellAll(page.rows);
        more = page.more;
        if (isWhole) reader.pass(more ? page.rows.at(-1)?.seq : undefined);
        await reader.mark(db);
      }
      if (state === undefined) return;
      if (!state.live) {
        yield reader.tell(state);
        return;
      }
      told = toldOf(state);
      await sleep(restMs, undefined, { signal }).catch(() => undefined);
      await Promise.race([awake, sleep(pollMs, undefined, { signal }).catch(() => undefined)]);
    }
  } finally {
    await stop();
  }
}

/** What of a state is news where it changes; a place in a queue is not. */
const toldOf = ({ state, reason, loaded }: SessionStateRow): string => `${state} ${reason} ${loaded}`;

/**
 * What of the transcript has been told, and where to look for the rest. Numbers are drawn before they commit: a later one
 * may be seen first, so that no message is passed before all that may come before it are there.
 */
function createReader(begin: number) {
  /** All up to here has been told. */
  let whole = begin;
  /** The numbers told beyond, ascending. */
  let beyond: number[] = [];
  /** Nothing up to the number can come any more once those have ended who wrote then. */
  let marked: { readonly writers: string; readonly upTo: number } | undefined;
  const last = (): string => String(beyond.at(-1) ?? whole);
  return {
    next: (): { readonly after: number; readonly except: readonly number[] } => ({ after: whole, except: beyond }),
    /** Whether a page that is read from now on has all up to the mark. */
    isWhole: async (sql: Sql): Promise<boolean> =>
      marked !== undefined && (await haveWritersEnded(sql, marked.writers)),
    /** Passes the mark, unless a page ended before it; `end`: the last number of such a page. */
    pass(end = Number.POSITIVE_INFINITY): void {
      if (marked === undefined || end < marked.upTo) return;
      whole = marked.upTo;
      beyond = beyond.filter((seq) => seq > whole);
      marked = undefined;
    },
    async mark(sql: Sql): Promise<void> {
      const upTo = beyond.at(-1);
      if (marked !== undefined || upTo === undefined || beyond.length < markRows) return;
      marked = { writers: await markWriters(sql), upTo };
    },
    *tellAll(rows: readonly MessageRow[]): Generator<SessionEvent> {
      for (const row of rows) {
        const isLate = row.seq < (beyond.at(-1) ?? whole);
        beyond.push(row.seq);
        if (isLate) beyond.sort((a, b) => a - b);
        yield { id: last(), event: 'message', data: row };
      }
    },
    tell: (state: SessionStateRow): SessionEvent => ({ id: last(), event: 'state', data: state }),
  };
}
