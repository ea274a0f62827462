// What each route of the table takes for a body, from the OpenAPI document, and a body that it might take. Only tests import this.

import { openApi } from './openapi.ts';
import type { Route } from './route.ts';

export interface JsonSchema {
  readonly properties?: { readonly [name: string]: JsonSchema };
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly type?: string;
  readonly items?: JsonSchema;
}

interface Document {
  readonly paths: {
    readonly [path: string]: {
      readonly [method: string]: {
        readonly requestBody?: { readonly content: { readonly [type: string]: { readonly schema: JsonSchema } } };
      };
    };
  };
  readonly components: { readonly schemas: { readonly [name: string]: JsonSchema } };
}

/** Of the routes that take one, the schema of the body, in which nothing is named any more. */
export function bodySchemas(table: readonly Route[]): ReadonlyMap<Route, JsonSchema> {
  const document = openApi(table, { version: '1', baseUrl: 'http://localhost' }) as unknown as Document;
  const whole = <T>(schema: T): T => {
    if (Array.isArray(schema)) return schema.map(whole) as T;
    if (typeof schema !== 'object' || schema === null) return schema;
    const name = (schema as { $ref?: string }).$ref?.split('/').at(-1);
    if (name !== undefined) return whole(document.components.schemas[name] as T);
    return Object.fromEntries(Object.entries(schema).map(([key, one]) => [key, whole(one)])) as T;
  };
  const schemas = new Map<Route, JsonSchema>();
  for (const route of table) {
    const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()];
    const schema = operation?.requestBody?.content['application/json']?.schema;
    if (schema !== undefined) schemas.set(route, whole(schema));
  }
  return schemas;
}

const good: { readonly [name: string]: unknown } = {
  email: 'x@y.example',
  url: 'https://h.example/x.git',
  commit: 'a'.repeat(40),
  reconcileId: '00000000-0000-4000-8000-000000000000',
  expiresAt: '2999-01-01T00:00:00Z',
  files: [{ path: '.svc/agents/a.yaml', content: 'name: a\n' }],
};

/** Something that a schema might take. */
export function sample(name: string, schema: JsonSchema): unknown {
  if (name in good) return good[name];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const [first] = schema.anyOf ?? schema.oneOf ?? [];
  if (first !== undefined) return sample('', first);
  if (schema.properties !== undefined)
    return Object.fromEntries(Object.entries(schema.properties).map(([key, one]) => [key, sample(key, one)]));
  if (schema.type === 'array') return [sample('', schema.items ?? {})];
  if (schema.type === 'boolean') return false;
  return schema.type === 'number' || schema.type === 'integer' ? 60 : 'x1';
}
