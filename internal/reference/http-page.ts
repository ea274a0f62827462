// docs/reference/http-api.md: conventions, and every call of the OpenAPI document.

import { code, madeFrom, page, table } from './text.ts';

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: { readonly [status: string]: unknown };
}
/** What the page reads of the document. */
export interface OpenApiDocument {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
}

const conventions = `## Conventions

JSON over HTTP under \`/api/v1\`. \`GET /api/v1/openapi.json\` describes every call with its shapes. \`P\` stands for \`/api/v1/orgs/{org}/projects/{project}\`, where either is a slug or an id.
A name that is \`.\` or \`..\` stands in a path as \`~.\` or \`~..\`, since clients take the others for steps.
Numbers of milliseconds, seconds and bytes are named so. Times are RFC 3339.

## Credentials

\`Authorization: Bearer svc_…\`. A token is shown once, stored as a hash, and belongs to a person or a service account. 401 without a valid one, 403 without the permission, 404 for what lies in a tenant that the caller cannot see.

## Roles

An organization has \`admin\` and \`member\`, a project \`viewer\`, \`operator\` and \`admin\`. Permissions are named \`resource:verb\`; \`GET /api/v1/me\` lists the caller's.

## Errors

\`application/problem+json\` (RFC 9457): \`{type, title, status, detail, code, requestId, diagnostics?}\`. \`code\` is stable. 503 \`busy\` comes after two seconds of waiting for a project, 503 \`unavailable\` when the database does not answer, or the machine that answers has no room, files or memory left, which \`detail\` says; both carry \`Retry-After\`.

## Lists

\`{items, nextCursor}\`, with \`limit\` (1 to 200) and \`cursor\`. Where things may be large (agents with their specs, revisions, triggers, repositories, runs, bindings, the audit, transcripts) a page ends early at 4 MiB, with one of them at least.

## Versions

Repositories, secrets and agents have a version, which their answers carry as \`ETag\`. A change that names it in \`If-Match\` is made only while it is the version that is there, else it is 412 \`precondition-failed\`: of two who read the same, one is told. \`If-Match: *\` asks that the thing is there, \`If-None-Match: *\` of a \`PUT\` that it is not. What the service itself notes, such as that a secret was used or a repository read, is no new version; a sync that changes an agent is.

## Streams

Server-sent events. A stream ends within five seconds of the loss of the right to it, with the event \`signed-out\`; an answer by the line is broken off then, and the program that \`exec\` runs ends. An answer of which nothing has been read for 60 seconds is ended, a stream too: its reader goes on with \`Last-Event-ID\`. One caller has 1,000 streams of a daemon at most; a further one is 429 \`too-many-streams\`.`;

/** The tag of a path: the word after the project, the organization, or the version. */
function groupOf(path: string): string {
  const rest = path
    .replace(/^\/api\/v1\//, '')
    .replace(/^orgs\/\{[^}]+\}\/projects\/\{[^}]+\}\/?/, '')
    .replace(/^orgs\/\{[^}]+\}\/?/, 'orgs/');
  return rest.split('/').find((part) => part !== '' && !part.startsWith('{')) ?? 'projects';
}

const permissionOf = ({ description }: Operation): string => /`([a-z_]+:[a-z_]+)`/.exec(description ?? '')?.[1] ?? '';

function rowOf(path: string, method: string, operation: Operation): string[] {
  const short = path.replace(/^\/api\/v1\/orgs\/\{[^}]+\}\/projects\/\{[^}]+\}/, 'P');
  const query = (operation.parameters ?? []).filter((one) => one.in === 'query').map((one) => code(one.name));
  return [
    code(`${method.toUpperCase()} ${short}`),
    operation.summary ?? '',
    query.join(', '),
    code(permissionOf(operation)).replace('``', ''),
  ];
}

export function httpPage({ paths }: OpenApiDocument): string {
  const groups = new Map<string, string[][]>();
  for (const [path, methods] of Object.entries(paths)) {
    const group = groupOf(path);
    const rows = groups.get(group) ?? [];
    groups.set(group, rows);
    for (const [method, operation] of Object.entries(methods)) rows.push(rowOf(path, method, operation));
  }
  const parts = [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
  return page([
    madeFrom('the OpenAPI document'),
    '# The HTTP API',
    conventions,
    ...parts.flatMap(([group, rows]) => [`## ${group}`, table(['Call', '', 'Query', 'Permission'], rows)]),
  ]);
}
