// Environment variables of agents and environments (docs/reference/compile.md#environments), as they are stored.

import type { Value } from '../../../schemas/grammar.ts';
import { envMap as env, type secretRef } from '../../../schemas/shared.ts';
import { programTextBytesMax, variableBytes } from '../../domain/program-text.ts';
import type { EnvMap, SecretRef } from '../../domain/spec.ts';
import { reading } from './read-field.ts';
import type { Check, NodeRef, Reader } from './read.ts';
import { Once } from './read-once.ts';
import { faultAt, field, pathOf } from './read.ts';

const canonical = ({ $secret, optional }: Value<typeof secretRef>): SecretRef =>
  optional === true ? { $secret, optional } : { $secret };

/** The value itself is not repeated: it may be a credential that somebody wrote in the clear. */
function refuseNul(check: Check, spot: NodeRef, name: string): void {
  const at = spot.node.kind === 'map' ? (field({ ...spot, node: spot.node }, name) ?? spot) : spot;
  const message = `${pathOf(at.trail)} holds a NUL character, which no environment can`;
  faultAt(check, 'invalid-value', message, at, { hides: at.node.range });
}

/** Of all variables of one map: a program is started with no more than two megabytes of words and variables. */
const variablesBytesMax = 512 * 1024;

/** No program can be started with more. */
function refuseLong(check: Check, spot: NodeRef, texts: readonly (readonly [name: string, value: string])[]): void {
  const long = texts.find(([name, value]) => variableBytes(name, value) > programTextBytesMax);
  if (long !== undefined) {
    const at = spot.node.kind === 'map' ? (field({ ...spot, node: spot.node }, long[0]) ?? spot) : spot;
    const message = `${pathOf(at.trail)} is longer than the ${programTextBytesMax} bytes that a variable may have`;
    faultAt(check, 'invalid-value', message, at, { hides: at.node.range });
    return;
  }
  const all = texts.reduce((sum, [name, value]) => sum + variableBytes(name, value), 0);
  if (all <= variablesBytesMax) return;
  const message = `${pathOf(spot.trail)} has ${all} bytes of variables; a program is started with at most ${variablesBytesMax}`;
  faultAt(check, 'invalid-value', message, spot, { hides: spot.node.range });
}

/** A map from variable name to a text or to `{ $secret, optional? }`; `optional: false` is what holds without it, and is left out. */
export const envMap: Reader<EnvMap> = (check, spot) => once.read(check, spot.node, [], () => readMap(check, spot));

const once = new Once<EnvMap>();

function readMap(check: Check, spot: NodeRef): EnvMap | undefined {
  const read = reading(env)(check, spot);
  if (read === undefined) return undefined;
  const kept: { [name: string]: string | SecretRef } = Object.create(null);
  for (const [name, value] of Object.entries(read)) {
    kept[name] = typeof value === 'string' ? value : canonical(value);
    if (typeof value === 'string' && value.includes('\0')) refuseNul(check, spot, name);
  }
  refuseLong(
    check,
    spot,
    Object.entries(kept).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
  return kept;
}
