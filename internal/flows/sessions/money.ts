// What model calls may cost and have cost (docs/reference/sessions.md#spending): a call is noted before it is sent and
// entered in the ledger when it has ended. Calls of one agent decide about its caps one after the other, under a lock. While
// what is spent and what calls in flight may come to would reach a cap, the next call waits for them; so a cap is passed by
// one call at most, and no call is refused that there is money for.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  abandonedCalls,
  currentCaps,
  dearestToken,
  dropCall,
  lockMoney,
  openCall,
  type OpenCall,
  recordCall,
  type Spender,
  type Spendings,
  spendings,
  type UsageSum,
  usageOf,
  usageOfSessions,
} from '../../adapters/store/sessions/ledger.ts';
import type { Sql } from '../../adapters/store/store.ts';
import {
  type CapDecision,
  type CapRefusal,
  costOf,
  decideCaps,
  hasCaps,
  parseUsd,
  priceOf,
  printUsd,
  type SpendCaps,
  type Usage,
  type Usd,
  unknownPrice,
  worstCost,
} from '../../core/money/money.ts';
import type { PriceRow } from '../../domain/price.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import { persist } from '../persist.ts';

type MoneyContext = Pick<FlowContext, 'db' | 'runtime'>;

/** A call that is about to be made. */
export interface CallIntent {
  /** Made for this call alone. */
  readonly requestId: string;
  readonly spender: Spender;
  readonly model: ModelSpec;
  /** The ids that it will try, in order. */
  readonly models: readonly string[];
  /** The caps that the session was started with: they hold where the agent is gone. */
  readonly caps: SpendCaps | undefined;
  /** Counted from the request. */
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
}
export type Authorization =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      /** `busy`: the calls before it took too long; try again. */
      readonly kind: 'capped' | 'busy';
      readonly code: 'spend-cap' | 'price-unknown' | 'cost-unknown' | 'cap-contended';
      /** For people and for the model. */
      readonly message: string;
      readonly refusal?: CapRefusal;
    };
export interface CallOutcome {
  /** The id that answered. */
  readonly model: string;
  readonly usage: Usage;
}

/** What the gateway asks before and tells after each call. */
export interface MoneyPorts {
  /** Notes the call and lets it go, or says why not; may wait for other calls. Throws Fault, or the signal's reason. */
  authorize(call: CallIntent, signal: AbortSignal): Promise<Authorization>;
  /**
   * Ends a call that was let go: enters it in the ledger, once, whatever happens in between; null for one that cost
   * nothing. Answers with the cap that is reached now. Throws Fault where the database stays away.
   */
  settle(call: CallIntent, outcome: CallOutcome | null): Promise<CapRefusal | null>;
  /** Enters what a host that is gone left in flight: the input at its price, as an estimate. Call it before a session's first call. */
  takeOver(sessionId: string): Promise<void>;
}

const waitMaxMs = 300_000;
const waitStepsMs = [50, 100, 200, 400, 800] as const;

/** The ports over the ledger, with a table of prices. */
export function moneyPorts(ctx: MoneyContext, prices: readonly PriceRow[]): MoneyPorts {
  return {
    // A harness waits for both.
    authorize: (call, signal) =>
      authorize({ ...ctx, db: ctx.db.ownedBy(call.spender.projectId).oneCall() }, prices, call, signal),
    settle: (call, outcome) =>
      settle({ ...ctx, db: ctx.db.ownedBy(call.spender.projectId).calls }, prices, call, outcome),
    takeOver: (sessionId) => takeOverCalls(ctx, prices, sessionId),
  };
}

/**
 * May a session be launched, or go on? Null where it may; else why not. `refusal` is there where a cap is reached, and
 * says when it opens.
 */
export async function checkMoney(
  ctx: MoneyContext,
  prices: readonly PriceRow[],
  session: { readonly spender: Spender; readonly model: ModelSpec; readonly caps: SpendCaps | undefined },
): Promise<{ readonly message: string; readonly refusal?: CapRefusal } | null> {
  const caps = (await currentCaps(ctx.db, session.spender.agentId)) ?? session.caps;
  if (!hasCaps(caps)) return null;
  const now = ctx.runtime.now();
  const message = unknownPrice(prices, session.model, caps, now);
  if (message !== undefined) return { message };
  const refusal = await reachedCap(ctx.db, caps, session.spender, now);
  return refusal === null ? null : { message: refusal.message, refusal };
}

/** What a session, an agent or a project has used; of the last two from one UTC day (`YYYY-MM-DD`) on, when given. */
export async function usageSummary(
  ctx: Pick<FlowContext, 'db'>,
  of: { readonly sessionId: string } | { readonly agentId: string } | { readonly projectId: string },
  since?: string,
): Promise<UsageSum> {
  const sum = await usageOf(ctx.db, of, since);
  return { ...sum, costUsd: printUsd(amount(sum.costUsd)) };
}

/** What each of these sessions has used, in one read: a page of sessions. */
export async function usageOfMany(
  ctx: Pick<FlowContext, 'db'>,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, UsageSum>> {
  const sums = await usageOfSessions(ctx.db, sessionIds);
  const found = (id: string): UsageSum => {
    const sum = sums.get(id);
    return sum === undefined ? noUsage : { ...sum, costUsd: printUsd(amount(sum.costUsd)) };
  };
  return new Map(sessionIds.map((id) => [id, found(id)]));
}

/** Of whom nothing was asked yet. */
export const noUsage: UsageSum = {
  calls: 0,
  unpricedCalls: 0,
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd: '0',
};

/** What an agent or a project has used: this UTC day, this UTC month, and ever. */
export interface Spending {
  readonly day: UsageSum;
  readonly month: UsageSum;
  readonly total: UsageSum;
}

/** Sums of the ledger, costs as decimal strings of US dollars; days and months are those of UTC. */
export async function spendingOf(
  ctx: Pick<FlowContext, 'db' | 'runtime'>,
  of: { readonly agentId: string } | { readonly projectId: string },
): Promise<Spending> {
  const day = ctx.runtime.now().toISOString().slice(0, 10);
  const since = [day, `${day.slice(0, 8)}01`, undefined];
  const [today, month, total] = await Promise.all(since.map((from) => usageSummary(ctx, of, from)));
  return { day: today as UsageSum, month: month as UsageSum, total: total as UsageSum };
}

async function authorize(
  ctx: MoneyContext,
  prices: readonly PriceRow[],
  call: CallIntent,
  signal: AbortSignal,
): Promise<Authorization> {
  const row = await openRow(ctx, prices, call);
  let waitedMs = 0;
  for (let turn = 0; ; turn += 1) {
    // Each time anew: caps that were changed while it waits hold for it too.
    const caps = (await currentCaps(ctx.db, call.spender.agentId)) ?? call.caps;
    if (!hasCaps(caps)) {
      await openCall(ctx.db, row);
      return { allowed: true };
    }
    const message = unknownPrice(prices, call.model, caps, row.startedAt);
    if (message !== undefined) return { allowed: false, kind: 'capped', code: 'price-unknown', message };
    const decision = await openUnderCaps(ctx, caps, row);
    if (decision.kind !== 'wait') return verdict(decision);
    if (waitedMs >= waitMaxMs) return contended;
    const stepMs = waitStepsMs[Math.min(turn, waitStepsMs.length - 1)] ?? 0;
    await sleep(stepMs, undefined, { signal });
    waitedMs += stepMs;
  }
}

const contended: Authorization = {
  allowed: false,
  kind: 'busy',
  code: 'cap-contended',
  message: 'A spend cap is nearly reached, and the calls in flight may use it up; try again when they have ended.',
};

function verdict(decision: Exclude<CapDecision, { kind: 'wait' }>): Authorization {
  if (decision.kind === 'allow') return { allowed: true };
  if (decision.kind === 'refuse') {
    const { refusal } = decision;
    return { allowed: false, kind: 'capped', code: 'spend-cap', message: refusal.message, refusal };
  }
  return {
    allowed: false,
    kind: 'capped',
    code: 'cost-unknown',
    message:
      'A spend cap is set, and the cost of several calls of this session is not known: they were cut before the provider told it. ' +
      'Add a price for the model under providers.model.prices of the configuration.',
  };
}

/** The call in flight, with what it may come to: the dearest of the models that it may try. */
async function openRow(ctx: MoneyContext, prices: readonly PriceRow[], call: CallIntent): Promise<OpenCall> {
  const startedAt = ctx.runtime.now();
  const { provider } = call.model;
  let reserved: Usd | null = 0n;
  for (const id of call.models) {
    const price = priceOf(prices, provider, id, startedAt);
    const rate = price === undefined ? await toldRate(ctx, call.model, id) : null;
    const worst =
      price === undefined
        ? rate && rate * BigInt(call.inputTokens + call.maxOutputTokens)
        : worstCost(price, call.inputTokens, call.maxOutputTokens);
    if (worst === null) reserved = null;
    else if (reserved !== null && worst > reserved) reserved = worst;
  }
  return {
    ...call.spender,
    requestId: call.requestId,
    startedAt,
    provider,
    model: call.models[0] ?? call.model.id,
    inputTokens: call.inputTokens,
    reservedUsd: reserved === null ? null : printUsd(reserved),
  };
}

/** What a provider that tells costs has lately said of a token of this model. */
async function toldRate(ctx: MoneyContext, { provider }: ModelSpec, id: string): Promise<Usd | null> {
  const rate = await dearestToken(ctx.db, provider, id);
  return rate === null ? null : amount(rate);
}

function openUnderCaps(ctx: MoneyContext, caps: SpendCaps, row: OpenCall): Promise<CapDecision> {
  return ctx.db.tx(async (tx) => {
    await lockMoney(tx, row.agentId);
    const now = ctx.runtime.now();
    const sums = await spendings(tx, row, now);
    const reserved = {
      session: amount(sums.reservedSession),
      day: amount(sums.reserved),
      month: amount(sums.reserved),
    };
    const decision = decideCaps(caps, spentOf(sums), reserved, now);
    if (decision.kind !== 'allow') return decision;
    // Of a model whose costs nobody knows yet, one call at a time.
    if (row.reservedUsd === null && sums.unreservedCalls > 0) return { kind: 'wait' };
    await openCall(tx, row);
    return decision;
  });
}

const spentOf = (sums: Spendings) => ({
  session: amount(sums.session),
  day: amount(sums.day),
  month: amount(sums.month),
  unpricedCalls: sums.unpricedCalls,
});

async function reachedCap(sql: Sql, caps: SpendCaps, of: Spender, now: Date): Promise<CapRefusal | null> {
  const decision = decideCaps(caps, spentOf(await spendings(sql, of, now)), { session: 0n, day: 0n, month: 0n }, now);
  return decision.kind === 'refuse' ? decision.refusal : null;
}

async function settle(
  ctx: MoneyContext,
  prices: readonly PriceRow[],
  call: CallIntent,
  outcome: CallOutcome | null,
): Promise<CapRefusal | null> {
  // Recording is idempotent by its request id.
  return persist(async () => {
    if (outcome === null) {
      await dropCall(ctx.db, call.requestId);
      return null;
    }
    const at = ctx.runtime.now();
    await enter(ctx, prices, call, outcome, at);
    const caps = (await currentCaps(ctx.db, call.spender.agentId)) ?? call.caps;
    return hasCaps(caps) ? reachedCap(ctx.db, caps, call.spender, at) : null;
  });
}

async function enter(
  ctx: MoneyContext,
  prices: readonly PriceRow[],
  call: Pick<CallIntent, 'requestId' | 'spender' | 'model'>,
  { model, usage }: CallOutcome,
  at: Date,
): Promise<void> {
  const { provider } = call.model;
  const price = priceOf(prices, provider, model, at);
  const known = costOf(usage, price);
  const told = usage.reportedUsd !== undefined && parseUsd(usage.reportedUsd) !== undefined;
  const rate = known === undefined ? await toldRate(ctx, call.model, model) : null;
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = usage;
  const tokens = BigInt(inputTokens + outputTokens + cacheReadTokens + cacheWriteTokens);
  const cost = known ?? (rate === null ? null : rate * tokens);
  await recordCall(ctx.db, {
    ...call.spender,
    requestId: call.requestId,
    at,
    provider,
    model,
    inputTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    costUsd: cost === null ? null : printUsd(cost),
    estimated: usage.estimated || rate !== null,
    priceDate: told || price === undefined ? null : price.from,
  });
}

async function takeOverCalls(ctx: MoneyContext, prices: readonly PriceRow[], sessionId: string): Promise<void> {
  const now = ctx.runtime.now();
  for (const row of await abandonedCalls(ctx.db, sessionId, now)) {
    const { requestId, provider, model, inputTokens, startedAt } = row;
    const usage = { inputTokens, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, estimated: true };
    const { projectId, agentId, agentName, sessionId: owner } = row;
    const spender = { projectId, agentId, agentName, sessionId: owner };
    await enter(ctx, prices, { requestId, spender, model: { provider, id: model } }, { model, usage }, startedAt);
  }
}

function amount(text: string): Usd {
  const value = parseUsd(text);
  if (value === undefined) throw new RangeError('the ledger holds what is no amount');
  return value;
}
