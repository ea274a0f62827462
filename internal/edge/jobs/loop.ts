// One loop of a service: turn, pause, turn. A turn may say how long the next pause is, and a pause may be cut short.

import type { FlowContext } from '../../flows/context.ts';
import { logTurnFailed } from '../../flows/turn-failed.ts';

export interface Loop {
  /** Ends the pause, or has the turn that runs followed by another at once. */
  wake(): void;
  stop(): Promise<void>;
}

/**
 * Calls `turn` again and again until stopped, with a pause in between: as many milliseconds as the turn answers, else
 * `pauseMs`. A turn that fails is logged, not every time that it does, and forgotten.
 */
export function loop(
  ctx: FlowContext,
  name: string,
  pauseMs: number,
  turn: (signal: AbortSignal) => Promise<number | void>,
): Loop {
  const stopping = new AbortController();
  let wake = (): void => undefined;
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      // Who wakes it during its turn ends the pause behind it. No signal: one that is aborted makes an exception each time.
      const pause = Promise.withResolvers<void>();
      wake = pause.resolve;
      const asked = await turn(stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) logTurnFailed(ctx, 'service.turn_failed', error, { service: name });
      });
      if (stopping.signal.aborted) return;
      const timer = setTimeout(pause.resolve, asked ?? pauseMs);
      await pause.promise;
      clearTimeout(timer);
    }
  };
  const running = run();
  return {
    wake: () => wake(),
    async stop(): Promise<void> {
      stopping.abort();
      wake();
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
