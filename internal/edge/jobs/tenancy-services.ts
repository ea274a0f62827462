// What tenancy does by the clock: keeping the audit as short as the configuration says.

import { keepRetention } from '../../flows/tenancy/tenancy.ts';
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
];
