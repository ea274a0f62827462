// A launch that may end the process, a turn, and the making of a successor, which reads what once came in: noted before it begins,
// tried with nothing beside it after two unclean ends in a row, and after a third the session is failed
// (docs/reference/sessions.md#states), the slot left as it is. A turn is in hand in its first seconds; what ends the process later
// in it wears its messages out. The unclean ends of a session are forgotten with its end alone (`endSessionRow`): a daemon that
// ends between the two comes to the same.

import { clearSuspects, parkedSuspect, turnSuspect } from '../../adapters/store/operations/in-hand.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { type ReplaceableSlot, successorSuspect } from '../../adapters/store/sessions/upkeep.ts';
import { failpoint } from '../../base/failpoint.ts';
import { within } from '../../base/waits.ts';
import type { FlowContext } from '../context.ts';
import { aloneAtEnds, endedTheProcess, gateOf, parkedAtEnds, putDown, takeInHand } from '../in-hand.ts';

/** Its launches have ended the process three times in a row: there is no other. */
export class Parked extends Error {
  constructor() {
    super(endedTheProcess);
  }
}

/**
 * Launches as the session's past allows: beside others, alone, or not at all. Throws Parked, what `act` throws, and the signal's
 * reason where that comes before it begins.
 */
export function withLaunchInHand<T>(
  ctx: FlowContext,
  session: ClaimedSession,
  act: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const { sessionId: id, agent } = session;
  const parked = async (): Promise<never> => {
    ctx.runtime.log.error({ sessionId: id, agent }, 'session.parked');
    throw new Parked();
  };
  return inHand(ctx, session, { id, point: 'session.launch', act, parked, signal });
}

/** A turn may take an hour, which nothing can wait for, nor for what is tried alone (10 s); what it was told ends the process soon. */
const turnInHandMs = 8_000;

/** Sees a turn through that begins in the same ways. One that is parked is not begun, and fails its session. */
export async function withTurnInHand<T>(
  ctx: FlowContext,
  session: ClaimedSession,
  act: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T | { readonly kind: 'failed'; readonly reason: string }> {
  const { sessionId, agent } = session;
  const id = turnSuspect(sessionId);
  let turn: Promise<T> | undefined;
  const begin = async (): Promise<void> => {
    turn = act();
    await within(turn, turnInHandMs).catch(() => undefined);
  };
  const parked = async (): Promise<void> => {
    ctx.runtime.log.error({ sessionId, agent }, 'session.turn_parked');
  };
  try {
    await inHand(ctx, session, { id, point: 'session.turn', act: begin, parked, signal });
  } catch (error) {
    // A turn that goes on does so whatever became of its note.
    if (turn === undefined) throw error;
  }
  return turn ?? { kind: 'failed', reason: endedTheProcess };
}

/** Makes a successor in the same ways. One that is parked is passed by until its agent has another revision or session. */
export function withSuccessorInHand(
  ctx: FlowContext,
  slot: ReplaceableSlot,
  act: () => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const id = successorSuspect(slot);
  const { sessionId, agent } = slot;
  const parked = async (): Promise<void> => {
    const isNew = await parkedSuspect(ctx.db, 'session', id);
    if (isNew) ctx.runtime.log.error({ sessionId, agent }, 'session.successor_parked');
  };
  return inHand(ctx, slot, { id, point: 'session.replace', act, parked, signal });
}

interface Piece<T> {
  readonly id: string;
  /** Where a test has it end the process. */
  readonly point: string;
  act(): Promise<T>;
  /** In place of `act`, after the third unclean end. */
  parked(): Promise<T>;
  /** From then on nobody wants it, where it has not begun. */
  readonly signal: AbortSignal | undefined;
}

async function inHand<T>(
  ctx: FlowContext,
  { sessionId, agent }: Pick<ReplaceableSlot, 'sessionId' | 'agent'>,
  { id, point, act, parked, signal }: Piece<T>,
): Promise<T> {
  const { log } = ctx.runtime;
  const taken = { kind: 'session', lane: `session:${id}`, ids: [id] } as const;
  const ends = (await takeInHand(ctx, taken)).get(id) ?? 0;
  const run = async (): Promise<T> => {
    failpoint(point, agent);
    try {
      return await act();
    } finally {
      // However it ended, it did so by itself.
      if (ends > 0) await clearSuspects(ctx.db, 'session', [id]);
    }
  };
  try {
    if (ends >= parkedAtEnds) return await parked();
    if (ends < aloneAtEnds) {
      const leave = await gateOf(ctx).enter(signal);
      return await run().finally(leave);
    }
    log.warn({ sessionId, agent, at: point }, 'session.tried_alone');
    return await gateOf(ctx).alone(async () => {
      try {
        await takeInHand(ctx, { ...taken, alone: true });
        return await run();
      } finally {
        // Before others are let in again: what ends the process then would count for this one, as its third end.
        await putDown(ctx, taken.lane);
      }
    }, signal);
  } finally {
    await putDown(ctx, taken.lane);
  }
}
