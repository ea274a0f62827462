// Telling people what happens: notices become notifications, notifications are sent, and what the clock brings is noted.

import { forgetTold, noteByClock, sendNotifications, spreadNotices } from '../../flows/notify/notify.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const pauseMs = 500;
const clockMs = 10 * 60 * 1_000;

export const notifyServices: readonly Service[] = [
  {
    name: 'notify.send',
    roles: ['schedule'],
    start: async (ctx) =>
      loop(ctx, 'notify.send', pauseMs, async () => {
        const spread = await spreadNotices(ctx);
        const sent = await sendNotifications(ctx);
        return spread + sent === 0 ? pauseMs : 0;
      }),
  },
  {
    name: 'notify.clock',
    roles: ['schedule'],
    start: async (ctx) =>
      loop(ctx, 'notify.clock', clockMs, async () => {
        await noteByClock(ctx);
        await forgetTold(ctx);
      }),
  },
];
