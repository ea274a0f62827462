// What tenancy does by the clock: keeping what has happened as short as the configuration says.

import { finishDeletions, keepRetention, makeRoom, prune } from '../../flows/tenancy/tenancy.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const retentionMs = 60 * 60 * 1_000;
const deletionMs = 2_000;

const refreshMs = 60 * 1_000;

export const tenancyServices: readonly Service[] = [
  {
    name: 'signin.refresh',
    roles: ['api'],
    start: async (ctx) =>
      loop(ctx, 'signin.refresh', refreshMs, async (signal) => {
        await refreshGroups(ctx, signal);
      }),
  },
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
  {
    name: 'project.deletion',
    roles: ['schedule'],
    start: async (ctx) => loop(ctx, 'project.deletion', deletionMs, (signal) => finishDeletions(ctx, signal)),
  },
];
