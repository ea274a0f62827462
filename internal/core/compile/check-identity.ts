// The inline identity object (docs/reference/compile.md#identities). The avatar's bytes are looked at by assemble.

import type { IdentitySpec } from '../../domain/spec.ts';
import { keysOf, without } from '../../../schemas/grammar.ts';
import { identity } from '../../../schemas/identity.ts';
import type { Generated } from './check-environment.ts';
import { readFields } from './read-field.ts';
import type { Check, MapRef, NodeRef } from './read.ts';
import { compact, faultAt, field, optional, pathOf, strict } from './read.ts';
import { resourceName } from './resource-name.ts';

const unnamed = without(identity.fields, 'name');
const fields = Object.keys(unnamed);

/** An identity that an agent document generates, with the place of its avatar. */
export interface GeneratedIdentity extends Generated<IdentitySpec> {
  readonly asset?: NodeRef;
  readonly sha256?: NodeRef;
  /** False where the identity has an error of its own: then only its avatar is judged. */
  readonly isSound: boolean;
}

/** The identity; one without a name takes the agent's. Undefined where anything in it is wrong. */
export function checkIdentity(
  check: Check,
  spot: MapRef,
  agentName: string | undefined,
): GeneratedIdentity | undefined {
  const before = check.errors;
  strict(check, spot, keysOf(identity));
  const name = optional(check, spot, 'name', resourceName) ?? agentName;
  const spec = compact<IdentitySpec>(readFields(check, spot, unnamed));
  if (!fields.some((key) => spot.node.entries.has(key))) {
    faultAt(check, 'missing-field', `${pathOf(spot.trail)} needs at least one of ${fields.join(', ')}`, spot);
  }
  if (name === undefined) return undefined;
  const isSound = check.errors === before;
  // What the avatar's bytes say is judged whatever else is wrong.
  if (!isSound && spec.avatar === undefined) return undefined;
  const avatar = spec.avatar === undefined ? undefined : (field(spot, 'avatar') as MapRef);
  return compact<GeneratedIdentity>({
    name,
    spec,
    range: field(spot, 'name')?.node.range ?? spot.node.range,
    key: spot.key,
    path: pathOf(spot.trail),
    asset: avatar && field(avatar, 'asset'),
    sha256: avatar && field(avatar, 'sha256'),
    isSound,
  });
}
