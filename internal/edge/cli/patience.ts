// What a command that waits makes of a server that is away for a while, as while it is started again: it asks again.

import { Refusal } from './failure.ts';

/** Away for longer without an answer between, it is waited for no more. */
const awayMs = 5 * 60_000;

/** Whether the same request may do later: nobody answered, or something between or behind the server did. */
export const isPassing = (error: unknown): boolean => {
  if (!(error instanceof Refusal)) return false;
  const { code, status } = error.problem;
  return status === undefined ? code === 'unreachable' || code === 'timeout' : status >= 500 || status === 429;
};

/** `read` for a loop: undefined where it may do later. Throws what else goes wrong. */
export function patiently<T>(read: () => Promise<T>): () => Promise<T | undefined> {
  let sinceMs: number | undefined;
  return async () => {
    try {
      const found = await read();
      sinceMs = undefined;
      return found;
    } catch (error) {
      sinceMs ??= performance.now();
      if (!isPassing(error) || performance.now() - sinceMs > awayMs) throw error;
      return undefined;
    }
  };
}
