// The inline identity object (docs/reference/compile.md#identities). The avatar's bytes are looked at by assemble.

import type { IdentitySpec } from '../../domain/spec.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { avatar as avatarField, identity, MAX_DESCRIPTION } from '../../../schemas/identity.ts';
import type { Generated } from './check-environment.ts';
import { readFields } from './read-field.ts';
import type { Check, Reader, NodeRef } from './read.ts';
import {
  compact,
  faultAt,
  field,
  optional,
  pathOf,
  required,
  resourceName,
  strict,
  string,
  text,
  wrong,
} from './read.ts';

const names = { displayName: identity.fields.displayName, username: identity.fields.username };
const FIELDS = keysOf(identity).filter((key) => key !== 'name');

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
  spot: NodeRef,
  agentName: string | undefined,
): GeneratedIdentity | undefined {
  const before = check.errors;
  const found = strict(check, spot, keysOf(identity), identity.what);
  if (found === undefined) return undefined;
  const name = optional(check, found, 'name', resourceName) ?? agentName;
  const read = readFields(check, found, names);
  const avatar = optional(check, found, 'avatar', checkAvatar);
  const description = optional(check, found, 'description', checkDescription);
  if (!FIELDS.some((key) => found.node.entries.has(key))) {
    faultAt(check, 'missing-field', `${pathOf(spot.trail)} needs at least one of ${FIELDS.join(', ')}`, spot);
  }
  if (name === undefined) return undefined;
  const isSound = check.errors === before;
  // What the avatar's bytes say is judged whatever else is wrong.
  if (!isSound && avatar === undefined) return undefined;
  const spec = compact<IdentitySpec>({
    displayName: read.displayName,
    username: read.username,
    avatar: avatar?.value,
    description,
  });
  const range = field(found, 'name')?.node.range ?? spot.node.range;
  return compact<GeneratedIdentity>({
    name,
    spec,
    range,
    key: spot.key,
    path: pathOf(spot.trail),
    asset: avatar?.asset,
    sha256: avatar?.sha256,
    isSound,
  });
}

interface CheckedAvatar {
  readonly value: NonNullable<IdentitySpec['avatar']>;
  readonly asset: NodeRef;
  readonly sha256: NodeRef | undefined;
}

const checkAvatar: Reader<CheckedAvatar> = (check, spot) => {
  const found = strict(check, spot, keysOf(avatarField));
  if (found === undefined) return undefined;
  const asset = required(check, found, 'asset', checkAsset);
  const sha256 = optional(check, found, 'sha256', (_, at) => {
    const value = string(check, at, avatarField.fields.sha256.what);
    if (value === undefined || /^[0-9a-f]{64}$/.test(value)) return value;
    return wrong(check, at, '64 lower-case hex digits');
  });
  const place = field(found, 'asset');
  if (asset === undefined || place === undefined) return undefined;
  return { value: compact({ asset, sha256 }), asset: place, sha256: field(found, 'sha256') };
};

const checkAsset: Reader<string> = (check, spot) => {
  const value = string(check, spot, avatarField.fields.asset.what);
  if (value === undefined) return undefined;
  const segments = value.split('/');
  const clean = segments.every((segment) => segment !== '' && segment !== '.' && segment !== '..');
  const isAsset = value.startsWith('.svc/assets/') && /\.(png|jpe?g)$/.test(value) && !/[\\\u0000]/.test(value);
  if (clean && isAsset) return value;
  return wrong(
    check,
    spot,
    'a relative path under .svc/assets/ that ends in .png, .jpg or .jpeg and has no .. segment',
    {
      hint: 'Write the path from the root of the tree, such as .svc/assets/agent.png.',
    },
  );
};

/** Length in JSON-escaped form: `"`, `\`, `/` count 2, non-ASCII 6 a UTF-16 unit, control characters as JSON escapes them. */
export function escapedLength(value: string): number {
  let length = 0;
  for (let index = 0; index < value.length; index++) {
    const unit = value.charCodeAt(index);
    if (unit === 0x22 || unit === 0x5c || unit === 0x2f) length += 2;
    else if (unit < 0x20) length += '\b\t\n\f\r'.includes(value.charAt(index)) ? 2 : 6;
    else length += unit < 0x80 ? 1 : 6;
  }
  return length;
}

const checkDescription: Reader<string> = (check, spot) => {
  const value = text({ trim: true })(check, spot);
  if (value === undefined) return undefined;
  const length = escapedLength(value);
  if (length <= MAX_DESCRIPTION) return value;
  const message = `${pathOf(spot.trail)} must have at most ${MAX_DESCRIPTION} characters in JSON-escaped form, not ${length}`;
  return faultAt(check, 'identity-description', message, spot, {
    hint: 'A non-ASCII character counts 6, an emoji 12, and each of " \\ / counts 2.',
  });
};
