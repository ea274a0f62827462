// What a session may pass to the brokered tools of the code host: the provider's own tool schemas as data, the key of
// idempotent writes added, and a reader of the few JSON Schema keywords that they use.

import { isStorable } from '../internal/domain/text.ts';
import type { Json, JsonObject } from '../internal/domain/json.ts';
import data from './codehost-tools.json' with { type: 'json' };
import type { InputSchema } from './tool-input.ts';

interface Node {
  readonly type?: string | readonly string[];
  readonly properties?: { readonly [name: string]: Node };
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Node;
  readonly items?: Node;
  readonly enum?: readonly Json[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
}

const tools = data.tools as unknown as { readonly [name: string]: Node };
const idempotencyKey: Node & { readonly description: string } = {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  description: 'Any text. Calls of this session with the same key and input write once; repeat it when you retry.',
};
const schemas = new Map<string, InputSchema>();

/** The JSON Schema of a tool's input; undefined for a name that is none. */
export function codehostToolSchema(name: string, isWrite: boolean): InputSchema | undefined {
  const own = Object.hasOwn(tools, name) ? tools[name] : undefined;
  if (own === undefined) return undefined;
  const key = `${name} ${isWrite}`;
  const made = schemas.get(key) ?? {
    ...own,
    type: 'object',
    properties: { ...own.properties, ...(isWrite && { idempotencyKey }) },
  };
  schemas.set(key, made);
  return made;
}

/** `path: what is wrong` of each mistake; none repeats a value or an undeclared key. */
export function codehostInputProblems(name: string, isWrite: boolean, input: unknown): readonly string[] {
  const schema = codehostToolSchema(name, isWrite);
  return schema === undefined
    ? ['there is no such tool']
    : problems(schema as Node, (input ?? {}) as Json, '').slice(0, 20);
}

const at = (path: string, what: string): string => (path === '' ? what : `${path}: ${what}`);
const isObject = (value: Json): value is JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

function isOfType(value: Json, type: string): boolean {
  switch (type) {
    case 'object':
      return isObject(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return Number.isSafeInteger(value);
    case 'null':
      return value === null;
    case 'number':
      return typeof value === 'number' && Number.isFinite(value);
    default:
      return typeof value === type;
  }
}

function problems(node: Node, value: Json, path: string): string[] {
  const branches = node.anyOf ?? node.oneOf;
  if (branches !== undefined) {
    const isFine = branches.some((one) => problems(one, value, path).length === 0);
    return isFine ? [] : [at(path, 'not of any of the expected forms')];
  }
  const types = [node.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => isOfType(value, type)))
    return [at(path, `expected ${types.join(' or ')}`)];
  if (node.enum !== undefined && !node.enum.includes(value))
    return [at(path, `expected one of ${node.enum.join(', ')}`)];
  if (typeof value === 'number') return boundsOf(node, value, path);
  if (typeof value === 'string') return textProblems(node, value, path);
  if (Array.isArray(value)) {
    const list = value as readonly Json[];
    if (list.length < (node.minItems ?? 0)) return [at(path, `expected at least ${node.minItems}`)];
    const { items } = node;
    return items === undefined
      ? []
      : list.flatMap((one, index) => problems(items, one, `${path}.${index}`.replace(/^\./, '')));
  }
  return isObject(value) ? objectProblems(node, value, path) : [];
}

function boundsOf({ minimum, maximum }: Node, value: number, path: string): string[] {
  if (minimum !== undefined && value < minimum) return [at(path, `expected at least ${minimum}`)];
  return maximum !== undefined && value > maximum ? [at(path, `expected at most ${maximum}`)] : [];
}

function textProblems({ minLength = 0, maxLength }: Node, value: string, path: string): string[] {
  if (!isStorable(value)) return [at(path, 'holds what is no text')];
  const length = [...value].length;
  if (length < minLength) return [at(path, `expected at least ${minLength} characters`)];
  return maxLength !== undefined && length > maxLength ? [at(path, `expected at most ${maxLength} characters`)] : [];
}

function objectProblems(
  { properties = {}, required = [], additionalProperties }: Node,
  value: JsonObject,
  path: string,
) {
  const below = (key: string): string => (path === '' ? key : `${path}.${key}`);
  const found = required.filter((key) => value[key] === undefined).map((key) => at(below(key), 'is required'));
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    const of = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (of !== undefined) found.push(...problems(of, member, below(key)));
    else if (additionalProperties === false) {
      found.push(at(path, 'unknown property; use only those that the schema lists'));
    } else if (typeof additionalProperties === 'object') found.push(...problems(additionalProperties, member, path));
  }
  return found;
}
