// Spend caps (docs/reference/compile.md#text-and-limits): decimals as texts, kept in one spelling.

import type { AgentSpec } from '../../domain/spec.ts';
import { spendCaps } from '../../../schemas/agent.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { readFields } from './read-field.ts';
import type { Reader } from './read.ts';
import { compact, strict, wrong } from './read.ts';

const SPEND_CAP = /^(\d{1,10})(?:\.(\d{1,10}))?$/;

/** The canonical text of a spend cap: no leading zeros, no trailing ones in the fraction (docs/reference/compile.md#text-and-limits); null where it is none. */
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
  return wrong(check, spot, spendCaps.fields.dailyUsd.what, {
    code: spendCaps.fields.dailyUsd.code,
    hint,
  });
};

/** `wrong` says what a cap is; where a number stands, that quotes are missing. */
export const checkSpendCaps: Reader<NonNullable<AgentSpec['spendCaps']>> = (check, spot) => {
  const found = strict(check, spot, keysOf(spendCaps));
  const caps = { dailyUsd: spendCap, monthlyUsd: spendCap, maxPerSessionUsd: spendCap };
  return found && compact(readFields(check, found, spendCaps.fields, caps));
};
