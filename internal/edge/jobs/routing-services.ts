// Routing as long as the daemon runs: woken by its own intake, and by a sweep for what was missed.

import type { FlowContext } from '../../flows/context.ts';
import { startRouting, sweepRouting } from '../../flows/routing/routing.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const sweepMs = 2_000;

async function start(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const routing = startRouting(ctx);
  // What an earlier process left is not waited for.
  let all = true;
  const sweeping = loop(ctx, 'route.sweep', sweepMs, async () => {
    await sweepRouting(ctx, { all });
    all = false;
  });
  return {
    async stop() {
      await sweeping.stop();
      await routing.stop();
    },
  };
}

export const routingServices: readonly Service[] = [{ name: 'event.route', roles: ['route'], start }];
