// Environment variables of agents and environments (docs/reference/compile.md#environments).

import { ENV_NAME, envMap as env, secretRef } from '../../../schemas/shared.ts';
import type { EnvMap, SecretRef } from '../../domain/spec.ts';
import { reading } from './read-field.ts';
import type { Check, Reader, NodeRef } from './read.ts';
import { fault, faultAt, pathOf, recordOf } from './read.ts';

const NAME = new RegExp(`^${ENV_NAME}$`);

/** A map from variable name to a text or to `{ $secret, optional? }`. */
export const envMap: Reader<EnvMap> = recordOf(value, env.what);

function value(check: Check, spot: NodeRef, key: string): string | SecretRef | undefined {
  if (!NAME.test(key)) {
    const message = `${pathOf(spot.trail)}: an environment variable name is letters, digits and _, and does not begin with a digit`;
    return fault(check, 'invalid-value', message, spot.key, pathOf(spot.trail));
  }
  if (spot.node.kind === 'scalar' && typeof spot.node.value === 'string') return spot.node.value;
  if (spot.node.kind === 'map') return readSecretRef(check, spot);
  // The value itself is not repeated: it may be a credential that somebody wrote in the clear.
  const message = `${pathOf(spot.trail)} must be a text or { $secret: <name> }`;
  return faultAt(check, 'invalid-type', message, spot, {
    hint: 'Put a number or true/false in quotes.',
    hides: spot.node.range,
  });
}

function readSecretRef(check: Check, spot: NodeRef): SecretRef | undefined {
  const found = reading(secretRef)(check, spot);
  if (found === undefined) return undefined;
  return found.optional === true ? { $secret: found.$secret, optional: true } : { $secret: found.$secret };
}
