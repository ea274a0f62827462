// Running sessions, and what they need between their runs.

import { SessionHost, upkeepTurn } from '../../flows/session-host/session-host.ts';
import { loop } from './loop.ts';
import type { Service } from './service.ts';

const upkeepMs = 3_000;

export const hostServices: readonly Service[] = [
  {
    name: 'session.host',
    roles: ['session'],
    async start(ctx) {
      if (ctx.host === undefined) return { stop: async () => undefined };
      const host = new SessionHost(ctx, ctx.host);
      await host.start();
      return host;
    },
  },
  {
    name: 'session.upkeep',
    roles: ['session'],
    start: async (ctx) => loop(ctx, 'session-upkeep', upkeepMs, () => upkeepTurn(ctx)),
  },
];
