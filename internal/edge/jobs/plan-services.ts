// Telling the code host: plans on pull requests, and statuses of commits.

import { forgetToldStatuses, lookForPulls, tellPlans, tellStatuses } from '../../flows/plans/plans.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

/** While nothing is to be told; an idle daemon asks for no more than it must. */
const pauseMs = 1_500;
/** How soon after an apply its pull requests are looked at again. */
const lookMs = 2_000;
const forgetMs = 60 * 60 * 1_000;

export const planServices: readonly Service[] = [
  {
    name: 'plan.pulls',
    roles: ['sync'],
    start: async (ctx) =>
      loop(ctx, 'plan.pulls', pauseMs, async (signal) => ((await tellPlans(ctx, signal)) === 0 ? pauseMs : 0)),
  },
  {
    name: 'plan.look',
    roles: ['sync'],
    start: async (ctx) => loop(ctx, 'plan.look', lookMs, async () => ((await lookForPulls(ctx)) === 0 ? lookMs : 0)),
  },
  {
    name: 'plan.statuses',
    roles: ['sync'],
    start: async (ctx) =>
      loop(ctx, 'plan.statuses', pauseMs, async () => ((await tellStatuses(ctx)) === 0 ? pauseMs : 0)),
  },
  {
    name: 'plan.forget',
    roles: ['schedule'],
    start: async (ctx) => loop(ctx, 'plan.forget', forgetMs, () => forgetToldStatuses(ctx)),
  },
];
