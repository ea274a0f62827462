// Keeps what has happened as long as the configuration says, in slices that hold nobody up, and makes room for the weeks
// to come. Events go by the week: at the earliest after their days, at the latest a week later. Each step stands alone:
// one that fails is told and passed over, one that has much to do gives the others their turn.

import type { Sql } from '../../adapters/store/store.ts';
import {
  addBodyWeek,
  bodyWeeks,
  lockRetention,
  deleteBodies,
  deleteChecks,
  deleteEvents,
  dropBodyWeek,
  hasEvents,
  type Slice,
  weekAfter,
  weekOf,
} from '../../adapters/store/operations/retention.ts';
import {
  deleteReconciles,
  deleteRevisions,
  deleteSessions,
  deleteUsage,
} from '../../adapters/store/operations/slices.ts';
import { forgetSuspects } from '../../adapters/store/operations/in-hand.ts';
import { deleteOldOauthAttempts } from '../../adapters/store/connections/oauth-attempts.ts';
import { deleteOldAttempts } from '../../adapters/store/connections/errtrack-attempts.ts';
import { pruneSignins } from '../../adapters/store/signin/web-sessions.ts';
import { retentionSettings } from '../../base/config/retention-settings.ts';
import type { FlowContext } from '../context.ts';

const dayMs = 24 * 60 * 60 * 1_000;
const batch = { events: 2_000, sessions: 20, checks: 2_000, setups: 500, signins: 1_000 } as const;
/** How long a finished setup of a connection with the hash of its code is kept, and the unclean ends of a telling. */
const setupDays = 30;
/** How long what has opened a browser or a command line is kept after its time. */
const signinDays = 1;
/** How long a step goes on before the next one has its turn. */
const turnMs = 20_000;
/** Weeks that have their partition ahead of time, the current one included. */
const weeksAhead = 3;
const theBeginning = new Date(0);

/** Makes the partitions of bodies of this week and the next ones. Answers with how many it made. */
export async function makeRoom(ctx: FlowContext): Promise<number> {
  const known = new Set((await bodyWeeks(ctx.db)).map(Number));
  let made = 0;
  let week = weekOf(ctx.runtime.now());
  for (let count = 0; count < weeksAhead; count += 1, week = weekAfter(week)) {
    if (known.has(week.getTime())) continue;
    const outcome = await addBodyWeek(ctx.db, week);
    if (outcome === 'done') made += 1;
    // Until then bodies stand in the default partition, and go one by one.
    else ctx.runtime.log.debug({ week, outcome }, 'retention.partition_not_made');
  }
  return made;
}

/** How many rows of each kind went. */
export interface Pruned {
  events: number;
  weeks: number;
  sessions: number;
  checks: number;
  reconciles: number;
  revisions: number;
  usage: number;
  setups: number;
  signins: number;
}

/** Takes one slice behind `after`; the first and each that begins anew is given null. */
type Take = (tx: Sql, after: string | null) => Promise<Slice>;
interface Step {
  readonly name: string;
  readonly counts: keyof Pruned;
  readonly take: Take;
}

function stepsOf(ctx: FlowContext): Step[] {
  const settings = retentionSettings(ctx.config.file);
  const ago = (days: number): Date => new Date(ctx.runtime.now().getTime() - days * dayMs);
  const sessionsBefore = ago(settings.sessionsDays);
  const runsBefore = ago(settings.reconcilesDays);
  const usageBefore = ago(settings.usageDays);
  return [
    // Sessions first: an event that a live one was told of stays.
    {
      name: 'sessions',
      counts: 'sessions',
      take: (tx, after) => deleteSessions(tx, sessionsBefore, batch.sessions, after),
    },
    { name: 'checks', counts: 'checks', take: (tx) => deleteChecks(tx, sessionsBefore, batch.checks) },
    {
      name: 'reconciles',
      counts: 'reconciles',
      take: (tx, after) => deleteReconciles(tx, 'repositories', runsBefore, after),
    },
    { name: 'applies', counts: 'reconciles', take: (tx, after) => deleteReconciles(tx, 'projects', runsBefore, after) },
    { name: 'revisions', counts: 'revisions', take: (tx, after) => deleteRevisions(tx, runsBefore, after) },
    { name: 'calls', counts: 'usage', take: (tx) => deleteUsage(tx, 'calls', usageBefore) },
    { name: 'days', counts: 'usage', take: (tx) => deleteUsage(tx, 'days', usageBefore) },
    {
      name: 'suspects',
      counts: 'setups',
      take: async (tx) => {
        const gone = await forgetSuspects(tx, ago(setupDays), batch.setups);
        return { gone, next: gone < batch.setups ? null : 'more' };
      },
    },
    {
      name: 'setups',
      counts: 'setups',
      take: async (tx) => {
        const before = ago(setupDays);
        const gone =
          (await deleteOldAttempts(tx, before, batch.setups)) +
          (await deleteOldOauthAttempts(tx, before, batch.setups));
        return { gone, next: gone < batch.setups ? null : 'more' };
      },
    },
    {
      name: 'signins',
      counts: 'signins',
      take: async (tx) => {
        const gone = await pruneSignins(tx, ago(signinDays), batch.signins);
        return { gone, next: gone < batch.signins ? null : 'more' };
      },
    },
  ];
}

/** Deletes what is older than its days. One daemon at a time does; `signal` ends it between two slices. */
export async function prune(ctx: FlowContext, signal: AbortSignal): Promise<Pruned> {
  const pruned: Pruned = {
    events: 0,
    weeks: 0,
    sessions: 0,
    checks: 0,
    reconciles: 0,
    revisions: 0,
    usage: 0,
    setups: 0,
    signins: 0,
  };
  const { log } = ctx.runtime;
  const steps = stepsOf(ctx).map((step) => async (): Promise<boolean> => {
    const { gone, isDone } = await inSlices(ctx, signal, step.take);
    pruned[step.counts] += gone;
    return isDone;
  });
  const names = stepsOf(ctx).map((step) => step.name);
  let left = [...steps.entries(), [steps.length, () => pruneEvents(ctx, signal, pruned)] as const];
  while (left.length > 0 && !signal.aborted) {
    const unfinished: typeof left = [];
    for (const entry of left) {
      const [at, run] = entry;
      try {
        if (!(await run())) unfinished.push(entry);
      } catch (error) {
        log.error({ err: error, step: names[at] ?? 'events' }, 'retention.step_failed');
      }
    }
    left = unfinished;
  }
  if (Object.values(pruned).some((count) => count > 0)) log.info(pruned, 'retention.pruned');
  return pruned;
}

/** Slice after slice, each in a transaction of its own, until nothing is left or the step's turn is over. */
async function inSlices(
  ctx: FlowContext,
  signal: AbortSignal,
  take: Take,
): Promise<{ readonly gone: number; readonly isDone: boolean }> {
  const until = performance.now() + turnMs;
  let gone = 0;
  for (let after: string | null = null; !signal.aborted && performance.now() < until; ) {
    const place: string | null = after;
    const slice: Slice = await ctx.db.tx(async (tx) =>
      (await lockRetention(tx)) ? take(tx, place) : { gone: 0, next: null },
    );
    gone += slice.gone;
    if (slice.next === null) return { gone, isDone: true };
    after = slice.next;
  }
  return { gone, isDone: false };
}

/** Events, a week at a time, the week's bodies at once where none of its events stays. True when it is done. */
async function pruneEvents(ctx: FlowContext, signal: AbortSignal, pruned: Pruned): Promise<boolean> {
  const days = retentionSettings(ctx.config.file).eventsDays;
  const before = weekOf(new Date(ctx.runtime.now().getTime() - days * dayMs));
  const from = async (start: Date, end: Date, bodiesLater: boolean): Promise<boolean> => {
    const input = { from: start, before: end, limit: batch.events, bodiesLater };
    const { gone, isDone } = await inSlices(ctx, signal, (tx, after) => deleteEvents(tx, input, after));
    pruned.events += gone;
    return isDone;
  };
  for (const week of (await bodyWeeks(ctx.db)).filter((one) => one < before)) {
    if (!(await from(week, weekAfter(week), true))) return false;
    if ((await dropBodyWeek(ctx.db, week)) === 'done') pruned.weeks += 1;
    // A week that keeps an event keeps its partition, and in it no more than it must.
    else if (await hasEvents(ctx.db, week)) {
      await inSlices(ctx, signal, (tx, after) => deleteBodies(tx, week, batch.events, after));
    }
  }
  return from(theBeginning, before, false);
}
