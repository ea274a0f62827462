// Every write to the outside goes through here (docs/reference/tools.md#the-code-host): a row is committed before anything is
// sent, each step is sent at most once, an outcome that nobody knows is looked for once, and told as `outcome-unknown` where
// it is not found. Keys of a session make repeats one call. Decides nothing about a provider: a write brings what is sent,
// and `ctx.outbox.readers[provider]` looks whether a step arrived, also for a daemon that was killed in between. Never sends
// again by itself and never keeps a text, a token or an input: `probe` holds ids, names and hashes.
//
// How to use it: `performWrite(ctx, {…, run: (step, callId) => step({probe, last: true}, send)})`, where `send` throws Fault
// for a refusal and OutcomeUnknown where it may have arrived; `performRead` for what changes nothing; `takeSlot`/`limited`
// for a provider's limits (provider-limits.ts).

import { type CallRow, forgetCalls, settleWrite, takeAbandoned } from '../../adapters/store/outbox/calls.ts';
import type { FlowContext } from '../context.ts';
import { roomFor } from '../in-flight.ts';
import { type Note, processInHand } from '../in-hand.ts';
import { findStep } from './write.ts';

export { type Call, performRead, refusedBefore } from './read.ts';
export { limitReached, passed, takeSlot, withinLimits } from '../provider-limits.ts';
export { performSessionWrite, performWrite, type Step, type Write } from './write.ts';

// Writes whose daemon is gone: what was never handed to the network is `refused` with `not-sent`; any other is looked for
// once and becomes `done` or `unknown`. None stays `sending`.

const batch = 50;
const leaseSeconds = 60;
const dayMs = 24 * 60 * 60 * 1_000;
/** Calls of no session; those of a session go with it. */
const keptMs = 30 * dayMs;

/** Resolves a batch; answers with how many there were. */
export async function resolveAbandoned(ctx: FlowContext): Promise<number> {
  const rows = await takeAbandoned(ctx.db, { daemonId: ctx.daemonId, leaseSeconds, ...roomFor(ctx, 'call', batch) });
  await processInHand(ctx, {
    kind: 'call',
    rows,
    leaseSeconds,
    idOf: ({ id }) => id,
    nameOf: ({ tool }) => tool,
    projectOf: ({ projectId }) => projectId,
    tell: (row) => resolve(ctx, row),
    // Nobody looks for it any more, so nobody knows.
    park: async ({ id }) => {
      const none = { url: null, answer: null };
      await settleWrite(ctx.db, { id, daemonId: ctx.daemonId, status: 'unknown', code: 'outcome-unknown', ...none });
    },
  });
  return rows.length;
}

async function resolve(ctx: FlowContext, row: CallRow): Promise<Note> {
  const { id, probe } = row;
  const of = { id, daemonId: ctx.daemonId, code: null, url: null, answer: null } as const;
  if (row.handedAt === null || probe === null) {
    return async () => {
      await settleWrite(ctx.db, { ...of, status: 'refused', code: 'not-sent' });
      ctx.runtime.log.info({ callId: id }, 'outbox.not_sent');
    };
  }
  // Of a write of several steps, one that is not the last says nothing of the others.
  const found = probe['last'] === true ? await findStep(ctx, { ...row, probe }) : undefined;
  const isFound = found !== undefined;
  const status = isFound ? 'done' : 'unknown';
  const ended = { status, code: isFound ? null : 'outcome-unknown', url: found?.url ?? null } as const;
  return async () => {
    await settleWrite(ctx.db, { ...of, ...ended, answer: found?.answer ?? null });
    ctx.runtime.log.info({ callId: id, isFound }, 'outbox.resolved');
  };
}

/** Forgets calls of no session that are long over. */
export async function forgetOldCalls(ctx: FlowContext): Promise<void> {
  await forgetCalls(ctx.db, new Date(ctx.runtime.now().getTime() - keptMs), 1_000);
}
