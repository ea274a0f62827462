// Three organizations, two projects each, every kind of principal, every route of the table, every method, every place
// where an id can stand: generated from the table, so that a new route joins by itself. No cell may answer other than its
// entry says. SVC_LONG=1 runs every cell; otherwise each route and principal sees some of the places, in turn.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { routeTable } from './http.ts';
import {
  createSender,
  createWorld,
  eachOf,
  everybody,
  type Org,
  type Reply,
  type Send,
  verdict,
  type Where,
  type Who,
  type World,
} from './matrix-testkit.ts';
import type { Route } from './route.ts';
import { routes } from './routes.ts';

const isLong = process.env['SVC_LONG'] === '1';
const placesAtATime = 3;
const nowhere = '00000000-0000-4000-8000-000000000000';
const table = routeTable(routes);
const closed = table.filter((route) => route.scope !== 'public');

/** Texts for `:org` and `:project`, and what they name; undefined: nothing. */
interface Place {
  readonly org: string;
  readonly project: string;
  readonly isOrg: Org | undefined;
  readonly isProject: Where | undefined;
}

function placesOf(world: World, scope: Route['scope']): Place[] {
  const id = (of: Org | Where): string => world.ids.get(of) ?? '';
  if (scope === 'self') return [{ org: '', project: '', isOrg: undefined, isProject: undefined }];
  const orgTexts: [string, Org | undefined][] = [
    ['alpha', 'alpha'],
    [id('alpha'), 'alpha'],
    [id('alpha').toUpperCase(), 'alpha'],
    ['beta', 'beta'],
    [id('beta'), 'beta'],
    ['nowhere', undefined],
    [nowhere, undefined],
    [id('alpha/one'), undefined],
    ['..', undefined],
    ['ALPHA', undefined],
    ['alpha%20', undefined],
    ['a%2Fb', undefined],
    ["'%20or%201=1--", undefined],
  ];
  if (scope === 'org') return orgTexts.map(([org, isOrg]) => ({ org, project: '', isOrg, isProject: undefined }));
  const projectTexts: [string, (org: Org) => Where | undefined][] = [
    ['one', (org) => `${org}/one`],
    ['two', (org) => `${org}/two`],
    [id('alpha/one'), (org) => (org === 'alpha' ? 'alpha/one' : undefined)],
    [id('alpha/two').toUpperCase(), (org) => (org === 'alpha' ? 'alpha/two' : undefined)],
    [id('beta/one'), (org) => (org === 'beta' ? 'beta/one' : undefined)],
    [id('alpha'), () => undefined],
    ['nowhere', () => undefined],
    [nowhere, () => undefined],
    ['%2e%2e', () => undefined],
    ['One', () => undefined],
  ];
  return orgTexts.flatMap(([org, isOrg]) =>
    projectTexts.map(([project, name]) => ({
      org,
      project,
      isOrg,
      isProject: isOrg === undefined ? undefined : name(isOrg),
    })),
  );
}

const pathOf = (route: Route, place: Place, rest = 'x'): string =>
  route.path.replace(':org', place.org).replace(':project', place.project).replaceAll(/:\w+/g, rest);

/** Whether one route's path also is another's: `repositories/:name` takes `repositories/probe`. */
function covers(path: string, pattern: string): boolean {
  const have = pattern.split('/');
  const want = path.split('/');
  return want.length === have.length && want.every((part, at) => part === have[at] || part.startsWith(':'));
}

const codeOf = (reply: Reply): unknown => (reply.text === '' ? undefined : JSON.parse(reply.text).code);
/** Everything about an answer that a caller sees, but the time. */
const seen = ({ status, headers, text }: Reply): unknown => {
  const { date: _, ...rest } = headers;
  return { status, headers: rest, text };
};
const here = (org: Org, project: string): Place => ({
  org,
  project,
  isOrg: org,
  isProject: `${org}/${project}` as Where,
});
const named = (name: string): Who => {
  const who = everybody.find((one) => one.name === name);
  if (who === undefined) throw new Error(name);
  return who;
};

/** Whether somebody administers an organization in person, which the calls of an error tracker ask beside a permission. */
const maySetUp = ({ kind, isFirst, inOrg, only }: Who): boolean =>
  kind === 'user' &&
  (isFirst === true ||
    Object.entries(inOrg).some(([org, role]) => role === 'admin' && (only === undefined || only === org)));

/** An application at the error tracker, so that its calls get as far as the question who calls. Nobody answers there. */
const errtrack = { clientId: 'matrix', appSlug: 'matrix', clientSecretFile: import.meta.filename };

describe('the matrix of principals, routes and places', () => {
  let daemon: TestDaemon;
  let world: World;
  let sender: ReturnType<typeof createSender>;
  let send: Send;
  before(async () => {
    daemon = await startTestDaemon({ config: { roles: ['api'], file: { providers: { errtrack } } } });
    world = await createWorld(daemon, table);
    sender = createSender(daemon.url);
    send = sender.send;
  });
  after(async () => {
    sender?.close();
    await daemon?.stop();
  });

  it('answers every cell as its entry says, and nobody gets further than that', async () => {
    const cells: { route: Route; who: Who; place: Place }[] = [];
    for (const route of closed) {
      const all = placesOf(world, route.scope);
      const own = all.filter(
        (one) => one.isProject === 'alpha/one' || (route.scope === 'org' && one.isOrg === 'alpha'),
      );
      for (const who of everybody) {
        const start = cells.length;
        const some = Array.from({ length: placesAtATime }, (_, at) => all[(start + at * 7) % all.length] as Place);
        const chosen = isLong ? all : [...new Set([...own.slice(0, 1), ...some])];
        for (const place of chosen) cells.push({ route, who, place });
      }
    }
    const tally = new Map<string, number>();
    await eachOf(cells, async ({ route, who, place }) => {
      const want = verdict(route, who, place.isOrg, place.isProject);
      // Nobody takes this key: whoever is let in is told so before anything is done.
      const path = `${pathOf(route, place)}?no-such-key=1`;
      const reply = await send(route.method, path, who);
      const cell = `${who.name}: ${route.method} ${path}: ${reply.text}`;
      if (want === 'pass' && route.tag === 'errtrack' && !maySetUp(who)) {
        assert.deepEqual([reply.status, codeOf(reply)], [403, 'setup-forbidden'], cell);
        return;
      }
      const status = want === 'pass' ? 400 : want;
      const code = { 400: 'invalid-query', 401: 'invalid-token', 403: 'forbidden', 404: 'not-found' }[status];
      const isTired = who.name === 'unknown' && reply.status === 429;
      if (!isTired) assert.deepEqual([reply.status, codeOf(reply)], [status, code], cell);
      tally.set(String(want), (tally.get(String(want)) ?? 0) + 1);
    });
    for (const want of ['pass', '401', '403', '404']) assert.ok((tally.get(want) ?? 0) > 100, `${want} was met`);
  });

  it('answers alike, byte by byte, for what is hidden and for what is not there', async () => {
    const cells = closed
      .filter((route) => route.scope !== 'self')
      .flatMap((route) => ['outsider', 'nobody', 'org-member'].map((name) => ({ route, who: named(name) })));
    await eachOf(cells, async ({ route, who }) => {
      const hidden = who.name === 'org-member' ? here('beta', 'one') : here('alpha', 'one');
      const missing = { ...hidden, org: 'x'.repeat(hidden.org.length) };
      const body = route.method === 'GET' ? {} : { body: '{"project":"one"}' };
      const [first, second] = [
        await send(route.method, pathOf(route, hidden), who, body),
        await send(route.method, pathOf(route, missing), who, body),
      ];
      assert.deepEqual(seen(first), seen(second), `${who.name}: ${route.method} ${route.path}`);
      assert.equal(first.status, 404);
    });
  });

  it('hides what lies in another tenant behind an id, in the words of an id that names nothing', async () => {
    const who = named('org-admin');
    const cells = closed
      .filter((route) => /:(?!org\b|project\b)\w/.test(route.path))
      .flatMap((route) => world.foreign.map((id) => ({ route, id })));
    const some = isLong ? cells : cells.filter((_, at) => at % 3 === 0);
    await eachOf(some, async ({ route, id }) => {
      // A name that does not exist, of the same length: so that nothing but the name may differ.
      const other = /^[0-9a-f-]{36}$/.test(id) ? nowhere : 'q'.repeat(id.length);
      const body = route.method === 'GET' || route.method === 'DELETE' ? {} : { body: '{}' };
      const place = here('alpha', 'one');
      const answers = [
        await send(route.method, pathOf(route, place, id), who, body),
        await send(route.method, pathOf(route, place, other), who, body),
      ].map((reply, at) => JSON.stringify(seen(reply)).replaceAll(at === 0 ? id : other, 'ID'));
      assert.equal(answers[0], answers[1], `${route.method} ${route.path} ${id}`);
      assert.match(String(answers[0]), /"status":4/, `${route.method} ${route.path} ${id}`);
    });
  });

  it('shows nobody a word of a project that the caller cannot see', async () => {
    const lists = closed.filter(
      (route) => route.method === 'GET' && !route.stream && !/:(?!org\b|project\b)\w/.test(route.path),
    );
    const cells = lists.flatMap((route) =>
      everybody
        .filter((who) => who.live)
        .flatMap((who) =>
          [here('alpha', 'one'), here('alpha', 'two'), here('beta', 'one')].map((place) => ({ route, who, place })),
        ),
    );
    let words = 0;
    await eachOf(cells, async ({ route, who, place }) => {
      const reply = await send('GET', pathOf(route, place), who);
      assert.ok(reply.status < 500, `${route.path}: ${reply.text}`);
      for (const [, org, project] of reply.text.matchAll(/Mark-(\w+)-(\w+)/g)) {
        words += 1;
        const isProject = project === 'one' || project === 'two';
        const asked = {
          ...route,
          scope: isProject ? 'project' : 'org',
          permission: isProject ? 'project:read' : 'org:read',
        } as const;
        const may = verdict(asked, who, org as Org, `${org}/${project}` as Where);
        assert.equal(may, 'pass', `${who.name} read of ${org}/${project} in ${route.path} at ${place.org}`);
      }
    });
    assert.ok(words > 100, 'there was something to read');
  });

  it('has no other way in: methods, overrides, headers that name a tenant, a second token', async () => {
    const outsider = named('outsider');
    const noToken = named('no-token');
    // GET of it is a page, which leads to signing in: the pages have their own tests.
    const paths = [...new Set(closed.map((route) => route.path))].filter((path) => path !== '/device');
    await eachOf(paths, async (pattern) => {
      const own = closed.filter((route) => covers(route.path, pattern));
      const route = closed.find((one) => one.path === pattern) as Route;
      const path = pathOf(route, here('alpha', 'one'));
      for (const method of [
        'GET',
        'HEAD',
        'POST',
        'PUT',
        'PATCH',
        'DELETE',
        'OPTIONS',
        'PROPFIND',
        'TRACE',
        'SEARCH',
      ]) {
        // Public on the same path, such as signing in beside the list of sessions, it is no way into what is closed.
        if (table.some((one) => covers(one.path, pattern) && one.method === method)) continue;
        const reply = await send(method, path, noToken);
        const isHead = method === 'HEAD' && own.some((one) => one.method === 'GET');
        assert.equal(reply.status, isHead ? 401 : 405, `${method} ${pattern}`);
        if (isHead) {
          assert.equal(reply.text, '');
          const want = verdict(own.find((one) => one.method === 'GET') as Route, outsider, 'alpha', 'alpha/one');
          const head = await send(method, `${path}?no-such-key=1`, outsider);
          assert.equal(head.status, want === 'pass' ? 400 : want, `${method} ${pattern}`);
        }
      }
      const write = own.find((one) => one.path === pattern && one.method !== 'GET');
      if (write === undefined || write.scope === 'self') return;
      for (const extra of [
        {
          headers: {
            'x-http-method-override': 'GET',
            'x-method-override': 'GET',
            'x-original-url': '/healthz',
            'x-rewrite-url': '/healthz',
          },
        },
        {
          headers: {
            'x-org': 'beta',
            'x-project': 'one',
            'x-tenant': 'beta',
            'x-forwarded-user': 'org-admin',
            cookie: 'session=org-admin',
          },
        },
        { headers: { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-host': 'beta' } },
      ]) {
        assert.equal((await send(write.method, path, outsider, extra)).status, 404, `${write.method} ${pattern}`);
        assert.equal((await send(write.method, path, noToken, extra)).status, 401, `${write.method} ${pattern}`);
      }
      const admin = named('org-admin').token ?? '';
      for (const query of [
        `access_token=${admin}`,
        `token=${admin}`,
        `org=beta`,
        `project=${world.ids.get('beta/one')}`,
      ]) {
        assert.equal((await send(write.method, `${path}?${query}`, noToken)).status, 401);
        assert.equal((await send(write.method, `${path}?${query}`, outsider)).status, 404);
        const reply = await send(write.method, `${path}?${query}`, named('org-admin'), { body: '{}' });
        assert.equal(reply.status, 400, `${write.method} ${pattern}?${query.slice(0, 12)}: a tenant beside the path's`);
      }
    });
  });

  it('refuses a body that names a tenant beside the path’s', async () => {
    const writes = closed.filter((route) => route.method !== 'GET' && route.scope !== 'self');
    await eachOf(writes, async (route) => {
      for (const key of ['org', 'orgId', 'organizationId', 'project', 'projectId']) {
        const body = JSON.stringify({ [key]: world.ids.get(key.startsWith('o') ? 'beta' : 'beta/one') });
        const reply = await send(route.method, pathOf(route, here('alpha', 'one')), named('org-admin'), { body });
        assert.equal(reply.status, 400, `${route.method} ${route.path} ${key}: ${reply.text}`);
      }
    });
  });
});
