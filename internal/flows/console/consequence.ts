// How what would follow is said: one sentence for each kind of thing, with how many there are and what they are called.

import type { Counted } from '../../adapters/store/console/consequences.ts';
import type { Action } from '../../core/plan/types.ts';

export interface Consequence {
  /** What it happens to: `agents`, `sessions`, … */
  readonly kind: string;
  readonly count: number;
  readonly text: string;
  /** The first twenty. */
  readonly names: readonly string[];
}
export interface DryRun {
  readonly consequences: readonly Consequence[];
  /** What would be written, of acts that apply something. */
  readonly actions?: readonly Action[];
  /** Of a rollback and a pin: what would be applied. */
  readonly commit?: string;
}

export const amount = (count: number, noun: string): string =>
  `${count} ${count === 1 ? noun : noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;

/** Nothing where there is none. */
export function countedConsequence(
  kind: string,
  { count, names }: Counted,
  noun: string,
  what: string,
  many = what,
): Consequence[] {
  if (count === 0) return [];
  return [{ kind, count, text: `${amount(count, noun)} ${count === 1 ? what : many}`, names }];
}
export const plainConsequence = (kind: string, text: string, count = 0): Consequence => ({
  kind,
  count,
  text,
  names: [],
});
