// One telling of a plan: who tells, of which row, and what is written into it.

import { movePlan, type PlanPatch, type PullPlan } from '../../adapters/store/repositories/pull-plans.ts';
import { Fault } from '../../domain/fault.ts';
import type { Hub } from './hub.ts';

/** How long a pull request is one daemon's, from its last write on. */
export const leaseSeconds = 180;

/** One telling: the row as it is by now, and what is written into it. */
export class PlanPublication {
  readonly hub: Hub;
  readonly signal: AbortSignal;
  row: PullPlan;

  constructor(hub: Hub, row: PullPlan, signal: AbortSignal) {
    this.hub = hub;
    this.row = row;
    this.signal = signal;
  }

  /** Throws Fault `busy` where another daemon has taken over. */
  async save(patch: PlanPatch): Promise<void> {
    const { ctx } = this.hub;
    if (!(await movePlan(ctx.db, this.row, patch, { daemonId: ctx.daemonId, leaseSeconds }))) {
      throw new Fault('unavailable', 'busy', 'another daemon tells this plan now');
    }
    this.row = { ...this.row, ...patch };
  }

  /** Of the next write of a kind; a repeat of it after a crash has the same. */
  keyOf(what: string, input: string): string {
    const { repositoryId, number, sequence, attempts } = this.row;
    return `plan:${repositoryId}:${number}:${what}:${sequence}:${input}:${Math.floor(attempts / 2)}`;
  }

  /** What the settings want. */
  wants(what: 'comment' | 'check'): boolean {
    return this.hub.repository.plan[what] !== false;
  }
}
