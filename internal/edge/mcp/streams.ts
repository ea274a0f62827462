// Answers that are under way when their session ends or leaves its host: the token that opened them opens nothing any
// more, so they are broken off. A notification says of which session to look; the row is the truth.

import { sessionChannel } from '../../adapters/store/sessions/session-reads.ts';
import type { FlowContext } from '../../flows/context.ts';

/** Between two tries to hear of changes. */
const againMs = 1_000;

/** An answer that is watched. */
export interface Watched {
  readonly sessionId: string;
  /** What was opened with it: all answers of one token end together. */
  readonly token: string;
  isOpen(): Promise<boolean>;
  breakOff(): void;
}

export interface Streams {
  /**
   * Asks `isOpen` at once and whenever something changes about the session, once for all answers of its token, and breaks
   * them off where it is not; the answer ends that.
   */
  watch(answer: Watched): Promise<() => void>;
  stop(): Promise<void>;
}

/** The answers of one token. */
class Group {
  readonly answers = new Set<Watched>();
  #isLooking = false;
  #isAsked = false;

  /** One look at a time: what changes during one is seen by the next, however much it is. */
  async look(): Promise<void> {
    this.#isAsked = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#isAsked) {
      this.#isAsked = false;
      const [first] = this.answers;
      // A database that is away says nothing about the session; the next change does.
      const isOpen = first === undefined || (await first.isOpen().catch(() => true));
      if (!isOpen) for (const { breakOff } of this.answers) breakOff();
    }
    this.#isLooking = false;
  }
}

export function createStreams(ctx: () => FlowContext): Streams {
  const watched = new Map<string, Map<string, Group>>();
  let listening: Promise<() => Promise<void>> | undefined;
  let again: NodeJS.Timeout | undefined;
  const hear = (sessionId: string | null): void => {
    const concerned = sessionId === null ? [...watched.values()] : [watched.get(sessionId) ?? new Map<string, Group>()];
    for (const groups of concerned) for (const group of groups.values()) void group.look();
  };
  /** Resolves when changes are heard, or cannot be: then it is tried again as long as there is an answer to watch. */
  const listen = async (): Promise<void> => {
    const mine = (listening ??= ctx().db.listen(sessionChannel, hear));
    try {
      await mine;
    } catch {
      if (listening === mine) listening = undefined;
      again ??= setTimeout(() => {
        again = undefined;
        // What changed meanwhile was told to nobody.
        if (watched.size > 0) void listen().then(() => hear(null));
      }, againMs).unref();
    }
  };
  return {
    async watch(answer) {
      const { sessionId, token } = answer;
      const groups = watched.get(sessionId) ?? new Map<string, Group>();
      watched.set(sessionId, groups);
      const group = groups.get(token) ?? new Group();
      groups.set(token, group);
      group.answers.add(answer);
      await listen();
      // It was let in before its body was read: what changed since then was told to nobody.
      void group.look();
      return () => {
        group.answers.delete(answer);
        if (group.answers.size === 0 && groups.get(token) === group) groups.delete(token);
        if (groups.size === 0 && watched.get(sessionId) === groups) watched.delete(sessionId);
      };
    },
    async stop() {
      watched.clear();
      clearTimeout(again);
      const stop = await listening?.catch(() => undefined);
      await stop?.();
    },
  };
}
