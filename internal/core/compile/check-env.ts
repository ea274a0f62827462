// Environment variables of agents and environments (docs/reference/compile.md#environments), as they are stored.

import type { Value } from '../../../schemas/grammar.ts';
import { envMap as env, type secretRef } from '../../../schemas/shared.ts';
import type { EnvMap, SecretRef } from '../../domain/spec.ts';
import { reading } from './read-field.ts';
import type { Reader } from './read.ts';

const canonical = ({ $secret, optional }: Value<typeof secretRef>): SecretRef =>
  optional === true ? { $secret, optional } : { $secret };

/** A map from variable name to a text or to `{ $secret, optional? }`; `optional: false` is what holds without it, and is left out. */
export const envMap: Reader<EnvMap> = (check, spot) => {
  const read = reading(env)(check, spot);
  if (read === undefined) return undefined;
  const kept: { [name: string]: string | SecretRef } = Object.create(null);
  for (const [name, value] of Object.entries(read)) kept[name] = typeof value === 'string' ? value : canonical(value);
  return kept;
};
