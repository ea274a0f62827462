// One loop of a service: turn, pause, turn.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowContext } from '../../flows/context.ts';

/** Calls `turn` again and again with a pause in between, until stopped; a turn that fails is logged and forgotten. */
export function loop(ctx: FlowContext, name: string, pauseMs: number, turn: (signal: AbortSignal) => Promise<void>) {
  const stopping = new AbortController();
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await turn(stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) ctx.runtime.log.warn({ err: error, service: name }, 'service.turn_failed');
      });
      // Rejects when the loop is stopped, which is what it waits for.
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const running = run();
  return {
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}
