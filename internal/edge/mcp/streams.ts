// Answers that are under way when their session ends or leaves its host: the token that opened them opens nothing any
// more, so they are broken off. A notification says of which session to look; the row is the truth.

import { sessionChannel } from '../../adapters/store/sessions/session-reads.ts';
import type { FlowContext } from '../../flows/context.ts';

export interface Streams {
  /** Asks `isOpen` whenever something changes about the session, and breaks off where it is not; the answer ends that. */
  watch(sessionId: string, isOpen: () => Promise<boolean>, breakOff: () => void): Promise<() => void>;
  stop(): Promise<void>;
}

export function createStreams(ctx: () => FlowContext): Streams {
  const watched = new Map<string, Set<() => Promise<void>>>();
  let listening: Promise<() => Promise<void>> | undefined;
  const hear = (sessionId: string | null): void => {
    const concerned = sessionId === null ? [...watched.values()] : [watched.get(sessionId) ?? []];
    for (const looks of concerned) for (const look of looks) void look();
  };
  return {
    async watch(sessionId, isOpen, breakOff) {
      const look = async (): Promise<void> => {
        // A database that is away says nothing about the session; the next change does.
        if (!(await isOpen().catch(() => true))) breakOff();
      };
      const looks = watched.get(sessionId) ?? new Set();
      watched.set(sessionId, looks.add(look));
      listening ??= ctx().db.listen(sessionChannel, hear);
      await listening.catch(() => {
        listening = undefined;
      });
      return () => {
        looks.delete(look);
        if (looks.size === 0 && watched.get(sessionId) === looks) watched.delete(sessionId);
      };
    },
    async stop() {
      watched.clear();
      const stop = await listening?.catch(() => undefined);
      await stop?.();
    },
  };
}
