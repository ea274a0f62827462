// What a field looks like when it is right: the example of its description, found by the path of a value that is wrong.

import { agent } from '../../../schemas/agent.ts';
import type { Desc } from '../../../schemas/grammar.ts';
import type { Json } from '../../domain/json.ts';
import type { PathStep } from '../source/node.ts';

/** Examples that take more than a line are none. */
const lengthMax = 100;

/** The fields that a step leads to; several where variants have the key. */
function below(desc: Desc, step: PathStep): readonly Desc[] {
  switch (desc.kind) {
    case 'list':
      return typeof step === 'number' ? [desc.item] : [];
    case 'record':
      return [desc.value];
    case 'either':
      return [...below(desc.single, step), ...below(desc.parts, step)];
    case 'group': {
      const field = Object.hasOwn(desc.fields, step) ? desc.fields[step] : undefined;
      return field === undefined ? [] : [field];
    }
    case 'variants':
      return Object.values(desc.variants).flatMap((variant) => below(variant, step));
    default:
      return [];
  }
}

/** The example of a description; of a group without one, what it has to hold. */
function exampleOf(desc: Desc): Json | undefined {
  if (desc.example !== undefined || desc.kind !== 'group') return desc.example;
  const must = Object.entries(desc.fields).filter(([, field]) => field.required === true);
  const pairs = must.map(([key, field]) => [key, field.example] as const);
  if (pairs.length === 0 || pairs.some(([, example]) => example === undefined)) return undefined;
  return Object.fromEntries(pairs) as Json;
}

const plain = /^[A-Za-z_./][\w./ -]*[\w.]$|^[A-Za-z_]$/;
const words = /^(?:true|false|null|yes|no|on|off)$/i;

/** A value in one line of YAML. */
function flow(value: Json): string {
  if (typeof value === 'string') {
    return plain.test(value) && !words.test(value) ? value : `'${value.replaceAll("'", "''")}'`;
  }
  if (value === null || typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  return `{ ${Object.entries(value)
    .map(([key, one]) => `${key}: ${flow(one ?? null)}`)
    .join(', ')} }`;
}

/**
 * `For example: routing: { kind: spawn }` for the path of a field of an agent document; undefined where its table has no
 * example, or one that takes more than a line.
 */
export function exampleAt(path: readonly PathStep[]): string | undefined {
  let found: readonly Desc[] = [agent];
  for (const step of path) found = found.flatMap((desc) => below(desc, step));
  const example = found.map(exampleOf).find((one) => one !== undefined);
  const name = path.findLast((step) => typeof step === 'string');
  if (example === undefined || name === undefined) return undefined;
  const text = typeof path.at(-1) === 'number' ? `- ${flow(example)}` : `${name}: ${flow(example)}`;
  return text.length > lengthMax ? undefined : `For example: ${text}`;
}
