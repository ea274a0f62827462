// Reads the master key file again when it has changed, in every daemon: a key that one of them seals with is known to
// all of them within seconds.

import { setTimeout as sleep } from 'node:timers/promises';
import { type FlowContext, sealingOf } from '../../flows/context.ts';

const everyMs = 2_000;

export async function watchKeys(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const { keyRing } = sealingOf(ctx);
  const stopping = new AbortController();
  let failed = false;
  // Versions that have another key in the file than in memory, as they were told last.
  let told = '';
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await keyRing.reload();
        failed = false;
        const changed = keyRing.changed();
        if (String(changed) !== told) {
          const fields = { versions: changed, held: keyRing.sealer.currentVersion };
          if (changed.length > 0) ctx.runtime.log.error(fields, 'keys.file_replaced');
          else ctx.runtime.log.info(fields, 'keys.file_restored');
        }
        told = String(changed);
      } catch (error) {
        // Said once; readiness says it as long as it lasts.
        if (!failed) ctx.runtime.log.error({ err: error }, 'keys.file_unusable');
        failed = true;
      }
      // Rejects when the daemon stops, which is what it waits for.
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const running = run();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
