// What tenancy does by the clock: keeping what has happened as short as the configuration says.

import { keepRetention, makeRoom, prune } from '../../flows/tenancy/tenancy.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const retentionMs = 60 * 60 * 1_000;

export const tenancyServices: readonly Service[] = [
  {
    name: 'audit.retention',
    roles: ['api', 'sync'],
    start: async (ctx) =>
      loop(ctx, 'retention', retentionMs, async (signal) => {
        await keepRetention(ctx, signal);
      }),
  },
  {
    name: 'retention',
    roles: ['schedule'],
    start: async (ctx) =>
      loop(ctx, 'retention', retentionMs, async (signal) => {
        await makeRoom(ctx);
        await prune(ctx, signal);
      }),
  },
];
