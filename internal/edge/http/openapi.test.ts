// The API's own description: whole and valid as OpenAPI 3.1, and true: what a real daemon answers is held against it,
// with nothing in an answer that the description leaves out.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type Api, type ApiAnswer, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { routeTable } from './http.ts';
import { createWorld } from './matrix-testkit.ts';
import type { Route } from './route.ts';
import { routes } from './routes.ts';

type Node = { readonly [key: string]: Node } & { readonly [index: number]: Node };
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly { name: string; in: string; required: boolean; schema: object }[];
  readonly requestBody?: { content: { [type: string]: { schema: object } } };
  readonly responses: { [status: string]: Response | { $ref: string } };
}
interface Response {
  readonly description: string;
  readonly content?: { readonly [type: string]: { readonly schema: object } };
}
interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly security: readonly { [scheme: string]: readonly string[] }[];
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly servers: readonly { readonly url: string }[];
  readonly components: {
    readonly securitySchemes: object;
    readonly responses: object;
    readonly schemas: { readonly [name: string]: object };
  };
}

const table = routeTable(routes);

/** A copy in which every object that lists its properties has no others, and references are to the names of components. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema === 'string') return schema.replace(/^#\/components\/schemas\//, '');
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return 'properties' in copy && !('additionalProperties' in copy) ? { ...copy, additionalProperties: false } : copy;
}

function routeOf(method: string, path: string): Route | undefined {
  const parts = (path.split('?', 1)[0] ?? '').split('/');
  const fits = table.filter((route) => {
    const want = route.path.split('/');
    return (
      route.method === method &&
      (want.length === parts.length || (route.tail === true && want.length < parts.length)) &&
      want.every((part, at) => part.startsWith(':') || part === parts[at])
    );
  });
  return fits.find((route) => !/:\w+$/.test(route.path)) ?? fits[0];
}

const there = 'https://authorization.example';
const oauth = { docs: { authorizationEndpoint: `${there}/a`, tokenEndpoint: `${there}/t`, clientId: 'described' } };
const errtrack = { clientId: 'described', appSlug: 'described', clientSecretFile: import.meta.filename };

/** Pages and redirects, which are no JSON: the tests of consent hold them. */
const isOfBrowsers = (path: string): boolean => path.startsWith('/oauth/');

describe('the description of the API', () => {
  let daemon: TestDaemon;
  let document: Document;
  let api: Api;
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, validateFormats: false });
  const validators = new Map<object, ValidateFunction>();
  const met = new Set<string>();

  function conforms(schema: object, value: unknown, what: string): void {
    let validate = validators.get(schema);
    if (validate === undefined) {
      validate = ajv.compile(closed(schema) as object);
      validators.set(schema, validate);
    }
    assert.ok(validate(value), `${what}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)?.slice(0, 600)}`);
  }

  /** Holds an answer against what the description says of its call. */
  function hold(method: string, path: string, answer: ApiAnswer): void {
    const route = routeOf(method, path);
    assert.ok(route !== undefined, `${method} ${path}`);
    const key = `${method} ${route.path}`;
    const type = answer.headers.get('content-type')?.split(';', 1)[0] ?? '';
    const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
    assert.ok(operation !== undefined, key);
    if (answer.status >= 400 && type === 'application/problem+json') {
      conforms({ $ref: '#/components/schemas/Problem' }, answer.body, `${key} ${answer.status}`);
      return;
    }
    const described = operation.responses[String(answer.status)];
    assert.ok(described !== undefined && !('$ref' in described), `${key} answers ${answer.status}`);
    met.add(key);
    if (described.content === undefined) return;
    const content = described.content[type];
    assert.ok(content !== undefined, `${key} answers with ${type}`);
    conforms(content.schema, answer.body, `${key} ${answer.status}`);
  }

  before(async () => {
    daemon = await startTestDaemon({ config: { roles: ['api'], file: { providers: { errtrack, oauth } } } });
    document = (await daemon.api('GET', '/api/v1/openapi.json')).body as unknown as Document;
    for (const [name, schema] of Object.entries(document.components.schemas))
      ajv.addSchema({ ...(closed(schema) as object), $id: name });
    api = async (method, path, body, options) => {
      const answer = await daemon.api(method, path, body, options);
      hold(method, path, answer);
      return answer;
    };
    await createWorld({ ...daemon, api }, table);
  });
  after(() => daemon.stop());

  const operations = (): [string, Operation][] =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
    );

  it('is whole: ids are unique, parameters declared, references lead somewhere, schemas are schemas', async () => {
    assert.equal(document.openapi, '3.1.0');
    assert.deepEqual(document.servers, [{ url: daemon.url }]);
    assert.ok(document.info.title !== '' && document.info.version !== '');
    const ids = operations().map(([, operation]) => operation.operationId);
    assert.deepEqual(
      ids.filter((id, at) => ids.indexOf(id) !== at || !/^[a-z][A-Za-z0-9]+$/.test(id)),
      [],
    );
    for (const [key, operation] of operations()) {
      assert.ok(operation.summary.length > 3, key);
      const names = [...key.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const inPath = (operation.parameters ?? []).filter((one) => one.in === 'path');
      assert.deepEqual(
        inPath.map((one) => one.name),
        names,
        key,
      );
      assert.ok(
        inPath.every((one) => one.required),
        key,
      );
      const places = (operation.parameters ?? []).map((one) => `${one.in} ${one.name}`);
      assert.equal(new Set(places).size, places.length, key);
      for (const scheme of [...(operation.security ?? []), ...document.security])
        for (const name of Object.keys(scheme)) assert.ok(name in document.components.securitySchemes, name);
      for (const [status, response] of Object.entries(operation.responses)) {
        assert.match(status, /^([1-5]\d\d|default)$/, key);
        assert.ok('$ref' in response || response.description !== '', key);
      }
      const schemas = [
        ...(operation.parameters ?? []).map((one) => one.schema),
        ...Object.values(operation.requestBody?.content ?? {}).map((one) => one.schema),
        ...Object.values(operation.responses).flatMap((one) =>
          '$ref' in one ? [] : Object.values(one.content ?? {}).map((content) => content.schema),
        ),
      ];
      for (const schema of schemas) assert.ok(ajv.compile(closed(schema) as object), key);
      // The daemon is in this process, and its connections with it.
      await yieldToEventLoop();
    }
    for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const found = (reference ?? '')
        .split('/')
        .reduce<Node | undefined>((at, step) => at?.[step], document as unknown as Node);
      assert.ok(found !== undefined, reference);
    }
  });

  it('leaves no organization an address that a call has: its pages would not be reached', async () => {
    for (const slug of new Set(table.map((route) => route.path.split('/')[1] ?? ''))) {
      const { status, body } = await daemon.api('POST', '/api/v1/orgs', { slug });
      assert.deepEqual([status, body['code']], [400, 'reserved-slug'], slug);
    }
  });

  it('is true of what every GET answers', async () => {
    const P = '/api/v1/orgs/alpha/projects/one';
    const firstOf = async (list: string): Promise<string> => {
      const { body } = await api('GET', list);
      const item = body['items']?.[0] as { [key: string]: unknown } | undefined;
      return encodeURIComponent(String(item?.['id'] ?? item?.['name'] ?? 'nothing'));
    };
    const scope = { organizationId: 'alpha', projectId: 'one' };
    const setups = '/api/v1/connections/errtrack/installations';
    const started = await api('POST', setups, scope);
    assert.equal(started.status, 201);
    await api('GET', `${setups}/${started.body['attemptId']}`);
    const options = '/api/v1/connections/errtrack/projects';
    hold('GET', options, await daemon.api('GET', `${options}?organizationId=alpha&projectId=one`));
    const docs = `${P}/connections/docs`;
    assert.equal((await api('POST', `${P}/connections`, { provider: 'docs', name: 'docs' })).status, 201);
    const begun = await api('POST', `${docs}/authorize`);
    assert.equal(begun.status, 201);
    await api('GET', `${docs}/attempts/${begun.body['attemptId']}`);
    const session = await firstOf(`${P}/sessions`);
    await daemon.ctx.db.query(
      `insert into svc.session_files (session_id, path, size, modified, sha256, content, kept_at)
       values ($1::uuid, 'out/a.txt', 2, 0, sha256('hi'), 'hi', now())`,
      [session],
    );
    const file = `${P}/sessions/${session}/files/out/a.txt`;
    hold('GET', file, await daemon.api('GET', file));
    const isListed = ({ path }: { readonly path: string }): boolean =>
      !path.startsWith('/api/v1/connections/errtrack/') && !path.includes('/attempts/') && !isOfBrowsers(path);
    for (const route of table.filter((one) => one.method === 'GET' && !one.stream && isListed(one))) {
      let path = route.path.replace(':org', 'alpha').replace(':project', 'one').replace(':file', 'agent.json');
      path = path.replace('/revisions/:a/diff/:b', '/revisions/1/diff/1');
      path = path.replace('/triggers/:agent/:ordinal', '/triggers/Mark-alpha-one-agent/0');
      const at = path.indexOf('/:');
      if (at >= 0) {
        const list = path.slice(0, at);
        const item = ['agents', 'repositories', 'endpoints', 'connections', 'receivers'].includes(
          list.split('/').at(-1) ?? '',
        );
        const first = item ? (await api('GET', list)).body['items']?.[0]?.['name'] : await firstOf(list);
        path = path.replace(/:\w+/, String(first));
      }
      hold('GET', path, await daemon.api('GET', path));
    }
    const known = table
      .filter((one) => one.method === 'GET' && !one.stream && !isOfBrowsers(one.path))
      .map((one) => `GET ${one.path}`);
    assert.deepEqual(
      known.filter((key) => !met.has(key)),
      [],
      'answered with a problem: add something to be found to the world of the matrix',
    );
    const lists = await api('GET', `${P}/agents`);
    assert.equal(lists.status, 200);
  });

  it('is true of what changes answer, and of their problems', async () => {
    const O = '/api/v1/orgs/alpha';
    const P = `${O}/projects/two`;
    const name = 'Mark-alpha-two-repository';
    const calls: [string, string, unknown, number][] = [
      ['PATCH', O, { name: 'Alpha' }, 200],
      ['PATCH', P, { name: 'Two', archived: false }, 200],
      ['PATCH', `${O}/service-accounts/Mark-alpha-robot`, { disabled: true }, 200],
      ['POST', '/api/v1/tokens', { name: 't', expiresAt: '2999-01-01T00:00:00Z' }, 201],
      ['PATCH', `${P}/repositories/${name}`, { intervalSeconds: 90 }, 200],
      ['POST', `${P}/repositories/${name}/suspend`, undefined, 200],
      ['POST', `${P}/repositories/${name}/resume`, {}, 200],
      ['POST', `${P}/repositories/${name}/sync`, undefined, 202],
      ['POST', `${P}/repositories/${name}/pin`, { commit: 'a'.repeat(40) }, 400],
      ['POST', `${P}/repositories/probe`, { url: 'https://localhost:1/x' }, 200],
      ['DELETE', `${P}/repositories/${name}`, undefined, 204],
      ['DELETE', `${P}/endpoints/Mark-alpha-two-endpoint`, undefined, 204],
      ['DELETE', `${P}/agents/Mark-alpha-two-agent`, undefined, 204],
      ['POST', `${P}/apply`, { files: [], dryRun: true }, 422],
      ['POST', `${P}/members`, { email: 'nobody@example.com' }, 422],
      ['POST', `${O}/projects`, { slug: 'two' }, 409],
      ['POST', `${O}/projects`, { slug: 7 }, 400],
      ['DELETE', O, undefined, 409],
      ['DELETE', P, undefined, 204],
      ['GET', P, undefined, 404],
    ];
    for (const [method, path, body, status] of calls) {
      const answer = await api(method, path, body);
      assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
    }
  });

  it('names the header that signs a webhook event, and the shapes of resources', () => {
    const ingest = document.paths['/api/v1/webhook-endpoints/{slug}/events']?.['post'];
    const signature = ingest?.parameters?.find((one) => one.name === 'x-svc-signature-256');
    assert.equal(signature?.in, 'header');
    for (const name of ['Repository', 'RepositoryPage', 'Reconcile', 'Endpoint', 'Problem', 'Diagnostic'])
      assert.ok(name in document.components.schemas, name);
    const listed = operations().find(([, one]) => one.operationId === 'listRepositories')?.[1].responses['200'];
    assert.deepEqual(listed, {
      description: 'OK',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/RepositoryPage' } } },
    });
  });

  it('names what a form holds', () => {
    const forms = operations().filter(([key]) => key.includes('/oauth/') && key.startsWith('post '));
    const fields = forms.map(([, operation]) => {
      const { schema } = operation.requestBody?.content['application/x-www-form-urlencoded'] ?? { schema: {} };
      return [operation.operationId, (schema as { required?: string[] }).required];
    });
    assert.deepEqual(fields, [
      ['authorizeDevice', ['client_id']],
      ['deviceToken', ['grant_type', 'device_code', 'client_id']],
    ]);
  });

  it('says that what proves itself by its bytes may be turned away', () => {
    const doors = operations().filter(([key]) => /\/intake\/|\/webhook-endpoints\//.test(key));
    assert.equal(doors.length, 5);
    for (const [key, operation] of doors) {
      for (const status of ['400', '401', '413', '415', '503', ...(key.includes('{') ? ['404'] : [])])
        assert.ok(status in operation.responses, `${key} ${status}`);
      for (const status of ['403', '429']) assert.ok(!(status in operation.responses), `${key} ${status}`);
    }
  });
});
