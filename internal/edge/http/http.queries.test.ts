// What a query asks for, on every route of the table that takes one of the kind: a page of a list, and a time.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { routeTable } from './http.ts';
import { createWorld } from './matrix-testkit.ts';
import type { Route, Schema } from './route.ts';
import { routes } from './routes.ts';

const table = routeTable(routes);
const mark = 'Mark-alpha-one';

const entriesOf = (schema: Schema | null | undefined): { readonly [name: string]: unknown } =>
  (schema as { entries?: { [name: string]: unknown } } | null | undefined)?.entries ?? {};
const keysOf = (route: Route): string[] => Object.keys(entriesOf(route.query));
/** Its query is the specification's. */
const isApart = (path: string): boolean => path.startsWith('/api/v1/connections/errtrack/');
const lists = table.filter(
  (route) => route.method === 'GET' && 'nextCursor' in entriesOf(route.answers[200]) && !isApart(route.path),
);

describe('a query', () => {
  let daemon: TestDaemon;
  const base = '/api/v1/orgs/alpha/projects/one';
  let session: string;
  before(async () => {
    daemon = await startTestDaemon({ config: { roles: ['api'] } });
    await createWorld(daemon, table);
    const { body } = await daemon.api('GET', `${base}/sessions`);
    session = String(body['items']?.[0]?.['id']);
    for (const [token, times] of [
      [daemon.token, 3],
      ['svc_unknown', 1],
    ] as const)
      for (let time = 0; time < times; time += 1)
        await daemon.api('POST', '/api/v1/auth/sessions', { token }, { token: null });
    // What the worker keeps of jobs that gave up; these are nobody's.
    await daemon.ctx.db.query(
      `select graphile_worker.add_job('nobody-does-this', json_build_object('n', n), max_attempts => 1)
         from generate_series(1, 3) n`,
    );
    await daemon.ctx.db.query(
      `update graphile_worker._private_jobs set attempts = max_attempts
        where task_id = (select id from graphile_worker._private_tasks where identifier = 'nobody-does-this')`,
    );
  });
  after(() => daemon.stop());

  const pathOf = (route: Route): string =>
    route.path
      .replace(':org', 'alpha')
      .replace(':project', 'one')
      .replace('/agents/:name', `/agents/${mark}-agent`)
      .replace('/sessions/:id', `/sessions/${session}`);
  const get = async (path: string) => (await daemon.api('GET', path)).body;

  it('of a list takes a limit, a cursor, narrow rows and a count, and pages of one are the whole list', async () => {
    assert.ok(lists.length > 25);
    let longest = 0;
    for (const route of lists) {
      const path = pathOf(route);
      assert.deepEqual(
        [path, ...keysOf(route).filter((key) => /^(limit|cursor|view|counts)$/.test(key))],
        [path, 'limit', 'cursor', 'view', 'counts'],
      );
      for (const query of ['limit=0', 'limit=201', 'limit=1.0', 'limit=1&limit=2', 'cursor=', 'cursor=W10'])
        assert.equal((await daemon.api('GET', `${path}?${query}`)).status, 400, `${path}?${query}`);
      const whole = await get(`${path}?limit=200`);
      assert.equal(whole['nextCursor'], null, path);
      const found: unknown[] = [];
      let cursor = '';
      do {
        const page = await get(`${path}?limit=1${cursor}`);
        const items = page['items'] as unknown as unknown[];
        assert.ok(items.length <= 1, path);
        found.push(...items);
        cursor = page['nextCursor'] === null ? '' : `&cursor=${encodeURIComponent(String(page['nextCursor']))}`;
      } while (cursor !== '');
      assert.deepEqual(found, whole['items'], path);
      longest = Math.max(longest, found.length);
      assert.equal((await get(`${path}?counts=true&limit=1&view=row`))['total'], found.length, path);
      assert.equal((await get(`${path}?counts=false`))['total'], undefined, path);
    }
    assert.ok(longest > 2);
    assert.equal((await get('/api/v1/jobs'))['items']?.['length'], 3);
    assert.equal((await get('/api/v1/auth/sessions'))['items']?.['length'], 3);
  });

  it('names a time that there is, with its zone', async () => {
    const asked = table.flatMap((route) =>
      keysOf(route)
        .filter((key) => /^(since|until|from|to)$/.test(key))
        .map((key) => ({ path: pathOf(route), key })),
    );
    assert.ok(asked.length > 8);
    for (const { path, key } of asked) {
      for (const time of ['2026-02-31T00:00:00Z', '2026-01-31T12:00:00', '2026-01-31T12:00:00+01', 'yesterday']) {
        const { status, body } = await daemon.api('GET', `${path}?${key}=${encodeURIComponent(time)}`);
        assert.deepEqual([status, body['code']], [400, 'invalid-query'], `${path}?${key}=${time}`);
      }
    }
  });
});
