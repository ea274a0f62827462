// What a conversation reads of its session's inbox (docs/reference/sessions.md#inbox). While the database is away nothing waits and
// nobody asks for a stop, since the lease tells soon enough.

import {
  interruptsBeside,
  isStopAsked,
  type WaitingMessage,
  waitingMax,
  waitingMessages,
} from '../../adapters/store/sessions/turns.ts';
import { type Database, isConnectionLoss } from '../../adapters/store/store.ts';
import { nextPrompt, promptMaxBytes } from '../../core/session/session.ts';

export class Inbox {
  readonly #db: Database;
  readonly #sessionId: string;

  constructor(db: Database, sessionId: string) {
    this.#db = db;
    this.#sessionId = sessionId;
  }

  /**
   * The messages of the next prompt, and the sequence numbers of the interrupting ones that wait beside it because they did
   * not fit: those go in at the next turn, and end none.
   */
  async next(): Promise<{ readonly messages: readonly WaitingMessage[]; readonly left: readonly number[] }> {
    const waiting = await orElse(waitingMessages(this.#db, this.#sessionId, promptMaxBytes), []);
    const messages = nextPrompt(waiting);
    const interrupting = waiting.filter((one) => one.mode === 'interrupt');
    const known = interrupting.slice(messages.length).map((one) => one.seq);
    const hasMore = interrupting.length === waitingMax || known.length > 0;
    const taken = messages.map((one) => one.seq);
    return {
      messages,
      left: hasMore ? await orElse(interruptsBeside(this.#db, this.#sessionId, taken), known) : known,
    };
  }

  /** Whether a message waits that is to end the turn in flight; `left`: those that the turn has left. */
  async interrupts(left: readonly number[]): Promise<boolean> {
    return (await orElse(interruptsBeside(this.#db, this.#sessionId, left, 1), [])).length > 0;
  }

  /** Whether somebody asks for the end of this turn. */
  isStopAsked(turnId: string): Promise<boolean> {
    return orElse(isStopAsked(this.#db, turnId), false);
  }
}

async function orElse<T>(reading: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!isConnectionLoss(error)) throw error;
    return otherwise;
  }
}
