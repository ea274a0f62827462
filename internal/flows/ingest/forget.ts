// What intake remembers of providers' things, kept to those that are alive.

import { forgetFacts } from '../../adapters/store/connections/provider-facts.ts';
import type { FlowContext } from '../context.ts';

const batchMax = 5_000;

/** Forgets the facts that no delivery has said for half a year, a batch a statement; the number that went. */
export async function forgetOldFacts(ctx: FlowContext, signal: AbortSignal): Promise<number> {
  let total = 0;
  for (let gone: number = batchMax; gone >= batchMax && !signal.aborted; total += gone) {
    gone = await forgetFacts(ctx.db, ctx.runtime.now(), batchMax);
  }
  if (total > 0) ctx.runtime.log.info({ facts: total }, 'intake.facts_forgotten');
  return total;
}
