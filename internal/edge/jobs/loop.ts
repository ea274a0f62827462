// One loop of a service: turn, pause, turn. A turn may say how long the next pause is, and a pause may be cut short.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FlowContext } from '../../flows/context.ts';

export interface Loop {
  /** Ends the pause, or has the turn that runs followed by another at once. */
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Calls `turn` again and again until stopped, with a pause in between: as many milliseconds as the turn answers, else
 * `pauseMs`. A turn that fails is logged and forgotten.
 */
export function loop(
  ctx: FlowContext,
  name: string,
  pauseMs: number,
  turn: (signal: AbortSignal) => Promise<number | void>,
): Loop {
  const stopping = new AbortController();
  let pause = new AbortController();
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      pause = new AbortController();
      const asked = await turn(stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) ctx.runtime.log.warn({ err: error, service: name }, 'service.turn_failed');
      });
      if (stopping.signal.aborted) return;
      // Rejects when the pause is cut short, which is what it waits for.
      await sleep(asked ?? pauseMs, undefined, { signal: pause.signal }).catch(() => undefined);
    }
  };
  const running = run();
  return {
    wake: () => pause.abort(),
    async stop(): Promise<void> {
      stopping.abort();
      pause.abort();
      await running;
    },
  };
}

/** A loop whose pauses end when a channel is notified, or may have been. */
export async function wokenLoop(
  ctx: FlowContext,
  name: string,
  { pauseMs, channel }: { readonly pauseMs: number; readonly channel: string },
  turn: (signal: AbortSignal) => Promise<number | void>,
): Promise<{ stop(): Promise<void> }> {
  const running = loop(ctx, name, pauseMs, turn);
  let unlisten: () => Promise<void>;
  try {
    unlisten = await ctx.db.listen(channel, () => running.wake());
  } catch (error) {
    await running.stop();
    throw error;
  }
  return {
    async stop() {
      await unlisten();
      await running.stop();
    },
  };
}
