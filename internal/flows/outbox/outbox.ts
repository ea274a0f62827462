// Every write to the outside goes through here (docs/reference/connections.md#connections, Calls): a row is committed before anything is sent,
// each step is sent at most once, an outcome that nobody knows is looked for once, and told as `outcome-unknown` where it
// is not found. Keys of a session make repeats one call. Decides nothing about a provider: a write brings what is sent,
// and `ctx.outbox.readers[provider]` looks whether a step arrived, also for a daemon that was killed in between.
// Never sends again by itself and never keeps a text, a token or an input: `probe` holds ids, names and hashes.
//
// How to use it: `performWrite(ctx, {…, run: (step, callId) => step({probe, last: true}, send)})`, where `send` throws
// Fault for a refusal and OutcomeUnknown where it may have arrived; `performRead` for what changes nothing;
// `takeSlot`/`limited` for a provider's limits (limits.ts).

export { type Call, performRead, refusedBefore } from './read.ts';
export { limitReached, passed, takeSlot, withinLimits } from './limits.ts';
export { forgetOldCalls, resolveAbandoned } from './resolve.ts';
export { performWrite, type Step, type Write, type Written } from './write.ts';
