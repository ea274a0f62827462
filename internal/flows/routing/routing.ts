// The door of routing: what an event does to agents. It loads what core/match and core/route decide from, and hands their
// decisions on; it decides nothing itself, and explaining changes nothing (docs/reference/where.md#explanations). Skipped
// triggers take no part: they have no connection that an event could come through.

import { projectsOfEvents, waitingHeads } from '../../adapters/store/routing/routing.ts';
import type { FlowContext } from '../context.ts';
import { Router } from './router.ts';

export { explainEvent, explainTriggers } from './explain.ts';

// Who wakes the router: intake right after its commits, the job that recorders leave behind, and the sweep, which finds
// what both missed: a daemon that died between a commit and its routing, a database that was away.

/** Every so many sweeps look at all projects, also at those that other daemons look at. */
const allEvery = 5;

interface Routing {
  readonly router: Router;
  /** What waited at the last sweep of one's own share, and at the last of all: by project, the oldest event's number. */
  readonly seen: { own: ReadonlyMap<string, number>; all: ReadonlyMap<string, number> };
  sweeps: number;
}

/** One router per daemon, known by its database: jobs and intake share it. */
const routings = new WeakMap<object, Routing>();

function routingOf(ctx: FlowContext): Routing {
  let routing = routings.get(ctx.db.root);
  if (routing === undefined) {
    routing = { router: new Router(ctx), seen: { own: new Map(), all: new Map() }, sweeps: 0 };
    routings.set(ctx.db.root, routing);
  }
  return routing;
}

/** Wakes the router for the projects of a job; what it finds is up to it. */
export async function wakeRouting(
  ctx: FlowContext,
  { projects, ids }: { readonly projects: readonly string[]; readonly ids: readonly string[] },
): Promise<void> {
  const { router } = routingOf(ctx);
  for (const projectId of new Set([...projects, ...(await projectsOfEvents(ctx.db, ids))])) router.wake(projectId);
}

/**
 * Wakes the router for projects whose oldest waiting event is the one that it was at the last sweep: nobody routes there.
 * So no clock is asked. Each daemon looks at its share of the projects, and now and then at all, for the daemon that has
 * the others may be stuck. `all`: for whatever waits.
 */
export async function sweepRouting(ctx: FlowContext, options: { readonly all?: boolean } = {}): Promise<void> {
  const routing = routingOf(ctx);
  const isOfAll = options.all === true || ++routing.sweeps % allEvery === 0;
  const heads = await waitingHeads(ctx.db, isOfAll ? null : ctx.daemonId);
  const before = routing.seen[isOfAll ? 'all' : 'own'];
  routing.seen[isOfAll ? 'all' : 'own'] = heads;
  for (const [projectId, seq] of heads) {
    if (options.all === true || before.get(projectId) === seq) routing.router.wake(projectId);
  }
}

/** Routes what intake records in this process from now on, until stopped; `stop` waits for what is under way. */
export function startRouting(ctx: FlowContext): { stop(): Promise<void> } {
  const { router } = routingOf(ctx);
  const deafen = ctx.ingest?.onRecorded({
    recorded: (projectId, ids) => router.wake(projectId, ids),
    recording: (projectId, ids) => router.expect(projectId, ids),
  });
  return {
    async stop() {
      deafen?.();
      await router.stop();
    },
  };
}
