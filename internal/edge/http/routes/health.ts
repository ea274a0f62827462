// Liveness: the process answers. Readiness is added by the server, which knows what it waits for.

import * as v from 'valibot';
import { defineRoute, ok, type Route } from '../route.ts';

export const healthRoutes: readonly Route[] = [
  defineRoute({
    method: 'GET',
    path: '/healthz',
    summary: 'Liveness: the process answers',
    scope: 'public',
    permission: null,
    answers: { 200: v.object({ status: v.literal('ok') }) },
    handle: async () => ok({ status: 'ok' }),
  }),
];
