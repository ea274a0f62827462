// A stored spec in the order of the reference: the database keeps keys by their length, which nobody reads by.

import { agent } from '../../../schemas/agent.ts';
import { isExactNumber } from '../../core/match/match.ts';
import { type AnyVariants, type Desc, keysOf } from '../../../schemas/grammar.ts';

type Members = { readonly [key: string]: unknown };
const isMap = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The spec with the fields of every map in the order of their table; what a newer server knows beside them last. */
export const inOrder = (spec: unknown): Members => ordered(agent, Object(spec)) as Members;

function ordered(desc: Desc | undefined, value: unknown): unknown {
  if (Array.isArray(value)) {
    const item = desc?.kind === 'list' ? desc.item : undefined;
    return value.map((one) => ordered(item, one));
  }
  if (desc === undefined || !isMap(value) || isExactNumber(value)) return value;
  if (desc.kind === 'either') return ordered(desc.parts, value);
  if (desc.kind === 'record')
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, ordered(desc.value, one)]));
  if (desc.kind === 'variants') return withFirst(desc, value);
  if (desc.kind !== 'group') return value;
  const known = keysOf(desc).filter((key) => Object.hasOwn(value, key));
  const keys = [...new Set([...known, ...Object.keys(value)])];
  return Object.fromEntries(keys.map((key) => [key, ordered(desc.fields[key], value[key])]));
}

/** What tells the variants apart stands first, as authors write it. */
function withFirst({ by, variants }: AnyVariants, value: Members): Members {
  const name = value[by];
  const desc = typeof name === 'string' && Object.hasOwn(variants, name) ? variants[name] : undefined;
  const sorted = ordered(desc, value) as Members;
  return Object.hasOwn(sorted, by) ? { [by]: sorted[by], ...sorted } : sorted;
}
