// What intake does by the clock: forgetting what providers have not said for long.

import { forgetOldFacts } from '../../flows/ingest/ingest.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const everyMs = 60 * 60 * 1_000;

export const ingestServices: readonly Service[] = [
  {
    name: 'intake.forget',
    roles: ['api', 'route'],
    start: async (ctx) =>
      loop(ctx, 'intake.forget', everyMs, async (signal) => {
        await forgetOldFacts(ctx, signal);
      }),
  },
];
