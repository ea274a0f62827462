// Every route of the API: one line per family. The order does not matter; two routes on one path fail the start.

import type { Route } from './route.ts';
import { healthRoutes } from './routes/health.ts';

export const routes: readonly Route[] = [...healthRoutes];
