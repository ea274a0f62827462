// Environment variables of agents and environments (docs/reference/compile.md#environments), as they are stored.

import type { Value } from '../../../schemas/grammar.ts';
import { envMap as env, type secretRef } from '../../../schemas/shared.ts';
import type { EnvMap, SecretRef } from '../../domain/spec.ts';
import { reading } from './read-field.ts';
import type { Check, NodeRef, Reader } from './read.ts';
import { faultAt, field, pathOf } from './read.ts';

const canonical = ({ $secret, optional }: Value<typeof secretRef>): SecretRef =>
  optional === true ? { $secret, optional } : { $secret };

/** The value itself is not repeated: it may be a credential that somebody wrote in the clear. */
function refuseNul(check: Check, spot: NodeRef, name: string): void {
  const at = spot.node.kind === 'map' ? (field({ ...spot, node: spot.node }, name) ?? spot) : spot;
  const message = `${pathOf(at.trail)} holds a NUL character, which no environment can`;
  faultAt(check, 'invalid-value', message, at, { hides: at.node.range });
}

/** A map from variable name to a text or to `{ $secret, optional? }`; `optional: false` is what holds without it, and is left out. */
export const envMap: Reader<EnvMap> = (check, spot) => {
  const read = reading(env)(check, spot);
  if (read === undefined) return undefined;
  const kept: { [name: string]: string | SecretRef } = Object.create(null);
  for (const [name, value] of Object.entries(read)) {
    kept[name] = typeof value === 'string' ? value : canonical(value);
    if (typeof value === 'string' && value.includes('\0')) refuseNul(check, spot, name);
  }
  return kept;
};
