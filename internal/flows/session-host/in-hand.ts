// A launch that may end the process: noted before it begins, tried with nothing beside it after two unclean ends in a row, and
// after a third the session is failed (docs/reference/sessions.md#states). What ends the process later, in a turn, wears the turn's
// messages out.

import { clearSuspects } from '../../adapters/store/operations/in-hand.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { FlowContext } from '../context.ts';
import { aloneAtEnds, endedTheProcess, gateOf, parkedAtEnds, putDown, takeInHand } from '../in-hand.ts';

/** Its launches have ended the process three times in a row: there is no other. */
export class Parked extends Error {
  constructor() {
    super(endedTheProcess);
  }
}

/** Launches as the session's past allows: beside others, alone, or not at all. Throws Parked, and what \`act\` throws. */
export async function withLaunchInHand<T>(
  ctx: FlowContext,
  session: ClaimedSession,
  act: () => Promise<T>,
): Promise<T> {
  const { sessionId, agent } = session;
  const taken = { kind: 'session', lane: `session:${sessionId}`, ids: [sessionId] } as const;
  const ends = (await takeInHand(ctx, taken)).get(sessionId) ?? 0;
  const run = async (): Promise<T> => {
    failpoint('session.launch', agent);
    return act();
  };
  try {
    if (ends >= parkedAtEnds) {
      ctx.runtime.log.error({ sessionId, agent }, 'session.parked');
      throw new Parked();
    }
    if (ends < aloneAtEnds) {
      const leave = await gateOf(ctx).enter();
      return await run().finally(leave);
    }
    ctx.runtime.log.warn({ sessionId, agent }, 'session.tried_alone');
    return await gateOf(ctx).alone(async () => {
      await takeInHand(ctx, { ...taken, alone: true });
      return run();
    });
  } finally {
    // However the launch ended, it did so by itself.
    await putDown(ctx, taken.lane);
    if (ends > 0) await clearSuspects(ctx.db, 'session', [sessionId]);
  }
}
