// What runs as long as the daemon does, as one table: loops whose turns are functions of flows, and how long they pause. None
// holds state that the database does not, so that another daemon takes over when this one dies.

import { setTimeout as sleep } from 'node:timers/promises';
import { type FlowContext, sealingOf } from '../../flows/context.ts';
import { schedulesChannel } from '../../adapters/store/resources/schedules.ts';
import { deadlinesChannel } from '../../adapters/store/sessions/checks.ts';
import { type Role, roleNames } from '../../base/config/config.ts';
import { reportChecks, sweepChecks } from '../../flows/checks/checks.ts';
import { tick } from '../../flows/heartbeat/heartbeat.ts';
import { land, landed } from '../../flows/in-flight.ts';
import { forgetOldFacts } from '../../flows/ingest/ingest.ts';
import { forgetTold, noteByClock, tellWaiting } from '../../flows/notify/notify.ts';
import { forgetOldCalls, resolveAbandoned } from '../../flows/outbox/outbox.ts';
import { forgetToldStatuses, pollPulls, publishPlans, publishStatuses } from '../../flows/plans/plans.ts';
import { startRouting, sweepRouting } from '../../flows/routing/routing.ts';
import { SessionHost, upkeepTurn } from '../../flows/session-host/session-host.ts';
import { archiveOrphans } from '../../flows/sessions/sessions.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';
import { finishDeletions, keepRetention, makeRoom, prune } from '../../flows/tenancy/tenancy.ts';
import { loop, wokenLoop } from './loop.ts';
import { startPolling, startWatching } from './sync-loops.ts';

interface Running {
  stop(): Promise<void>;
}

export interface Service {
  readonly name: string;
  /** Started where the daemon has one of these roles. */
  readonly roles: readonly Role[];
  /** Resolves when it runs. `stop` waits for what is in flight and is safe twice. */
  start(ctx: FlowContext): Promise<Running>;
}

type Turn<T> = (ctx: FlowContext, signal: AbortSignal) => Promise<T>;

/** For what nobody waits for: it has no connection opened, and kept, because two of its kind meet. */
const patient = (ctx: FlowContext): FlowContext => ({ ...ctx, db: ctx.db.looks });

/** A turn, a pause, a turn. */
function every(name: string, on: readonly Role[], pauseMs: number, turn: Turn<unknown>): Service {
  const act = (ctx: FlowContext) => async (signal: AbortSignal) => {
    await turn(ctx, signal);
  };
  return { name, roles: on, start: async (ctx) => loop(ctx, name, pauseMs, act(patient(ctx))) };
}

/** Of what its turns have begun, all is over when it has stopped. */
const landing = (ctx: FlowContext, running: Running): Running => ({
  async stop() {
    land(ctx);
    await running.stop();
    await landed(ctx);
  },
});

/** Turns without a pause for as long as they find something: each answers with how much. */
function untilNone(name: string, on: readonly Role[], pauseMs: number, turn: Turn<number>): Service {
  const act = (ctx: FlowContext) => async (signal: AbortSignal) => ((await turn(ctx, signal)) === 0 ? pauseMs : 0);
  return { name, roles: on, start: async (ctx) => landing(ctx, loop(ctx, name, pauseMs, act(patient(ctx)))) };
}

/** Turns that answer with how long the next pause is, which a notification ends; `pauseMs` after one that failed. */
function woken(name: string, on: readonly Role[], pauseMs: number, channel: string, turn: Turn<number>): Service {
  return { name, roles: on, start: (ctx) => wokenLoop(ctx, name, { pauseMs, channel }, (signal) => turn(ctx, signal)) };
}

const nothing: Running = { stop: async () => undefined };

/** Tells the code host of checks, where the daemon was wired with one. */
async function startReporting(ctx: FlowContext): Promise<Running> {
  const { checks } = ctx;
  if (checks === undefined) return nothing;
  return landing(
    ctx,
    loop(ctx, 'check.report', 1_000, () => reportChecks(patient(ctx), checks)),
  );
}

/** Routes: woken by its own intake, and by a sweep for what was missed. */
async function startRouter(ctx: FlowContext): Promise<Running> {
  const routing = startRouting(ctx);
  // What an earlier process left is not waited for.
  let all = true;
  const sweeping = loop(ctx, 'route.sweep', 2_000, async () => {
    await sweepRouting(patient(ctx), { all });
    all = false;
  });
  return {
    async stop() {
      await sweeping.stop();
      await routing.stop();
    },
  };
}

async function startHost(ctx: FlowContext): Promise<Running> {
  if (ctx.host === undefined) return nothing;
  const host = new SessionHost(ctx, ctx.host);
  await host.start();
  return host;
}

const hourMs = 60 * 60 * 1_000;

/** Every service of the daemon, started in this order. What each parks, or why it need not, its row in services.test.ts says. */
export const services: readonly Service[] = [
  { name: 'repo.poll', roles: ['sync'], start: startPolling },
  { name: 'repo.watch', roles: ['sync'], start: startWatching },
  every('signin.refresh', ['api'], 60_000, refreshGroups),
  every('audit.retention', ['api', 'sync'], hourMs, keepRetention),
  every('retention', ['schedule'], hourMs, async (ctx, signal) => {
    await makeRoom(ctx);
    await prune(ctx, signal);
  }),
  every('project.deletion', ['schedule'], 2_000, finishDeletions),
  { name: 'keys.watch', roles: roleNames, start: watchKeys },
  every('intake.forget', ['api', 'route'], hourMs, forgetOldFacts),
  // Sleeps until the next schedule is due. The database may be away: a tick is missed a minute after its time.
  woken('heartbeat.tick', ['schedule'], 500, schedulesChannel, tick),
  woken('check.deadlines', ['schedule'], 1_000, deadlinesChannel, sweepChecks),
  { name: 'check.report', roles: ['schedule'], start: startReporting },
  every('session.orphans', ['schedule'], 5_000, archiveOrphans),
  // Writes that a killed daemon left between the row and the answer.
  untilNone('outbox.resolve', roleNames, 3_000, resolveAbandoned),
  every('outbox.forget', ['schedule'], hourMs, forgetOldCalls),
  untilNone('notify.send', ['schedule'], 500, tellWaiting),
  every('notify.clock', ['schedule'], 600_000, async (ctx) => {
    await noteByClock(ctx);
    await forgetTold(ctx);
  }),
  // An idle daemon asks for no more than it must.
  untilNone('plan.pulls', ['sync'], 1_500, publishPlans),
  // How soon after an apply its pull requests are looked at again.
  untilNone('plan.look', ['sync'], 2_000, pollPulls),
  untilNone('plan.statuses', ['sync'], 1_500, publishStatuses),
  every('plan.forget', ['schedule'], hourMs, forgetToldStatuses),
  { name: 'event.route', roles: ['route'], start: startRouter },
  { name: 'session.host', roles: ['session'], start: startHost },
  every('session.upkeep', ['session'], 3_000, upkeepTurn),
];

// Reads the master key file again when it has changed, in every daemon: a key that one of them seals with is known to
// all of them within seconds.

const everyMs = 2_000;

export async function watchKeys(ctx: FlowContext): Promise<{ stop(): Promise<void> }> {
  const { keyRing } = sealingOf(ctx);
  const stopping = new AbortController();
  let failed = false;
  // Versions that have another key in the file than in memory, as they were told last.
  let told = '';
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await keyRing.reload();
        failed = false;
        const changed = keyRing.changed();
        if (String(changed) !== told) {
          const fields = { versions: changed, held: keyRing.sealer.currentVersion };
          if (changed.length > 0) ctx.runtime.log.error(fields, 'keys.file_replaced');
          else ctx.runtime.log.info(fields, 'keys.file_restored');
        }
        told = String(changed);
      } catch (error) {
        // Said once; readiness says it as long as it lasts.
        if (!failed) ctx.runtime.log.error({ err: error }, 'keys.file_unusable');
        failed = true;
      }
      // Rejects when the daemon stops, which is what it waits for.
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const running = run();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
