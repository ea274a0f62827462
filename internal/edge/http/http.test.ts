import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import * as v from 'valibot';
import { type Api, apiClient, startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { createLog } from '../../base/log/log.ts';
import { Fault } from '../../domain/fault.ts';
import { type HttpServer, routeTable, startHttp } from './http.ts';
import { type Answer, defineRoute, ok, type Route, type SseEvent } from './route.ts';
import { routes } from './routes.ts';

const none = { scope: 'public', permission: null, summary: 'test', answers: { 200: null } } as const;
let released = 0;

async function* forever(signal: AbortSignal): AsyncGenerator<SseEvent> {
  try {
    for (let id = 1; !signal.aborted; id += 1) {
      yield { id: String(id), event: 'tick', data: { text: 'a\nb' } };
      await sleep(20, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    released += 1;
  }
}

const testRoutes: readonly Route[] = [
  defineRoute({
    ...none,
    method: 'POST',
    path: '/t/echo',
    body: v.strictObject({ text: v.string(), n: v.optional(v.number()) }),
    handle: async ({ body }) => ok(body),
  }),
  defineRoute({
    ...none,
    method: 'POST',
    path: '/t/raw/:slug',
    rawBody: true,
    cors: true,
    bodyLimitBytes: 100,
    handle: async ({ raw, headers, params }) =>
      ok({ hex: raw.toString('hex'), type: headers['content-type'], slug: params['slug'] }),
  }),
  defineRoute({
    ...none,
    method: 'GET',
    path: '/t/query',
    query: v.strictObject({ a: v.string() }),
    handle: async ({ query }) => ok(query),
  }),
  defineRoute({
    ...none,
    method: 'GET',
    path: '/t/bug',
    handle: async () => {
      throw new Error('hush hush');
    },
  }),
  defineRoute({
    ...none,
    method: 'GET',
    path: '/t/fault',
    handle: async () => {
      throw new Fault('unavailable', 'away', 'Gone for a moment.', { retryAfterSeconds: 7 });
    },
  }),
  defineRoute({
    ...none,
    method: 'GET',
    path: '/t/stream',
    stream: true,
    handle: async ({ signal }) => ({ status: 200, stream: forever(signal) }),
  }),
  defineRoute({ ...none, method: 'GET', path: '/t/last', handle: async ({ lastEventId }) => ok({ lastEventId }) }),
  defineRoute({
    method: 'GET',
    path: '/t/orgs/:org/projects/:project/secret',
    summary: 'test',
    scope: 'project',
    permission: 'secrets:reveal',
    answers: { 200: null },
    handle: async ({ project, actor }) => ok({ project: project.slug, actor: actor.name }),
  }),
];

describe('the HTTP server', () => {
  let daemon: TestDaemon;
  let server: HttpServer;
  let api: Api;
  const lines: string[] = [];
  before(async () => {
    daemon = await startTestDaemon({ log: createLog('debug', { write: (line: string) => void lines.push(line) }) });
    server = await startHttp(() => daemon.ctx, {
      routes: testRoutes,
      readiness: [],
      listen: { host: '127.0.0.1', port: 0 },
    });
    api = apiClient(server.url, daemon.token);
  });
  after(async () => {
    await server.stop();
    await daemon.stop();
  });

  const send = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`${server.url}${path}`, init);

  it('answers every failure as problem+json with a request id', async () => {
    const json = { 'content-type': 'application/json' };
    const cases: [string, string, RequestInit, number, string][] = [
      ['no such path', '/t/none', {}, 404, 'not-found'],
      ['wrong method', '/t/echo', { method: 'DELETE' }, 405, 'method-not-allowed'],
      ['a method that nothing takes', '/healthz', { method: 'PROPFIND' }, 405, 'method-not-allowed'],
      ['malformed JSON', '/t/echo', { method: 'POST', headers: json, body: '{"text":' }, 400, 'invalid-json'],
      [
        'not UTF-8',
        '/t/echo',
        { method: 'POST', headers: json, body: Buffer.from([0x22, 0xff, 0x22]) },
        400,
        'invalid-json',
      ],
      ['too deep', '/t/echo', { method: 'POST', headers: json, body: '['.repeat(100_000) }, 400, 'json-too-deep'],
      ['no body', '/t/echo', { method: 'POST' }, 400, 'invalid-body'],
      ['a list for an object', '/t/echo', { method: 'POST', headers: json, body: '[]' }, 400, 'invalid-body'],
      ['an unknown key', '/t/echo', { method: 'POST', headers: json, body: '{"text":"","x":1}' }, 400, 'invalid-body'],
      [
        'another media type',
        '/t/echo',
        { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{}' },
        415,
        'unsupported-media-type',
      ],
      [
        'an encoding',
        '/t/echo',
        { method: 'POST', headers: { ...json, 'content-encoding': 'gzip' }, body: '{}' },
        415,
        'unsupported-encoding',
      ],
      [
        'a body over 1 MiB',
        '/t/echo',
        { method: 'POST', headers: json, body: `"${'a'.repeat(1_048_576)}"` },
        413,
        'body-too-large',
      ],
      ['a body over the route’s limit', '/t/raw/x', { method: 'POST', body: 'a'.repeat(101) }, 413, 'body-too-large'],
      ['an unknown query', '/t/query?a=1&b=2', {}, 400, 'invalid-query'],
      ['a query given twice', '/t/query?a=1&a=2', {}, 400, 'invalid-query'],
      ['a bad escape', '/t/raw/%zz', { method: 'POST' }, 400, 'invalid-url'],
      ['NUL in a path', '/t/raw/%00', { method: 'POST' }, 400, 'invalid-text'],
      ['a fault', '/t/fault', {}, 503, 'away'],
      ['a bug', '/t/bug', {}, 500, 'internal'],
    ];
    for (const [name, path, init, status, code] of cases) {
      const response = await send(path, init);
      assert.equal(response.status, status, name);
      assert.equal(response.headers.get('content-type'), 'application/problem+json', name);
      const body = (await response.json()) as Record<string, unknown>;
      assert.deepEqual(Object.keys(body), ['type', 'title', 'status', 'detail', 'code', 'requestId'], name);
      assert.equal(body['code'], code, name);
      assert.equal(body['status'], status, name);
      assert.equal(body['requestId'], response.headers.get('x-request-id'), name);
      assert.doesNotMatch(JSON.stringify(body), /hush/, name);
    }
    assert.equal((await send('/t/fault')).headers.get('retry-after'), '7');
    assert.equal((await send('/t/echo')).headers.get('allow'), 'POST');
    assert.equal((await send('/t/last', { method: 'DELETE' })).headers.get('allow'), 'GET, HEAD');
  });

  it('names what is wrong with a body, with its path', async () => {
    const { body } = await api('POST', '/t/echo', { n: 'x', more: 'hush' });
    const said = 'The body is not as expected. text: is required; n: Expected a number; more: is unknown here';
    assert.equal(body['detail'], said);
  });

  it('does not log as its own failure that a sender hangs up in the middle of a body', async () => {
    lines.length = 0;
    const { port } = new URL(server.url);
    const bytes = 'POST /t/echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{';
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(bytes));
    await sleep(100);
    socket.destroy();
    await sleep(100);
    assert.doesNotMatch(lines.join(), /http\.failed/);
  });

  it('answers garbage, headers without end, and what it cannot be expected to do, as problems too', async () => {
    for (const [bytes, status] of [
      ['NONSENSE\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nhost: x\r\nlong: ${'a'.repeat(40_000)}\r\n\r\n`, 431],
      ['POST /t/echo HTTP/1.1\r\nhost: x\r\nexpect: the-unexpected\r\ncontent-length: 2\r\n\r\n{}', 417],
      ['GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
    ] as const) {
      const { port } = new URL(server.url);
      const text = await new Promise<string>((resolve) => {
        const socket = connect(Number(port), '127.0.0.1', () => socket.write(bytes));
        let all = '';
        socket.on('data', (chunk) => (all += chunk.toString()));
        socket.on('close', () => resolve(all));
        // A server that has answered reads no further: what was still on its way may come back as a reset.
        socket.on('error', () => undefined);
      });
      assert.match(text, new RegExp(`^HTTP/1.1 ${status} `));
      assert.match(text, /"code":"(invalid-request|headers-too-large|expectation-failed)"/);
      assert.match(text, /content-type: application\/problem\+json/i);
    }
  });

  it('hands over raw bytes whatever they are called, and opens only where a route says so', async () => {
    for (const type of ['application/json', 'text/plain', 'nonsense', 'application/x-www-form-urlencoded; charset=x']) {
      const response = await send('/t/raw/s', {
        method: 'POST',
        headers: { 'content-type': type },
        body: Buffer.from([0, 255]),
      });
      assert.deepEqual(await response.json(), { hex: '00ff', type, slug: 's' });
      assert.equal(response.headers.get('access-control-allow-origin'), '*');
    }
    const preflight = await send('/t/raw/s', { method: 'OPTIONS' });
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get('access-control-allow-methods'), 'POST');
    assert.equal((await send('/t/echo', { method: 'OPTIONS' })).headers.get('access-control-allow-origin'), null);
    for (const [path, origin] of [
      ['/t/raw/s', '*'],
      ['/t/echo', null],
    ] as const) {
      const other = await send(path, { method: 'DELETE' });
      assert.deepEqual([other.status, other.headers.get('access-control-allow-origin')], [405, origin]);
    }
  });

  it('takes a request id that is one, and makes its own otherwise', async () => {
    assert.equal(
      (await send('/healthz', { headers: { 'x-request-id': 'abc-1' } })).headers.get('x-request-id'),
      'abc-1',
    );
    assert.match(
      String((await send('/healthz', { headers: { 'x-request-id': 'a b' } })).headers.get('x-request-id')),
      /^[0-9a-f-]{36}$/,
    );
  });

  it('streams events with ids, and lets the source go when the reader leaves', async () => {
    const leave = new AbortController();
    const response = await send('/t/stream', { signal: leave.signal });
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(response.headers.get('cache-control'), 'no-store');
    let text = '';
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    while (!text.includes('id: 2')) text += (await reader?.read())?.value ?? '';
    assert.match(text, /^: open\n\nid: 1\nevent: tick\ndata: \{"text":"a\\nb"\}\n\nid: 2\n/);
    const before = released;
    leave.abort();
    while (released === before) await sleep(10);
    const { body } = await api('GET', '/t/last', undefined, { headers: { 'last-event-id': '41' } });
    assert.deepEqual(body, { lastEventId: '41' });
  });

  it('ends streams and finishes requests when it stops', async () => {
    const own = await startHttp(() => daemon.ctx, {
      routes: testRoutes,
      readiness: [],
      listen: { host: '127.0.0.1', port: 0 },
    });
    const response = await fetch(`${own.url}/t/stream`);
    const whole = response.text();
    await own.stop();
    await own.stop();
    assert.match(await whole, /id: 1\n/);
    await assert.rejects(fetch(`${own.url}/healthz`));
  });

  it('lets go of who asks and does not read, streams and large answers, and of nobody who waits for an answer', async (t) => {
    const more = (path: string, handle: () => Promise<Answer>): Route =>
      defineRoute({ ...none, method: 'GET', path, stream: path === '/t/much', handle });
    async function* much(): AsyncGenerator<SseEvent> {
      for (let at = 0; at < 1_000; at += 1) yield { id: String(at), data: 'x'.repeat(65_536) };
    }
    const own = await startHttp(() => daemon.ctx, {
      routes: [
        more('/t/much', async () => ({ status: 200, stream: much() })),
        more('/t/large', async () => ok('x'.repeat(30_000_000))),
        more('/t/late', async () => ok(await sleep(900, 'late'))),
      ],
      readiness: [],
      listen: { host: '127.0.0.1', port: 0 },
      unreadMs: 300,
    });
    t.after(() => own.stop());
    const ask = async (path: string): Promise<Socket> => {
      const socket = connect(Number(new URL(own.url).port), '127.0.0.1').unref();
      socket.on('error', () => undefined).pause();
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
      await once(socket, 'connect');
      return socket;
    };
    const [deaf, blind] = [await ask('/t/much'), await ask('/t/large')];
    assert.equal((await fetch(`${own.url}/t/late`)).status, 200);
    // What they still find is what lay in the kernel: the end came long before all of it.
    for (const socket of [deaf, blind]) {
      let left = 0;
      socket.on('data', (chunk: Buffer) => (left += chunk.length)).resume();
      if (!socket.destroyed) await once(socket, 'close');
      assert.ok(left < 25_000_000, String(left));
    }
  });

  it('says why it is not ready', async () => {
    const own = await startHttp(() => daemon.ctx, {
      routes: [],
      readiness: [{ name: 'keys', check: async () => 'version 3 is missing' }],
      listen: { host: '127.0.0.1', port: 0 },
    });
    const response = await fetch(`${own.url}/readyz`);
    assert.equal(response.status, 503);
    assert.deepEqual(await response.json(), {
      status: 'unready',
      checks: [
        { name: 'keys', ok: false, reason: 'version 3 is missing' },
        { name: 'draining', ok: true },
      ],
    });
    assert.equal((await fetch(`${own.url}/healthz`)).status, 200);
    await own.stop();
  });

  it('counts what it answers', async () => {
    const text = await (await send('/metrics')).text();
    assert.match(text, /svc_http_request_seconds_count\{route="\/t\/echo",method="POST",status="400"\}/);
  });

  it('wants a token, then sight, then the permission, before it reads the body', async () => {
    const path = '/t/orgs/default/projects/default/secret';
    for (const authorization of [
      '',
      'Bearer',
      'Bearer x',
      `Bearer svc_${'a'.repeat(43)}`,
      `Basic ${daemon.token}`,
      daemon.token,
    ]) {
      const response = await send(path, { headers: { authorization } });
      assert.equal(response.status, 401, authorization);
      assert.equal(response.headers.get('www-authenticate'), 'Bearer');
    }
    const good = await api('GET', path);
    assert.deepEqual(good.body, { project: 'default', actor: 'administrator' });
    assert.equal(good.headers.get('cache-control'), 'no-store');
    const hidden = await api('GET', path.replace('projects/default', 'projects/other'));
    const { requestId: _, ...problem } = hidden.body;
    const { requestId: __, ...unknown } = (await api('GET', '/t/none')).body;
    assert.deepEqual(problem, unknown, 'like a path that does not exist');
  });

  it('tells an address with many failures to wait, and still lets valid tokens pass', async () => {
    const statuses = new Set<number>();
    for (let count = 0; count < 120; count += 1)
      statuses.add((await api('GET', '/t/orgs/default/projects/default/secret', undefined, { token: 'svc_x' })).status);
    assert.deepEqual(statuses, new Set([401, 429]));
    assert.equal((await api('GET', '/t/orgs/default/projects/default/secret')).status, 200);
  });

  it('refuses to start with a route that names no permission, or twice the same route', () => {
    const bare = { ...none, id: 'x', tag: 'x', method: 'GET', path: '/x', handle: async () => ok({}) } as const;
    assert.throws(() => routeTable([{ ...bare, scope: 'self' }]), /GET \/x names no permission/);
    assert.throws(() => routeTable([bare, bare]), /two routes for GET \/x/);
    assert.throws(
      () =>
        routeTable([
          { ...bare, path: '/y/:a' },
          { ...bare, path: '/y/:b' },
        ]),
      /two routes/,
    );
    assert.throws(() => routeTable([{ ...bare, scope: 'org', permission: 'org:read' }]), /has no :org/);
  });

  it('describes every route of the table', async () => {
    const response = await fetch(`${daemon.url}/api/v1/openapi.json`);
    const document = (await response.json()) as {
      openapi: string;
      paths: Record<string, Record<string, { responses: object; security?: unknown[] }>>;
    };
    assert.equal(document.openapi, '3.1.0');
    const table = routeTable(routes);
    for (const route of table) {
      const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()];
      assert.ok(operation !== undefined, `${route.method} ${route.path}`);
      for (const status of Object.keys(route.answers))
        assert.ok(status in operation.responses, `${route.path} ${status}`);
      assert.equal(operation.security?.length === 0, route.scope === 'public', route.path);
    }
    const described = Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length;
    assert.equal(described, table.length);
  });
});
