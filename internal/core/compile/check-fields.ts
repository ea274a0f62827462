// The small fields of an agent (docs/reference/compile.md#files): session, spend caps, concurrency, manages, and the prompts that
// are rendered against the payload.

import type { AgentSpec } from '../../domain/spec.ts';
import { initialPrompt as initialPromptField, manages, onReplace, session, spendCaps } from '../../../schemas/agent.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { noPayloadPrefix } from './check-prompts.ts';
import { readFields, reading } from './read-field.ts';
import type { Reader } from './read.ts';
import { compact, faultAt, pathOf, strict, VARIABLES_ARE_TEXT, wrong } from './read.ts';

const template: Reader<string> = (check, spot) =>
  noPayloadPrefix(check, spot, reading(initialPromptField)(check, spot));
export const initialPrompt: Reader<string> = template;
/** `infer` is a text like any other here; what it asks for is the session's business. */
export const displayTitle: Reader<string> = template;
export const onReplacePrompt: Reader<string> = reading(onReplace);

export const checkSession: Reader<AgentSpec['session']> = reading(session);

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

export const checkConcurrency: Reader<1> = (check, spot) => {
  if (spot.node.kind === 'scalar' && spot.node.value === 1) return 1;
  const message = `${pathOf(spot.trail)} must be 1, the only value accepted`;
  const isText = spot.node.kind === 'scalar' && typeof spot.node.value === 'string';
  const hint = isText ? VARIABLES_ARE_TEXT : 'Leave it out for an agent without a slot.';
  return faultAt(check, 'concurrency-invalid', message, spot, { hint });
};

export const checkManages: Reader<readonly string[]> = reading(manages);
