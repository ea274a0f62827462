// What the code host's published description of its REST API refuses (testdata/providers/codehost-rest.json), held against
// a request: unknown operations, unknown keys in queries and bodies, types, enums, bounds, missing members.

import { readFileSync } from 'node:fs';
import { Ajv, type ValidateFunction } from 'ajv';

interface Schema {
  readonly [keyword: string]: unknown;
}
interface Parameter {
  readonly required?: true;
  readonly schema: Schema;
}
interface Operation {
  readonly path: { readonly [name: string]: Parameter };
  readonly query: { readonly [name: string]: Parameter };
  readonly body?: Schema;
  readonly bodyRequired?: boolean;
}
export interface Matched {
  /** `POST /repos/{owner}/{repo}/issues` */
  readonly name: string;
  readonly params: { readonly [name: string]: string };
}

const file = new URL('../../../testdata/providers/codehost-rest.json', import.meta.url);
const { operations } = JSON.parse(readFileSync(file, 'utf8')) as { operations: { [name: string]: Operation } };
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: false });
const compiled = new Map<string, ValidateFunction>();

/** More text in the pattern first: `…/runs/{id}/jobs` before `…/{path}`. */
const patterns = Object.keys(operations)
  .map((name) => {
    const [method = '', path = ''] = name.split(' ');
    const source = path.replace(/[.+?^$()|[\]\\]/g, '\\$&').replace(/\{(\w+)\}/g, (_, key: string) => {
      const isDeep = key === 'path' || (key === 'ref' && path.includes('/git/ref'));
      return isDeep ? `(?<${key}>.*)` : `(?<${key}>[^/]+)`;
    });
    return { name, method, pattern: new RegExp(`^${source}/?$`), weight: path.replace(/\{\w+\}/g, '').length };
  })
  .toSorted((a, b) => b.weight - a.weight);

export function matchOperation(method: string, path: string): Matched | undefined {
  for (const { name, method: own, pattern } of patterns) {
    const groups = own === method ? pattern.exec(path)?.groups : undefined;
    if (groups === undefined && !(own === method && pattern.test(path))) continue;
    const params = Object.entries(groups ?? {}).map(([key, value]) => [key, decodeURIComponent(value)]);
    return { name, params: Object.fromEntries(params) as { [name: string]: string } };
  }
  return undefined;
}

/** What the description refuses in a request; undefined where nothing. */
export function refusedBySchema({ name, params }: Matched, query: URLSearchParams, body: unknown): string | undefined {
  const operation = operations[name];
  if (operation === undefined) return 'no such operation';
  for (const [key, parameter] of Object.entries(operation.path)) {
    const wrong = refusedText(params[key] ?? '', parameter.schema);
    if (wrong !== undefined) return `path ${key}: ${wrong}`;
  }
  const allowed = new Set(Object.keys(operation.query));
  for (const [key, value] of query) {
    const parameter = operation.query[key];
    if (!allowed.has(key) || parameter === undefined) return `query ${key}: unknown`;
    const wrong = refusedText(value, parameter.schema);
    if (wrong !== undefined) return `query ${key}: ${wrong}`;
  }
  for (const [key, { required }] of Object.entries(operation.query)) {
    if (required === true && !query.has(key)) return `query ${key}: missing`;
  }
  return refusedBody(name, operation, body);
}

function refusedBody(name: string, operation: Operation, body: unknown): string | undefined {
  if (body === undefined) return operation.bodyRequired === true ? 'body: missing' : undefined;
  if (operation.body === undefined) return 'body: none is taken';
  const unknown = unknownKey(body, [operation.body], '');
  if (unknown !== undefined) return `body ${unknown}: unknown key`;
  const validate = compiled.get(name) ?? ajv.compile(typed(operation.body) as Schema);
  compiled.set(name, validate);
  if (validate(body)) return undefined;
  const [error] = validate.errors ?? [];
  return `body ${error?.instancePath ?? ''}: ${error?.message ?? 'refused'}`;
}

function refusedText(text: string, schema: Schema): string | undefined {
  if (schema['type'] === 'integer' && !/^-?\d+$/.test(text)) return 'not an integer';
  if (schema['type'] === 'boolean' && !/^(true|false)$/.test(text)) return 'not a boolean';
  const words = schema['enum'];
  if (Array.isArray(words) && !words.includes(text)) return `not one of ${words.join(', ')}`;
  const most = schema['maximum'];
  return typeof most === 'number' && Number(text) > most ? `over ${most}` : undefined;
}

/** The descriptions leave objects open; the simulator does not. The path of a key that no branch of the schema declares. */
function unknownKey(value: unknown, schemas: readonly Schema[], at: string): string | undefined {
  const all = schemas.flatMap(branches);
  if (Array.isArray(value)) {
    const items = all.flatMap((one) => (one['items'] === undefined ? [] : [one['items'] as Schema]));
    for (const [index, item] of value.entries()) {
      const found = unknownKey(item, items, `${at}/${index}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (value === null || typeof value !== 'object') return undefined;
  const declared = all.flatMap((one) => (one['properties'] === undefined ? [] : [one['properties'] as Schema]));
  if (declared.length === 0) return undefined;
  for (const [key, member] of Object.entries(value)) {
    const of = declared.flatMap((one) => (one[key] === undefined ? [] : [one[key] as Schema]));
    if (of.length === 0) return `${at}/${key}`;
    const found = unknownKey(member, of, `${at}/${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function branches(schema: Schema): Schema[] {
  const inner = ['allOf', 'anyOf', 'oneOf'].flatMap((key) => (schema[key] as readonly Schema[] | undefined) ?? []);
  return [schema, ...inner.flatMap(branches)];
}

/** Without `nullable` where no type is told: there it says nothing, and the validator refuses it. */
function typed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(typed);
  if (node === null || typeof node !== 'object') return node;
  return Object.fromEntries(
    Object.entries(node)
      .filter(([key, value]) => key !== 'nullable' || typeof value !== 'boolean' || 'type' in node)
      .map(([key, value]) => [key, typed(value)]),
  );
}
