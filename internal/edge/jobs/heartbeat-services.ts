// The loop that ticks: it sleeps until the next schedule is due, and is woken by an apply that changes schedules.

import { schedulesChannel } from '../../adapters/store/resources/schedules.ts';
import { tick } from '../../flows/heartbeat/heartbeat.ts';
import { wokenLoop } from './loop.ts';
import type { Service } from './service.ts';

/** After a turn that failed: the database is away, and a tick is missed a minute after its time. */
const afterFailureMs = 500;

export const heartbeatServices: readonly Service[] = [
  {
    name: 'heartbeat.tick',
    roles: ['schedule'],
    start: (ctx) =>
      wokenLoop(ctx, 'heartbeat', { pauseMs: afterFailureMs, channel: schedulesChannel }, (signal) =>
        tick(ctx, signal),
      ),
  },
];
