// Keeps what has happened as long as the configuration says, in batches that hold nobody up, and makes room for the weeks
// to come. Events go by the week: at the earliest after their days, at the latest a week later.

import type { Sql } from '../../adapters/store/store.ts';
import {
  addBodyWeek,
  bodyWeeks,
  cleansAlone,
  deleteChecks,
  deleteEvents,
  deleteReconciles,
  deleteSessions,
  dropBodyWeek,
  keepsEvents,
  weekAfter,
  weekOf,
} from '../../adapters/store/operations/retention.ts';
import { retentionSettings } from '../../base/config/retention-settings.ts';
import type { FlowContext } from '../context.ts';

const dayMs = 24 * 60 * 60 * 1_000;
const batch = { events: 2_000, sessions: 20, checks: 2_000, reconciles: 1_000 } as const;
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

export interface Pruned {
  readonly events: number;
  readonly weeks: number;
  readonly sessions: number;
  readonly checks: number;
  readonly reconciles: number;
}

/** Deletes what is older than its days. One daemon at a time does; `signal` ends it between two batches. */
export async function prune(ctx: FlowContext, signal: AbortSignal): Promise<Pruned> {
  const settings = retentionSettings(ctx.config.file);
  const ago = (days: number): Date => new Date(ctx.runtime.now().getTime() - days * dayMs);
  const inBatches = async (limit: number, remove: (tx: Sql) => Promise<number>): Promise<number> => {
    let total = 0;
    for (let gone = limit; gone >= limit && !signal.aborted; total += gone) {
      gone = await ctx.db.tx(async (tx) => ((await cleansAlone(tx)) ? remove(tx) : 0));
    }
    return total;
  };
  const sessionsBefore = ago(settings.sessionsDays);
  // Sessions first: an event that a live one was told of stays.
  const sessions = await inBatches(batch.sessions, (tx) => deleteSessions(tx, sessionsBefore, batch.sessions));
  const checks = await inBatches(batch.checks, (tx) => deleteChecks(tx, sessionsBefore, batch.checks));
  const runsBefore = ago(settings.reconcilesDays);
  const reconciles = await inBatches(batch.reconciles, (tx) => deleteReconciles(tx, runsBefore, batch.reconciles));
  const before = weekOf(ago(settings.eventsDays));
  const deleteThose = (from: Date, until: Date, bodiesLater: boolean): Promise<number> =>
    inBatches(batch.events, (tx) => deleteEvents(tx, { from, before: until, limit: batch.events, bodiesLater }));
  let events = 0;
  let weeks = 0;
  for (const week of (await bodyWeeks(ctx.db)).filter((one) => one < before)) {
    const stays = await keepsEvents(ctx.db, week);
    events += await deleteThose(week, weekAfter(week), !stays);
    if (!stays && !signal.aborted && (await dropBodyWeek(ctx.db, week)) === 'done') weeks += 1;
  }
  events += await deleteThose(theBeginning, before, false);
  const pruned = { events, weeks, sessions, checks, reconciles };
  if (Object.values(pruned).some((count) => count > 0)) ctx.runtime.log.info(pruned, 'retention.pruned');
  return pruned;
}
