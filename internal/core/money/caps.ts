// Spend caps (docs/reference/sessions.md#spending): may a session call its model now?

import type { AgentSpec } from '../../domain/spec.ts';
import { parseUsd, printUsd, roundUsd, type Usd } from './decimal.ts';

export type SpendCaps = NonNullable<AgentSpec['spendCaps']>;
export type CapName = 'maxPerSessionUsd' | 'dailyUsd' | 'monthlyUsd';

/** What was spent under each cap. */
export interface Spent {
  readonly session: Usd;
  /** By all sessions of the agent, on this UTC day and in this UTC month. */
  readonly day: Usd;
  readonly month: Usd;
  /** Calls of the session of which nobody knows the cost. */
  readonly unpricedCalls: number;
}

export interface CapRefusal {
  readonly cap: CapName;
  readonly spentUsd: string;
  readonly limitUsd: string;
  /** When the cap opens by itself; null for that of a session, which never does. */
  readonly resetsAt: Date | null;
  /** For people and for the model. */
  readonly message: string;
}
/**
 * `refuse`: a cap is reached. `wait`: it would be reached if the calls in flight came to all they may.
 * `unpriced`: too much of what was spent is not known.
 */
export type CapDecision =
  | { readonly kind: 'allow' }
  | { readonly kind: 'refuse'; readonly refusal: CapRefusal }
  | { readonly kind: 'wait' }
  | { readonly kind: 'unpriced' };

/** Under a cap, so many calls of a session may have an unknown cost before the next is refused. */
export const unpricedCallsMax = 3;

const capRules: readonly { readonly name: CapName; readonly of: keyof Spent & ('session' | 'day' | 'month') }[] = [
  { name: 'maxPerSessionUsd', of: 'session' },
  { name: 'dailyUsd', of: 'day' },
  { name: 'monthlyUsd', of: 'month' },
];
const words = {
  maxPerSessionUsd: 'for the session',
  dailyUsd: 'for the day (UTC)',
  monthlyUsd: 'for the month (UTC)',
} as const;

export const hasCaps = (caps: SpendCaps | undefined): caps is SpendCaps =>
  caps !== undefined && capRules.some(({ name }) => caps[name] !== undefined);

/**
 * Allows a call while less than every cap is spent. A cap of 0 allows nothing. `reserved` is what calls in flight may
 * come to: while they and what is spent would reach a cap, further calls wait for them, so that together they pass a cap
 * by one call at most. Of several reached caps the one that stays closed longest is named.
 */
export function decideCaps(
  caps: SpendCaps,
  spent: Spent,
  reserved: Omit<Spent, 'unpricedCalls'>,
  now: Date,
): CapDecision {
  let refusal: CapRefusal | undefined;
  let full = false;
  for (const { name, of } of capRules) {
    const text = caps[name];
    const limit = text === undefined ? undefined : parseUsd(text);
    if (limit === undefined) continue;
    if (spent[of] < limit) full ||= spent[of] + reserved[of] >= limit;
    else refusal = longer(refusal, refuse(name, spent[of], limit, now));
  }
  if (refusal !== undefined) return { kind: 'refuse', refusal };
  if (hasCaps(caps) && spent.unpricedCalls >= unpricedCallsMax) return { kind: 'unpriced' };
  return { kind: full ? 'wait' : 'allow' };
}

const longer = (a: CapRefusal | undefined, b: CapRefusal): CapRefusal =>
  a !== undefined && (a.resetsAt === null || (b.resetsAt !== null && b.resetsAt <= a.resetsAt)) ? a : b;

function refuse(cap: CapName, spent: Usd, limit: Usd, now: Date): CapRefusal {
  const resetsAt = resetOf(cap, now);
  const until = resetsAt === null ? 'it does not reset' : `it resets at ${resetsAt.toISOString()}`;
  return {
    cap,
    spentUsd: printUsd(spent),
    limitUsd: printUsd(limit),
    resetsAt,
    message: `Spend cap reached: ${cap} allows ${printUsd(limit)} USD ${words[cap]}, ${roundUsd(spent)} USD are spent; ${until}.`,
  };
}

function resetOf(cap: CapName, now: Date): Date | null {
  if (cap === 'maxPerSessionUsd') return null;
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return new Date(cap === 'dailyUsd' ? Date.UTC(year, month, now.getUTCDate() + 1) : Date.UTC(year, month + 1, 1));
}
