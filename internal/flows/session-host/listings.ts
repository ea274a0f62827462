// Which tool servers a session's harness has listed. A harness that comes up without its tools says nothing of it, so the
// first prompt waits until each has been asked for.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from '../../domain/fault.ts';
import type { ToolListings } from '../host-ports.ts';

/** For an answer to be read, and until a parting that came to nothing is forgotten. */
const [answerMs, partingMs] = [500, 30_000] as const;

/** In memory: the harness speaks to the tool servers of the daemon that runs it. */
export function createListings(): ToolListings {
  const listed = new Map<string, Set<string>>();
  const reasons = new Map<string, Map<string, Fault>>();
  const waiting = new Map<string, () => void>();
  const leaving = new Set<string>();
  const of = (sessionId: string): Set<string> => {
    const found = listed.get(sessionId) ?? new Set<string>();
    listed.set(sessionId, found);
    return found;
  };
  return {
    listed(sessionId, alias) {
      if (!listed.has(sessionId)) return;
      of(sessionId).add(alias);
      waiting.get(sessionId)?.();
    },
    refused(sessionId, alias, fault) {
      if (!listed.has(sessionId)) return;
      const known = reasons.get(sessionId) ?? new Map<string, Fault>();
      reasons.set(sessionId, known.set(alias, fault));
      waiting.get(sessionId)?.();
    },
    async wait(sessionId, aliases, timeoutMs) {
      const missing = (): string[] => aliases.filter((alias) => !of(sessionId).has(alias));
      const reason = (alias: string): Fault | undefined => reasons.get(sessionId)?.get(alias);
      // What no retry mends need not be waited for.
      const hopeless = (): Fault | undefined =>
        missing()
          .map(reason)
          .find((fault) => fault?.kind === 'unprocessable');
      if (missing().length > 0 && hopeless() === undefined) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, timeoutMs);
          waiting.set(sessionId, () => {
            if (missing().length > 0 && hopeless() === undefined) return;
            clearTimeout(timer);
            resolve();
          });
        });
        waiting.delete(sessionId);
      }
      const fault = hopeless();
      if (fault !== undefined) throw fault;
      return missing().map((alias) => [alias, reason(alias)?.message].filter((part) => part !== undefined).join(': '));
    },
    forget(sessionId) {
      listed.set(sessionId, new Set());
      reasons.delete(sessionId);
    },
    parting(sessionId) {
      leaving.add(sessionId);
      // Of one that does not end after all, or that another daemon runs.
      setTimeout(() => leaving.delete(sessionId), partingMs).unref();
    },
    async parted(sessionId) {
      if (leaving.delete(sessionId)) await sleep(answerMs);
    },
  };
}
