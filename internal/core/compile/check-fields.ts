// The small fields of an agent (spec, Agent document): session, spend caps, concurrency, manages, and the prompts that
// are rendered against the payload.

import type { AgentSpec } from '../../domain/spec.ts';
import { noPayloadPrefix } from './check-prompts.ts';
import type { Reader } from './read.ts';
import {
  boolean,
  compact,
  faultAt,
  integer,
  listOf,
  optional,
  pathOf,
  required,
  resourceName,
  strict,
  text,
  VARIABLES_ARE_TEXT,
  wrong,
} from './read.ts';

const template: Reader<string> = (check, spot) =>
  noPayloadPrefix(check, spot, text({ trim: true, most: 20_000 })(check, spot));
export const initialPrompt: Reader<string> = template;
/** `infer` is a text like any other here; what it asks for is the session's business. */
export const displayTitle: Reader<string> = template;
export const onReplacePrompt: Reader<string> = text({ trim: true, most: 20_000 });

export const checkSession: Reader<AgentSpec['session']> = (check, spot) => {
  const found = strict(check, spot, ['archiveAfterInactive', 'observeSpawnedSessions']);
  if (found === undefined) return undefined;
  const archiveAfterInactive = optional(check, found, 'archiveAfterInactive', (_, at) => {
    const inner = strict(check, at, ['seconds']);
    const seconds =
      inner && required(check, inner, 'seconds', integer(60, 31_536_000, 'a whole number from 60 to 31,536,000'));
    return seconds === undefined ? undefined : { seconds };
  });
  const observeSpawnedSessions = optional(check, found, 'observeSpawnedSessions', boolean);
  return compact<AgentSpec['session']>({ archiveAfterInactive, observeSpawnedSessions });
};

const SPEND_CAP = /^(\d{1,10})(?:\.(\d{1,10}))?$/;

/** The canonical text of a spend cap: no leading zeros, no trailing ones in the fraction (decision 42); null where it is none. */
export function canonicalCap(written: string): string | null {
  const found = SPEND_CAP.exec(written);
  if (found === null) return null;
  const whole = (found[1] ?? '').replace(/^0+(?=\d)/, '');
  const fraction = (found[2] ?? '').replace(/0+$/, '');
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

const spendCap: Reader<string> = (check, spot) => {
  const value = spot.node.kind === 'scalar' ? spot.node.value : undefined;
  const cap = typeof value === 'string' ? canonicalCap(value) : null;
  if (cap !== null) return cap;
  const hint =
    typeof value === 'number'
      ? 'Put the number in quotes.'
      : 'Write digits, and a point with digits behind it where needed.';
  return wrong(check, spot, 'a nonnegative decimal in quotes, at most 10 digits before and 10 behind the point', {
    code: 'spend-cap',
    hint,
  });
};

export const checkSpendCaps: Reader<NonNullable<AgentSpec['spendCaps']>> = (check, spot) => {
  const found = strict(check, spot, ['dailyUsd', 'monthlyUsd', 'maxPerSessionUsd']);
  if (found === undefined) return undefined;
  return compact<NonNullable<AgentSpec['spendCaps']>>({
    dailyUsd: optional(check, found, 'dailyUsd', spendCap),
    monthlyUsd: optional(check, found, 'monthlyUsd', spendCap),
    maxPerSessionUsd: optional(check, found, 'maxPerSessionUsd', spendCap),
  });
};

export const checkConcurrency: Reader<1> = (check, spot) => {
  if (spot.node.kind === 'scalar' && spot.node.value === 1) return 1;
  const message = `${pathOf(spot.trail)} must be 1, the only value accepted`;
  const isText = spot.node.kind === 'scalar' && typeof spot.node.value === 'string';
  const hint = isText ? VARIABLES_ARE_TEXT : 'Leave it out for an agent without a slot.';
  return faultAt(check, 'concurrency-invalid', message, spot, { hint });
};

export const checkManages = listOf(resourceName, 'a list of agent names', 0, 64);
