// Every route of the table, given what it does not expect: in its path, its query, its body, its headers. The caller may
// do everything, so that each request gets as far as its handler. Nothing answers with a status of 500 or more, every
// refusal has the one shape (docs/reference/http-api.md#conventions), and nothing that was sent as a value comes back in one.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { bodySchemas, sample } from './bodies-testkit.ts';
import { routeTable } from './http.ts';
import { createSender, eachOf, type Reply, type Who } from './matrix-testkit.ts';
import type { Route } from './route.ts';
import { routes } from './routes.ts';

const isLong = process.env['SVC_LONG'] === '1';
const rounds = isLong ? 400 : 6;
/** All of them, or every third. */
const some = <T>(cells: readonly T[]): readonly T[] => (isLong ? cells : cells.filter((_, at) => at % 3 === 0));
const table = routeTable(routes);
const loneSurrogate = String.fromCharCode(0xd8_00);
const canary = 'CANARY-of-a-value';

const ids = [
  '%00',
  'a%00b',
  '%ff',
  '%ED%A0%80',
  '%zz',
  '%2e%2e%2f%2e%2e',
  '%F0%9F%92%A9',
  "'%3B--",
  '%5C',
  '%0a%0d',
  '-1',
  '1e999',
  '%7B%7D',
  '__proto__',
  'constructor',
  'x'.repeat(299),
  'x'.repeat(5_000),
  '00000000-0000-4000-8000-000000000000',
  '00000000-0000-4000-8000-00000000000G',
];
const texts = ['', ' ', '\0', loneSurrogate, "' or 1=1 --", '../../etc/passwd', '%s%n', 'x'.repeat(3_000), '💩'];
const times = ['2026-02-31T00:00:00Z', '0000-00-00T00:00:00Z', '9999-12-31T23:59:60Z', '275760-09-13T00:00:00Z', 'now'];
const numbers = [0, -1, -0, 0.5, 1e308, 2 ** 53, 2 ** 31, 2 ** 63];
const values: readonly unknown[] = [
  null,
  true,
  false,
  ...numbers,
  ...texts,
  ...times,
  [],
  [null],
  {},
  { a: { b: {} } },
  JSON.parse('{"__proto__":{"admin":true}}'),
  Array.from({ length: 2_000 }, () => 'x'),
];
const queries = [...texts, ...times, ...numbers.map(String), '201', '01', '1,2', 'null', '[object Object]'];
const cursors = [
  '[]',
  '[null]',
  '[{}]',
  '[1e308]',
  '[-1]',
  '[9007199254740991]',
  '["\\u0000"]',
  '["\\ud800"]',
  '["x"]',
  '["x",1]',
  '["x",1e400]',
  '["+275760-09-13T00:00:00.000Z","00000000-0000-4000-8000-000000000000"]',
  '["9999-12-31T23:59:59.999Z","00000000-0000-4000-8000-000000000000"]',
  '{"0":1}',
  'null',
  '{',
].map((text) => Buffer.from(text).toString('base64url'));
const bodies: readonly (string | Buffer)[] = [
  '{',
  '',
  'null',
  '[]',
  '"x"',
  '1',
  '[1,',
  '{"a":1,"a":2}',
  '{"__proto__":{"x":1}}',
  '{"constructor":{"prototype":{"x":1}}}',
  `${'['.repeat(50_000)}`,
  `${'{"a":'.repeat(99)}1${'}'.repeat(99)}`,
  '\ufeff{"a":1}',
  Buffer.from([0xff, 0xfe, 0x7b, 0x00]),
  Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d]),
  `{"name":"${canary}`,
  `{"value":"${canary}","value2":}`,
];
const headerSets: readonly { readonly [name: string]: string }[] = [
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/json; charset=utf-16' },
  { 'content-type': 'application/json;;;=' },
  { 'content-type': 'multipart/form-data; boundary=x' },
  { 'content-type': 'application/x-www-form-urlencoded' },
  { 'content-type': '' },
  { 'content-encoding': 'gzip' },
  { 'content-encoding': 'gzip, identity' },
  { accept: 'image/png' },
  { 'x-request-id': 'x'.repeat(2_000) },
  { 'last-event-id': '9'.repeat(400) },
  { 'if-none-match': '*', range: 'bytes=0-1' },
];

/** Every way to put one bad value into one place of a good document. */
function* spoiled(document: unknown): Generator<unknown> {
  for (const value of values) yield value;
  if (typeof document !== 'object' || document === null) return;
  for (const [key, member] of Object.entries(document)) {
    for (const value of spoiled(member)) {
      if (Array.isArray(document)) yield [value];
      else yield { ...document, [key]: value };
    }
  }
}

/** An application at the error tracker, so that its calls get as far as what they are given. Nobody answers there. */
const errtrack = { clientId: 'fuzz', appSlug: 'fuzz', clientSecretFile: import.meta.filename };

describe('routes that are given what they do not expect', () => {
  let daemon: TestDaemon;
  let sender: ReturnType<typeof createSender>;
  let who: Who;
  let place: { org: string; project: string };
  const schemas = bodySchemas(table);
  before(async () => {
    daemon = await startTestDaemon({ config: { roles: ['api'], file: { providers: { errtrack } } } });
    sender = createSender(daemon.url);
    who = { name: 'x', token: daemon.token, live: true, kind: 'user', inOrg: {}, inProject: {} };
    const project = (await daemon.api('GET', 'P')).body;
    const org = (await daemon.api('GET', '/api/v1/orgs/default')).body;
    place = { org: String(org['id']), project: String(project['id']) };
  });
  after(async () => {
    sender?.close();
    await daemon?.stop();
  });

  const pathOf = (route: Route, rest = 'x'): string =>
    route.path.replace(':org', place.org).replace(':project', place.project).replaceAll(/:\w+/g, rest);

  const statuses = new Map<number, number>();
  function holds(reply: Reply, what: string): void {
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
    assert.ok(reply.status < 500, `${what}: ${reply.status} ${reply.text.slice(0, 500)}`);
    assert.ok(reply.headers['x-request-id'] !== undefined, `${what}: no request id`);
    assert.ok(!reply.text.includes(canary), `${what}: ${reply.text.slice(0, 300)}`);
    if (reply.status < 400) return;
    // The device grant answers as RFC 6749 and 8628 have it.
    if (/ \/api\/v1\/oauth\//.test(what) && String(reply.headers['content-type']).startsWith('application/json')) {
      assert.match(String(JSON.parse(reply.text).error), /^[a-z_]+$/, what);
      return;
    }
    assert.equal(reply.headers['content-type'], 'application/problem+json', what);
    const { diagnostics: _, ...problem } = JSON.parse(reply.text);
    assert.deepEqual(Object.keys(problem), ['type', 'title', 'status', 'detail', 'code', 'requestId'], what);
    assert.equal(problem.status, reply.status, what);
    assert.equal(problem.requestId, reply.headers['x-request-id'], what);
    assert.match(problem.code, /^[a-z]+(-[a-z]+)*$/, what);
    assert.ok(problem.detail.length > 5 && problem.detail.length < 8_000, `${what}: ${problem.detail.length}`);
  }

  const streams = (route: Route): boolean => route.stream === true;
  // What takes nothing and ends an organization or a project has no way to be asked wrongly but by its path and query.
  const ends = (route: Route): boolean => route.method === 'DELETE' && /:(org|project)$/.test(route.path);

  it('in an id', async () => {
    const cells = table.flatMap((route) => {
      const names = route.path.match(/:\w+/g) ?? [];
      return names.flatMap((name) =>
        ids.map((id) => ({ route, path: pathOf({ ...route, path: route.path.replace(name, id) }) })),
      );
    });
    assert.ok(cells.length > 1_000);
    await eachOf(some(cells), async ({ route, path }) => {
      const reply = await sender.send(route.method, path, who);
      assert.ok(reply.status >= 400, `${route.method} ${path.slice(0, 200)}: ${reply.status}`);
      holds(reply, `${route.method} ${path.slice(0, 200)}`);
    });
  });

  it('in a query', async () => {
    const cells = table
      .filter((route) => !streams(route) && route.scope !== 'public')
      .flatMap((route) => {
        const keys = Object.keys((route.query as { entries?: object } | undefined)?.entries ?? {});
        return [
          ...['x=1', '=', '&&&', '%00=1', '__proto__=1', 'limit[]=1', `${'a'.repeat(6_000)}=1`, '%zz=%zz'],
          ...keys.flatMap((key) => [
            ...(key === 'cursor' ? cursors : queries).map(
              (value) => `${key}=${encodeURIComponent(value.toWellFormed())}`,
            ),
            `${key}=1&${key}=2`,
            `${key}=%ff`,
            `${key}=%ED%A0%80`,
            key,
          ]),
        ].map((query) => ({ route, query: ends(route) ? `x=1&${query}` : query }));
      });
    await eachOf(some(cells), async ({ route, query }) => {
      holds(
        await sender.send(route.method, `${pathOf(route)}?${query}`, who),
        `${route.method} ${route.path}?${query.slice(0, 200)}`,
      );
    });
  });

  it('in a body', async () => {
    const cells = table
      .filter((route) => route.method !== 'GET')
      .flatMap((route) => {
        const schema = schemas.get(route);
        const documents =
          schema === undefined
            ? values.filter((one) => JSON.stringify(one) !== '{}')
            : [...spoiled(sample('', schema))];
        const all = [
          ...documents.map((one) => JSON.stringify(one)),
          ...bodies.filter((one) => one !== '' || !ends(route)),
        ];
        return all.map((body) => ({ route, body }));
      });
    assert.ok(cells.length > 2_000);
    // A change that is taken would move what the others are asked about.
    const settled = cells.filter(({ route }) => !/:(org|project)$/.test(route.path) || route.method === 'DELETE');
    const moving = cells.filter((cell) => !settled.includes(cell));
    for (const part of [settled, moving]) {
      await eachOf(some(part), async ({ route, body }) => {
        // A reason may be left out, so that some of these would be taken, and the project gone for the rest.
        const dry = ends(route) && route.path.endsWith(':project') ? '?dryRun=true' : '';
        const reply = await sender.send(route.method, `${pathOf(route)}${dry}`, who, { body: body as string });
        holds(reply, `${route.method} ${route.path} ${String(body).slice(0, 300)}`);
      });
    }
    await daemon.api('PATCH', `/api/v1/orgs/${place.org}/projects/${place.project}`, { archived: false });
  });

  it('in a header', async () => {
    const cells = table
      .filter((route) => !streams(route) && !ends(route))
      .flatMap((route) => headerSets.map((headers) => ({ route, headers })));
    await eachOf(cells, async ({ route, headers }) => {
      const body = route.method === 'GET' ? {} : { body: '{"x":1}' };
      const reply = await sender.send(route.method, pathOf(route), who, { headers, ...body });
      holds(reply, `${route.method} ${route.path} ${JSON.stringify(headers)}`);
    });
  });

  it('and is left as it was, having looked at what it was sent', async () => {
    assert.equal((await sender.send('GET', `/api/v1/orgs/${place.org}/projects/${place.project}`, who)).status, 200);
    for (const [status, count] of [
      [200, 100],
      [400, 1_000],
      [404, 500],
      [415, 100],
    ] as const)
      assert.ok((statuses.get(status) ?? 0) > count, `${status}: ${JSON.stringify([...statuses])}`);
  });

  it('by chance', async () => {
    const writes = table.filter((route) => route.method !== 'GET' && !/:(org|project)$/.test(route.path));
    const keys = [...new Set([...schemas.values()].flatMap((schema) => Object.keys(schema.properties ?? {})))];
    const json = fc.dictionary(fc.constantFrom(...keys), fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' }), {
      maxKeys: 5,
    });
    for (const route of writes) {
      await fc.assert(
        fc.asyncProperty(json, async (document) => {
          if (route.body === undefined && Object.keys(document).length === 0) return;
          const reply = await sender.send(route.method, pathOf(route), who, { body: JSON.stringify(document) });
          holds(reply, `${route.method} ${route.path} ${JSON.stringify(document)}`);
        }),
        { numRuns: rounds },
      );
    }
  });
});
