// The bounds of what one input may cost the daemon, and how it is held to them: for svcd.hostile*.fuzz.test.ts.

import assert from 'node:assert/strict';
import { isLong } from '../../internal/base/testkit/long.ts';
import type { Cost, MeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { slowness } from '../../internal/base/testkit/parsing.ts';

export const most = { grownMb: 150, busyMs: 200 } as const;
/** One that the machine, and not the input, made slow is not so each time. */
const tries = 3;

export interface Bounds {
  /** Does something up to three times: it is within its bounds at one of them, on a slow core in its time, and the daemon lives. */
  isBounded(what: string, act: () => Promise<void>): Promise<void>;
  /** Whether it is within them at once. */
  isWithin(what: string, act: () => Promise<void>): Promise<boolean>;
}

export function boundsOf(daemon: () => MeasuredDaemon): Bounds {
  const seenOf = async (what: string, act: () => Promise<void>): Promise<Cost & { readonly isWithin: boolean }> => {
    const cost = await daemon().costOf(act);
    const said = `${what}: +${cost.grownMb.toFixed(0)} MB, ${cost.busyMs.toFixed(0)} ms (${cost.delayMs.toFixed(0)})`;
    if (process.env['SVC_COSTS'] !== undefined) process.stderr.write(`${said}\n`);
    const isQuick = cost.busyMs <= most.busyMs || cost.busyMs <= most.busyMs * slowness();
    return { ...cost, isWithin: cost.grownMb <= most.grownMb && isQuick };
  };
  return {
    async isBounded(what, act) {
      const seen: Cost[] = [];
      for (let at = 0; at < tries; at += 1) {
        const { isWithin, ...cost } = await seenOf(what, act);
        if (isWithin) return;
        seen.push(cost);
      }
      assert.fail(`${what}: ${JSON.stringify(seen)}`);
    },
    isWithin: async (what, act) => (await seenOf(what, act)).isWithin,
  };
}

/** In the short form, those of this share. */
export const some = <T>(cases: { readonly [what: string]: T }, isShort: (what: string) => boolean): [string, T][] =>
  Object.entries(cases).filter(([what]) => isLong || isShort(what));
