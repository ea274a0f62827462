// Who wakes the router: intake right after its commits, the job that recorders leave behind, and the sweep, which finds
// what both missed: a daemon that died between a commit and its routing, a database that was away.

import type { Database } from '../../adapters/store/store.ts';
import { projectsOfEvents, projectsWaiting } from '../../adapters/store/routing/routing.ts';
import type { FlowContext } from '../context.ts';
import { Router } from './router.ts';

/** Events that wait for longer were missed. */
const overdueMs = 3_000;

/** One router per daemon, known by its database: jobs and intake share it. */
const routers = new WeakMap<Database, Router>();

function routerOf(ctx: FlowContext): Router {
  let router = routers.get(ctx.db);
  if (router === undefined) {
    router = new Router(ctx);
    routers.set(ctx.db, router);
  }
  return router;
}

/** Wakes the router for the projects of a job; what it finds is up to it. */
export async function wakeRouting(
  ctx: FlowContext,
  { projects, ids }: { readonly projects: readonly string[]; readonly ids: readonly string[] },
): Promise<void> {
  const router = routerOf(ctx);
  for (const projectId of new Set([...projects, ...(await projectsOfEvents(ctx.db, ids))])) router.wake(projectId);
}

/** Wakes the router for every project with events that wait for longer than they should. */
export async function sweepRouting(ctx: FlowContext, options: { readonly all?: boolean } = {}): Promise<void> {
  const age = options.all === true ? 0 : overdueMs;
  const before = new Date(ctx.runtime.now().getTime() - age + 1);
  for (const projectId of await projectsWaiting(ctx.db, before)) routerOf(ctx).wake(projectId);
}

/** Routes what intake records in this process from now on, until stopped; `stop` waits for what is under way. */
export function startRouting(ctx: FlowContext): { stop(): Promise<void> } {
  const router = routerOf(ctx);
  const deafen = ctx.ingest?.onRecorded((projectId) => router.wake(projectId));
  return {
    async stop() {
      deafen?.();
      await router.stop();
    },
  };
}
