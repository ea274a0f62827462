// The OpenAPI 3.1 document, made from the route table and its schemas.

import { STATUS_CODES } from 'node:http';
import { toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import type { Route, Schema } from './route.ts';
import { diagnostic } from './routes/shapes.ts';

type Json = { [key: string]: unknown };

/** Checks that the outside shape cannot express (a regular expression's flags, our own predicates) are left to the server. */
function schemaOf(schema: Schema): Json {
  const { $schema: _, ...json } = toJsonSchema(schema, {
    typeMode: 'input',
    ignoreActions: [
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
    ],
  }) as Json;
  return json;
}

const problemRef = { $ref: '#/components/responses/Problem' };

function operationOf(route: Route): Json {
  const names = [...route.path.matchAll(/:(\w+)/g)].map((match) => match[1] ?? '');
  const query = route.query === undefined ? undefined : schemaOf(route.query);
  const required = new Set((query?.['required'] as string[] | undefined) ?? []);
  const parameters = [
    ...names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
    ...Object.entries((query?.['properties'] as Json | undefined) ?? {}).map(([name, schema]) => ({
      name,
      in: 'query',
      required: required.has(name),
      schema,
    })),
  ];
  return {
    summary: route.summary,
    operationId: `${route.method.toLowerCase()}${route.path.replaceAll(/[^A-Za-z0-9]+(\w)?/g, (_, next: string | undefined) => (next ?? '').toUpperCase())}`,
    ...(route.scope === 'public' ? { security: [] } : { description: `Needs the permission \`${route.permission}\`.` }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.body !== undefined && {
      requestBody: {
        // A call that takes `{}` takes no body as well.
        required: !v.safeParse(route.body, {}).success,
        content: { 'application/json': { schema: schemaOf(route.body) } },
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.answers).map(([status, schema]) => [status, answerOf(route, status, schema)]),
      ),
      ...Object.fromEntries(problemStatuses(route).map((status) => [status, problemRef])),
      default: problemRef,
    },
  };
}

function answerOf(route: Route, status: string, schema: Schema | null): Json {
  const description = STATUS_CODES[Number(status)] ?? status;
  if (route.stream && status === '200')
    return { description, content: { 'text/event-stream': { schema: { type: 'string' } } } };
  if (schema !== null && route.lines && status === '200')
    return { description, content: { 'application/x-ndjson': { schema: { type: 'string' } } } };
  return schema === null
    ? { description }
    : { description, content: { 'application/json': { schema: schemaOf(schema) } } };
}

function problemStatuses(route: Route): string[] {
  const statuses = new Set(['400', '500', '503']);
  if (route.scope !== 'public') for (const status of ['401', '403', '429']) statuses.add(status);
  // Without a token it is the bytes that prove who sends.
  else if (route.rawBody) statuses.add('401');
  if (route.path.includes(':')) statuses.add('404');
  if (route.method !== 'GET' && route.method !== 'DELETE') for (const status of ['413', '415']) statuses.add(status);
  return [...statuses].filter((status) => !(Number(status) in route.answers));
}

/** The whole document. Throws where a schema cannot be expressed: a route may not have one. */
export function openApi(routes: readonly Route[], version: string): Json {
  const paths: { [path: string]: Json } = {};
  for (const route of [...routes].sort((a, b) => (a.path < b.path ? -1 : 1))) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  const text = { type: 'string' };
  return {
    openapi: '3.1.0',
    info: { title: 'svc', version, description: 'GitOps reconciler daemon for agent automation.' },
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: {
        Problem: {
          type: 'object',
          required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
          additionalProperties: false,
          properties: {
            type: text,
            title: text,
            status: { type: 'integer' },
            detail: text,
            code: text,
            requestId: text,
            diagnostics: { type: 'array', items: schemaOf(diagnostic) },
          },
        },
      },
      responses: {
        Problem: {
          description: 'RFC 9457 problem',
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      },
    },
  };
}
