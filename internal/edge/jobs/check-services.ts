// Checks and sessions by the clock: deadlines, telling the code host where the daemon was wired with one, and sessions
// whose agent is gone.

import { deadlinesChannel } from '../../adapters/store/sessions/checks.ts';
import type { FlowContext } from '../../flows/context.ts';
import { reportChecks, sweepChecks } from '../../flows/checks/checks.ts';
import { archiveOrphans } from '../../flows/sessions/sessions.ts';
import { loop, wokenLoop } from './loop.ts';
import type { Service } from './service.ts';

const afterFailureMs = 1_000;
const orphansMs = 5_000;

async function startReporting(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const { checks } = ctx;
  if (checks === undefined) return { stop: async () => undefined };
  return loop(ctx, 'check.report', afterFailureMs, () => reportChecks(ctx, checks));
}

export const checkServices: readonly Service[] = [
  {
    name: 'check.deadlines',
    roles: ['schedule'],
    start: (ctx) =>
      wokenLoop(ctx, 'check.deadlines', { pauseMs: afterFailureMs, channel: deadlinesChannel }, (signal) =>
        sweepChecks(ctx, signal),
      ),
  },
  { name: 'check.report', roles: ['schedule'], start: startReporting },
  {
    name: 'session.orphans',
    roles: ['schedule'],
    start: async (ctx) =>
      loop(ctx, 'session.orphans', orphansMs, async (signal) => {
        await archiveOrphans(ctx, signal);
      }),
  },
];
