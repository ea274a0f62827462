// Writes that a killed daemon left between the row and the answer, and old calls of no session.

import { forgetOldCalls, resolveAbandoned } from '../../flows/outbox/outbox.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const resolveMs = 3_000;
const forgetMs = 60 * 60 * 1_000;

export const outboxServices: readonly Service[] = [
  {
    name: 'outbox.resolve',
    roles: ['api', 'sync', 'route', 'schedule', 'session'],
    start: async (ctx) =>
      loop(ctx, 'outbox.resolve', resolveMs, async () => ((await resolveAbandoned(ctx)) === 0 ? resolveMs : 0)),
  },
  {
    name: 'outbox.forget',
    roles: ['schedule'],
    start: async (ctx) => loop(ctx, 'outbox.forget', forgetMs, () => forgetOldCalls(ctx)),
  },
];
