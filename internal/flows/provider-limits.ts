// Limits of a provider, kept for all daemons: a limit of one resource blocks that resource of that connection until its
// time; writes go out one after the other. A call waits for its place up to half a minute and is `rate-limited` beyond.

import { setTimeout as sleep } from 'node:timers/promises';
import { blockResource, resetRefusals, limitedForMs, takePlace } from '../adapters/store/outbox/limits.ts';
import type { Fault } from '../domain/fault.ts';
import { outsideFault, ProviderLimited, rateLimited } from '../domain/outside.ts';
import type { FlowContext } from './context.ts';
import { landsWithin } from './in-flight.ts';

const waitMsMax = 30_000;
const triesMax = 4;
/** No provider wants to be left alone for longer; one that says so would be for years, or for longer than there are dates. */
const namedSecondsMax = 86_400;

export interface Slot {
  readonly connectionId: string;
  /** What the call counts against: core, search, graphql, write, a method of a chat provider. */
  readonly resources: readonly string[];
  /** Of the first resource: calls go out so far apart; 0 or absent: at once. */
  readonly spacingMs?: number;
  /** For a write: one that waits when the daemon stops is not sent, and whoever tells it next does. */
  readonly isWrite?: boolean;
}

/**
 * Resolves when the call may go out; true where refusals are counted that its going through ends. Throws Fault `rate-limited`
 * where that is more than half a minute away, and `not-sent` for a write that waits when the daemon stops.
 */
export async function takeSlot(ctx: FlowContext, slot: Slot): Promise<boolean> {
  const { connectionId, resources, spacingMs = 0, isWrite = false } = slot;
  const wait = async (ms: number): Promise<void> => {
    if (!isWrite) await sleep(ms);
    else if (await landsWithin(ctx, ms)) throw outsideFault('not-sent', 'the daemon stops: nothing was sent');
  };
  const until = performance.now() + waitMsMax;
  const rest = (): number => Math.max(0, until - performance.now());
  let isCounted: boolean;
  for (;;) {
    const limited = await limitedForMs(ctx.db, connectionId, resources);
    const { ms } = limited;
    isCounted = limited.isCounted;
    if (ms === 0) break;
    if (ms > rest()) throw rateLimited('the provider limits these calls', ms / 1_000);
    await wait(ms);
  }
  const [resource] = resources;
  if (spacingMs === 0 || resource === undefined) return isCounted;
  const ms = await takePlace(ctx.db, { connectionId, resource, spacingMs, mostMs: rest() });
  if (ms === undefined) throw rateLimited('too many writes wait for their turn', waitMsMax / 1_000);
  if (ms > 0) await wait(ms);
  return isCounted;
}

/**
 * The provider refused a call for its limit, `seconds` being the time that it named: the resource is blocked for all, for a
 * day at most. The Fault is for whoever called, where that is too long to wait.
 */
export async function limitReached(
  ctx: FlowContext,
  of: { readonly connectionId: string; readonly resource: string; readonly seconds: number | undefined },
): Promise<Fault> {
  const { seconds: named } = of;
  const isNamed = named !== undefined && named >= 0;
  const seconds = await blockResource(ctx.db, {
    ...of,
    seconds: isNamed ? Math.min(named, namedSecondsMax) : undefined,
  });
  ctx.runtime.log.warn({ connectionId: of.connectionId, resource: of.resource, seconds }, 'outbox.rate_limited');
  return rateLimited('the provider limits these calls', seconds);
}

/**
 * Sends what a client throws ProviderLimited for where the provider did nothing: when its turn has come, and again where the
 * limit is short. Throws Fault `rate-limited`, and whatever else `send` throws.
 */
export async function withinLimits<T>(
  ctx: FlowContext,
  { connectionId, resource }: { readonly connectionId: string; readonly resource: string },
  send: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const isCounted = await takeSlot(ctx, { connectionId, resources: [resource] });
    try {
      const answer = await send();
      if (tries > 1 || isCounted) await passed(ctx, connectionId, [resource]);
      return answer;
    } catch (error) {
      if (!(error instanceof ProviderLimited)) throw error;
      const fault = await limitReached(ctx, { connectionId, resource, seconds: error.seconds });
      // A wait of half a minute at most is `takeSlot`'s.
      if (tries >= triesMax || (fault.retryAfterSeconds ?? 60) > waitMsMax / 1_000) throw fault;
    }
  }
}

/** A call went through that a limit had stopped before. */
export function passed(ctx: FlowContext, connectionId: string, resources: readonly string[]): Promise<void> {
  return resetRefusals(ctx.db, connectionId, resources);
}
