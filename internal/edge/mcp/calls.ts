// What sessions have in flight here: so many at a time, and each to be cancelled by its own id. A stateless server hears of
// a cancellation in a request of its own; the call that it means runs in this process, because a harness speaks to the
// daemon that runs it. Kept in memory alone: what is not here is not running.

/** Requests of one session, streams included; and calls of it that run, for each may hold a connection to the database. */
const perSession = { requests: 64, running: 4 } as const;

export interface Calls {
  /** Makes room for one more request of a session; undefined where it has as many as it may. The answer gives it back. */
  enter(sessionId: string): (() => void) | undefined;
  /** Runs a call when it is its turn; `cancel` of the same session, alias and id aborts it, as does `gone`. */
  run<T>(of: CallId, gone: AbortSignal, call: (signal: AbortSignal) => Promise<T>): Promise<T>;
  cancel(of: CallId): void;
}
export interface CallId {
  readonly sessionId: string;
  readonly alias: string;
  /** JSON-RPC: 1 and "1" are two ids. */
  readonly requestId: string | number;
}

const keyOf = ({ sessionId, alias, requestId }: CallId): string => JSON.stringify([sessionId, alias, requestId]);

export function createCalls(): Calls {
  const open = new Map<string, number>();
  const running = new Map<string, Set<AbortController>>();
  const turn = createTurns();
  return {
    enter(sessionId) {
      const count = open.get(sessionId) ?? 0;
      if (count >= perSession.requests) return undefined;
      open.set(sessionId, count + 1);
      return () => {
        const left = (open.get(sessionId) ?? 1) - 1;
        if (left === 0) open.delete(sessionId);
        else open.set(sessionId, left);
      };
    },
    async run(of, gone, call) {
      const key = keyOf(of);
      const controller = new AbortController();
      // Ids begin anew with each connection of a client: two calls may share one.
      const sharing = running.get(key) ?? new Set();
      running.set(key, sharing.add(controller));
      const leave = await turn(of.sessionId);
      try {
        return await call(AbortSignal.any([gone, controller.signal]));
      } finally {
        leave();
        sharing.delete(controller);
        if (sharing.size === 0) running.delete(key);
      }
    },
    cancel(of) {
      for (const controller of running.get(keyOf(of)) ?? []) controller.abort();
    },
  };
}

/** Resolves when so few of a session run that one more may; the answer lets the next one run. */
function createTurns(): (sessionId: string) => Promise<() => void> {
  const busy = new Map<string, { count: number; readonly waiting: (() => void)[] }>();
  return async (sessionId) => {
    const line = busy.get(sessionId) ?? { count: 0, waiting: [] };
    busy.set(sessionId, line);
    if (line.count >= perSession.running) await new Promise<void>((resolve) => line.waiting.push(resolve));
    else line.count += 1;
    return () => {
      const next = line.waiting.shift();
      if (next !== undefined) return next();
      line.count -= 1;
      if (line.count === 0) busy.delete(sessionId);
    };
  };
}
