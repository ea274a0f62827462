// The OpenAPI 3.1 document, made from the route table: the operations and shapes of schemas/api. A shape that has a name
// is a component, told once and referred to everywhere else.

import { STATUS_CODES } from 'node:http';
import { toJsonSchemaDefs } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { dryRun, problem } from '../../../schemas/api/common.ts';
import { nameOf } from '../../../schemas/api/operation.ts';
import type { Route, Schema } from './route.ts';

type Json = { [key: string]: unknown };
/** What a schema is in the document. */
type Describe = (schema: Schema) => Json;

const reference = (name: string): string => `#/components/schemas/${name}`;

/** Schemas that stand right inside of one. */
function partsOf(schema: Schema): readonly Schema[] {
  const { entries, item, items, wrapped, options, key, value } = schema as unknown as {
    readonly entries?: { readonly [name: string]: Schema };
    readonly item?: Schema;
    readonly items?: readonly Schema[];
    readonly wrapped?: Schema;
    /** Schemas of a union, or the words of a choice. */
    readonly options?: readonly unknown[];
    readonly key?: Schema | string;
    readonly value?: Schema;
  };
  const all = [...Object.values(entries ?? {}), ...(items ?? []), ...(options ?? []), item, wrapped, key, value];
  return all.filter((one): one is Schema => typeof one === 'object' && one !== null);
}

/** Every named schema in `schema`, itself included. Throws where two have one name. */
function collect(schema: Schema, into: Map<string, Schema>): void {
  const name = nameOf(schema);
  if (name !== undefined) {
    const known = into.get(name);
    if (known === schema) return;
    if (known !== undefined) throw new Error(`two shapes are named ${name}`);
    into.set(name, schema);
  }
  for (const part of partsOf(schema)) collect(part, into);
}

/** Checks that the outside shape cannot express (a regular expression's flags, our own predicates) are left to the server. */
const ignoreActions = [
  'metadata',
  'transform',
  'check',
  'raw_check',
  'partial_check',
  'trim',
  'to_lower_case',
  'raw_transform',
  'readonly',
  'brand',
  'max_bytes',
];

function schemasOf(route: Route): readonly Schema[] {
  const { query, body, sends, answers } = route;
  return [query, body, sends, ...Object.values(answers)].filter((one) => one !== undefined && one !== null);
}

/** Describes all schemas of the routes at once, and gives the named ones for the components. */
function describeAll(routes: readonly Route[]): { readonly describe: Describe; readonly components: Json } {
  const components = new Map<string, Schema>();
  const others = new Set<Schema>();
  for (const schema of [problem, ...routes.flatMap(schemasOf)]) {
    collect(schema, components);
    if (nameOf(schema) === undefined) others.add(schema);
  }
  // Copies, which stand nowhere else, so that nothing but a component is referred to.
  const plain = [...others].map((schema, index): [string, Schema] => [`#${index}`, { ...schema }]);
  const all = toJsonSchemaDefs(Object.fromEntries([...components, ...plain]), {
    target: 'draft-2020-12',
    typeMode: 'input',
    ignoreActions,
    overrideRef: ({ referenceId }) => reference(referenceId),
  }) as { readonly [name: string]: Json };
  const described = new Map([...others].map((schema, index) => [schema, all[`#${index}`]]));
  const names = [...components.keys()].sort();
  return {
    components: Object.fromEntries(names.map((name) => [name, all[name]])),
    describe: (schema) => {
      const name = nameOf(schema);
      const json = name === undefined ? described.get(schema) : { $ref: reference(name) };
      if (json === undefined) throw new Error('a schema that no route has');
      return json;
    },
  };
}

const problemRef = { $ref: '#/components/responses/Problem' };

/** Whether it may be asked of one version: what is only made now has none yet. */
const isOfVersion = (route: Route): boolean =>
  route.versioned === true && route.method !== 'GET' && /:name\b/.test(route.path);
/** Whether an answer shows the thing itself: not what would follow, nor what was begun. */
const isThing = (status: string, schema: Schema): boolean => status !== '202' && nameOf(schema) !== nameOf(dryRun);

const versionHeaders = {
  'if-match':
    'The ETag of the version that was read; 412 where the thing has changed since. `*`: any, but it is there.',
};

function parametersOf(route: Route, describe: Describe): Json[] {
  const query = route.query === undefined ? undefined : describe(route.query);
  const required = new Set((query?.['required'] as string[] | undefined) ?? []);
  const headers = {
    ...route.headers,
    ...(isOfVersion(route) && versionHeaders),
    ...(route.versioned &&
      route.method === 'PUT' && { 'if-none-match': '`*`: only where there is none yet, else 412.' }),
    ...(route.stream && {
      'last-event-id': 'The id of the last event that was received; the stream goes on behind it.',
    }),
  };
  const text = { type: 'string' };
  return [
    ...[...route.path.matchAll(/:(\w+)/g)].map((match) => ({
      name: match[1] ?? '',
      in: 'path',
      required: true,
      schema: text,
    })),
    ...Object.entries((query?.['properties'] as Json | undefined) ?? {}).map(([name, schema]) => ({
      name,
      in: 'query',
      required: required.has(name),
      schema,
    })),
    ...Object.entries(headers).map(([name, description]) => ({
      name,
      in: 'header',
      required: false,
      description,
      schema: text,
    })),
  ];
}

function bodyOf(route: Route, describe: Describe): Json | undefined {
  const schema = route.sends ?? route.body;
  if (schema === undefined) return undefined;
  // A call that takes `{}` takes no body as well.
  const required = route.body === undefined || !v.safeParse(route.body, {}).success;
  const type = route.form === true ? 'application/x-www-form-urlencoded' : 'application/json';
  return { required, content: { [type]: { schema: describe(schema) } } };
}

function operationOf(route: Route, describe: Describe): Json {
  const parameters = parametersOf(route, describe);
  const requestBody = bodyOf(route, describe);
  const needs = route.scope === 'public' ? undefined : `Needs the permission \`${route.permission}\`.`;
  const description = [route.description, needs].filter((text) => text !== undefined).join(' ');
  return {
    summary: route.summary,
    operationId: route.id,
    tags: [route.tag],
    ...(description !== '' && { description }),
    ...(route.scope === 'public' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody !== undefined && { requestBody }),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.answers).map(([status, schema]) => [status, answerOf(route, status, schema, describe)]),
      ),
      ...Object.fromEntries(problemStatuses(route).map((status) => [status, problemRef])),
      default: problemRef,
    },
  };
}

function answerOf(route: Route, status: string, schema: Schema | null, describe: Describe): Json {
  const description = STATUS_CODES[Number(status)] ?? status;
  if (route.stream && status === '200')
    return { description, content: { 'text/event-stream': { schema: { type: 'string' } } } };
  if (schema !== null && route.lines && status === '200')
    return { description, content: { 'application/x-ndjson': { schema: { type: 'string' } } } };
  return schema === null
    ? { description }
    : {
        description,
        ...(route.versioned &&
          isThing(status, schema) && {
            headers: { ETag: { description: 'Its version.', schema: { type: 'string' } } },
          }),
        content: { 'application/json': { schema: describe(schema) } },
      };
}

function problemStatuses(route: Route): string[] {
  const statuses = new Set(['400', '500', '503']);
  if (route.scope !== 'public') for (const status of ['401', '403', '429']) statuses.add(status);
  // Without a token it is the bytes that prove who sends.
  else if (route.rawBody) statuses.add('401');
  if (route.path.includes(':')) statuses.add('404');
  if (isOfVersion(route)) statuses.add('412');
  if (route.method !== 'GET' && route.method !== 'DELETE') for (const status of ['413', '415']) statuses.add(status);
  return [...statuses].filter((status) => !(Number(status) in route.answers));
}

/** The whole document, of an API that is reached at `baseUrl`. Throws where a schema cannot be expressed: a route may not have one. */
export function openApi(routes: readonly Route[], at: { readonly version: string; readonly baseUrl: string }): Json {
  const { describe, components } = describeAll(routes);
  const paths: { [path: string]: Json } = {};
  for (const route of [...routes].sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, describe) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'svc', version: at.version, description: 'GitOps reconciler daemon for agent automation.' },
    servers: [{ url: at.baseUrl }],
    security: [{ token: [] }],
    tags: [...new Set(routes.map((route) => route.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: components,
      responses: {
        Problem: {
          description: 'RFC 9457 problem',
          content: { 'application/problem+json': { schema: describe(problem) } },
        },
      },
    },
  };
}
