// Environment variables of agents and environments (spec, Environment variables).

import type { EnvMap, SecretRef } from '../../domain/spec.ts';
import type { Check, Reader, NodeRef } from './read.ts';
import { boolean, faultAt, fault, optional, pathOf, recordOf, required, resourceName, strict } from './read.ts';

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A map from variable name to a text or to `{ $secret, optional? }`. */
export const envMap: Reader<EnvMap> = recordOf(value, 'a map from variable names to texts or secret references');

function value(check: Check, spot: NodeRef, key: string): string | SecretRef | undefined {
  if (!NAME.test(key)) {
    const message = `${pathOf(spot.trail)}: an environment variable name is letters, digits and _, and does not begin with a digit`;
    return fault(check, 'invalid-value', message, spot.key, pathOf(spot.trail));
  }
  if (spot.node.kind === 'scalar' && typeof spot.node.value === 'string') return spot.node.value;
  if (spot.node.kind === 'map') return secretRef(check, spot);
  // The value itself is not repeated: it may be a credential that somebody wrote in the clear.
  const message = `${pathOf(spot.trail)} must be a text or { $secret: <name> }`;
  return faultAt(check, 'invalid-type', message, spot, {
    hint: 'Put a number or true/false in quotes.',
    hides: spot.node.range,
  });
}

function secretRef(check: Check, spot: NodeRef): SecretRef | undefined {
  const found = strict(check, spot, ['$secret', 'optional']);
  if (found === undefined) return undefined;
  const $secret = required(check, found, '$secret', resourceName);
  const isOptional = optional(check, found, 'optional', boolean);
  if ($secret === undefined) return undefined;
  return isOptional === true ? { $secret, optional: true } : { $secret };
}

/** `{ $secret: <name> }` alone, as a bearer token is written. */
export const plainSecretRef: Reader<{ readonly $secret: string }> = (check, spot) => {
  const found = strict(check, spot, ['$secret'], 'a reference { $secret: <name> }');
  if (found === undefined) return undefined;
  const $secret = required(check, found, '$secret', resourceName);
  return $secret === undefined ? undefined : { $secret };
};
