// The same bounds as in svcd.hostile.fuzz.test.ts for every route of the table that takes a body, with bodies of the size that its
// door takes: of its own shape with one thing in it that is as large as may be, and of none. What came of that is then read by
// every route that answers with something. A new route is covered by being in the table.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bodySchemas, sample } from '../../internal/edge/http/bodies-testkit.ts';
import { routeTable } from '../../internal/edge/http/http.ts';
import type { Route } from '../../internal/edge/http/route.ts';
import { routes } from '../../internal/edge/http/routes.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { applyAgents, hook, post, settled } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf } from './hostile-bounds-testkit.ts';
import { filled, listOf, mebibyte } from './hostile-testkit.ts';

let daemon: MeasuredDaemon;
/** What stands in a path for a name: by the segment before it, or else by its own name. */
const names: { [before: string]: string } = {};
let explained = '';

before(async () => {
  // Without sessions: what a start has made waits, with all that it holds.
  daemon = await startMeasuredDaemon({ SVC_LOG_LEVEL: 'warn', SVC_ROLES: 'api,route,schedule,sync' });
  const { api } = daemon;
  const made = async (method: string, path: string, body: object): Promise<string> => {
    const answer = await api(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return String(answer.body['id']);
  };
  names['orgs'] = String((await api('GET', '/api/v1/orgs/default')).body['id']);
  names['projects'] = String((await api('GET', 'P')).body['id']);
  const fields = Array.from({ length: 8 }, (_, at) => `$.${'a.'.repeat(at)}a`);
  const where = Object.fromEntries(fields.map((field) => [field, { exists: true }]));
  const one = hook('many', { kind: 'deliver', onUnmatched: 'drop' }, { where, message: 'm' });
  const triggers = Array.from({ length: 100 }, () => one);
  const listening = Array.from({ length: 4 }, (_, at) => [`many-${at}`, { concurrency: 1, triggers }]);
  const paths = await applyAgents(api, {
    prompted: { initialPrompt: '{{a}}'.repeat(4_000), triggers: [hook('hook', { kind: 'spawn' })] },
    ...Object.fromEntries(listening),
  });
  names['agents'] = 'prompted';
  names['webhook-endpoints'] = String(paths['hook']).split('/').at(-2) ?? '';
  names['sessions'] = await made('POST', 'P/agents/prompted/sessions', { message: 'm' });
  names['messages'] = names['sessions'];
  for (const provider of ['codehost', 'tracker', 'chat']) {
    const credentials = provider === 'chat' ? { signingSecret: 'secret' } : { webhookSecret: 'secret' };
    names[provider] = await made('POST', 'P/connections', { provider, name: provider, credentials });
  }
  names['connections'] = 'codehost';
  await made('PUT', 'P/secrets/kept', { value: 'v', protected: false });
  await made('PUT', '/api/v1/orgs/default/secrets/kept', { value: 'v', protected: false });
  names['secrets'] = 'kept';
  await made('POST', 'P/repositories', { name: 'asleep', url: 'https://h.example/r.git', suspended: true });
  names['repositories'] = 'asleep';
  await made('POST', 'P/receivers', { name: 'told', kind: 'webhook', url: 'https://h.example/hook', secret: 'secret' });
  names['receivers'] = 'told';
  await made('POST', 'P/endpoints', { name: 'reserved' });
  names['endpoints'] = 'reserved';
  names['service-accounts'] = await made('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot' });
  let payload: object = { a: 'z'.repeat(900_000) };
  for (let at = 1; at < 8; at += 1) payload = { a: payload };
  explained = JSON.stringify({ event: 'webhook.received', payload });
  names['events'] = await post(daemon.url, String(paths['many']), payload);
  await settled(daemon.database.db);
});
after(() => daemon.stop());
const { isBounded, isWithin } = boundsOf(() => daemon);

const table = routeTable(routes);
const schemas = bodySchemas(table);
/** Last those that take away what the others are about. */
const writing = [
  ...table.filter(({ method }) => ['POST', 'PUT', 'PATCH'].includes(method)),
  ...table.filter(({ method, path }) => method === 'DELETE' && !/:(org|project)$/.test(path)),
];

function pathOf(route: Route): string {
  const parts = route.path.split('/');
  return parts.map((part, at) => (part.startsWith(':') ? (names[parts[at - 1] ?? ''] ?? 'x') : part)).join('/');
}

/** What is as large as may be, in JSON. */
const large: { readonly [what: string]: (bytes: number) => string } = {
  'a long text': (bytes) => `"${filled('z', bytes)}"`,
  'a long text of tokens': (bytes) => `"${filled('{{a}}', bytes)}"`,
  'a long text of escapes': (bytes) => `"${filled('\\n\\u0001', bytes)}"`,
  'many keys': (bytes) => `{"a":0${Array.from({ length: bytes / 14 }, (_, at) => `,"k${at}":0`).join('')}}`,
  'many lists': (bytes) => listOf('[]', bytes),
  'many texts': (bytes) => listOf('"x"', bytes),
  'lists in lists': (bytes) => `${'['.repeat(bytes / 2)}${']'.repeat(bytes / 2)}`,
};

/** Of each thing that a document holds, a way to write the document with something else there; first all of it. */
function* places(
  document: unknown,
  around: (inner: string) => string = (inner) => inner,
): Generator<[string, (inner: string) => string]> {
  yield ['', around];
  if (typeof document !== 'object' || document === null) return;
  const isList = Array.isArray(document);
  for (const [key, member] of Object.entries(document)) {
    const others = Object.entries(document).filter(([other]) => other !== key);
    const rest = others.map(([other, value]) => `,${JSON.stringify(other)}:${JSON.stringify(value)}`).join('');
    const inside = isList
      ? (inner: string) => around(`[${inner}]`)
      : (inner: string) => around(`{${JSON.stringify(key)}:${inner}${rest}}`);
    for (const [where, write] of places(member, inside)) yield [`.${key}${where}`, write];
  }
  if (!isList) {
    const all = Object.entries(document).map(([key, value]) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`);
    yield ['.unknown', (inner) => around(`{"unknown":${inner}${all.join('')}}`)];
  }
}

function* bodiesOf(route: Route): Generator<[string, string]> {
  const limit = route.bodyLimitBytes ?? mebibyte;
  const bytes = (isLong ? limit : Math.min(limit, mebibyte)) - 8_192;
  const document = sample('', schemas.get(route) ?? {});
  for (const [where, write] of schemas.has(route) ? places(document) : places({})) {
    for (const [what, make] of Object.entries(large)) yield [`${what} in the body${where}`, write(make(bytes))];
  }
}

const statuses = new Map<string, Set<number>>();
async function send(route: Route, body?: string): Promise<void> {
  const ask = () =>
    fetch(`${daemon.url}${pathOf(route)}`, {
      method: route.method,
      headers: {
        authorization: `Bearer ${daemon.token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
    });
  const isCut = (error: Error): boolean =>
    ['EPIPE', 'ECONNRESET', 'UND_ERR_SOCKET'].includes(String((error.cause as { code?: string }).code));
  const response = await ask()
    // A kept connection may be closed as idle while it is taken.
    .catch((error: Error) => (isCut(error) ? ask() : Promise.reject(error)))
    // On a slow machine a body of tens of megabytes may be let go for its time.
    .catch((error: Error) => assert.ok((body ?? '').length > mebibyte && isCut(error), `${route.id}: ${error.cause}`));
  const [status, text] = response === undefined ? [408, ''] : [response.status, await response.text()];
  // Some are not set up here, or lead to somebody who is not there.
  const isRight = status < 500 || [502, 503].includes(status);
  const isAdmitted = ![401, 429].includes(status) || route.scope === 'public';
  assert.ok(isRight && isAdmitted, `${route.id}: ${status} ${text.slice(0, 400)}`);
  statuses.set(route.id, (statuses.get(route.id) ?? new Set()).add(status));
}

describe('a route that takes a body', () => {
  if (isLong) {
    for (const route of writing) {
      it(`${route.method} ${route.path}`, async () => {
        // Together first: what all of them cost in a row is more than what any does.
        const all = async (): Promise<void> => {
          for (const [, body] of bodiesOf(route)) await send(route, body);
        };
        if (await isWithin(route.id, all)) return;
        for (const [what, body] of bodiesOf(route)) await isBounded(`${route.id}: ${what}`, () => send(route, body));
      });
    }
  }

  it('is within its bounds with a long text and with many keys, all of them in a row', { skip: isLong }, async () => {
    const few = (route: Route): [string, string][] =>
      [...bodiesOf(route)]
        .filter(([what]) => /^(?:a long text|many keys) in the body(?:\.[a-z]+)?$/i.test(what))
        .slice(0, 4);
    for (const route of writing) {
      const all = async (): Promise<void> => {
        for (const [, body] of few(route)) await send(route, body);
      };
      await isBounded(route.id, all);
    }
  });

  it('was asked, each one, and gave what it was asked for or why not', () => {
    assert.deepEqual([...statuses.keys()].toSorted(), writing.map(({ id }) => id).toSorted());
  });
});

describe('a session that is started by hand', () => {
  it('from a text of thousands of tokens with as much as may be sent for each', () =>
    isBounded('a start', async () => {
      const input = { a: 'z'.repeat(mebibyte - 8_192) };
      const { status, body } = await daemon.api('POST', 'P/agents/prompted/sessions', { input });
      assert.equal(status, 201, JSON.stringify(body));
    }));
});

describe('an explanation as large as may be', () => {
  const project = () => `${daemon.url}/api/v1/orgs/default/projects/default`;
  const authorization = () => ({ authorization: `Bearer ${daemon.token}` });
  /** Asks, and all the while how the daemon is. */
  const askAndLook = async (ask: () => Promise<Response>): Promise<void> => {
    let isOver = false;
    const looking = (async () => {
      let looks = 0;
      for (; !isOver; looks += 1) assert.equal((await fetch(`${daemon.url}/healthz`)).status, 200);
      return looks;
    })();
    const answer = await ask();
    const text = await answer.text();
    isOver = true;
    assert.equal(answer.status, 200, text.slice(0, 300));
    assert.ok(text.length > 3 * mebibyte, String(text.length));
    assert.ok((await looking) > 0);
  };

  it('of what would become of an event, while others ask how the daemon is', () =>
    isBounded('explain triggers', () =>
      askAndLook(() =>
        fetch(`${project()}/triggers/explain`, {
          method: 'POST',
          headers: { ...authorization(), 'content-type': 'application/json' },
          body: explained,
        }),
      ),
    ));

  it('of an event, while others ask how the daemon is', () =>
    isBounded('explain an event', () =>
      askAndLook(() => fetch(`${project()}/events/${names['events']}/explain`, { headers: authorization() })),
    ));
});

describe('lists of what is large in each of its rows', () => {
  const headers = () => ({ authorization: `Bearer ${daemon.token}` });
  const project = () => `${daemon.url}/api/v1/orgs/default/projects/default`;
  before(async () => {
    const { db } = daemon.database;
    const text = `repeat('z', 1000000)`;
    await db.query(`insert into svc.agent_revisions select (jsonb_populate_record(r, jsonb_build_object('revision', n,
      'spec', jsonb_build_object('systemPrompt', ${text})))).* from svc.agent_revisions r, generate_series(101, 160) n
      where r.revision = 1 and r.agent_id = (select id from svc.agents where name = 'prompted')`);
    // In parts, each within the time of a statement.
    for (let part = 0; part < 3; part += 1) {
      await db.query(`insert into svc.reconciles (id, project_id, repository_id, repository_name, reason, status, finished_at, diagnostics)
      select gen_random_uuid(), r.project_id, r.id, r.name, 'manual', 'failed', now(), jsonb_build_array(jsonb_build_object(
        'severity', 'error', 'code', 'c', 'message', ${text})) from svc.repositories r, generate_series(1, 40)`);
    }
  });

  it('an agent’s revisions', () =>
    isBounded('revisions', async () => {
      const answer = await fetch(`${project()}/agents/prompted/revisions?limit=200`, { headers: headers() });
      assert.equal(answer.status, 200);
      await answer.arrayBuffer();
    }));

  it('runs', () =>
    isBounded('runs', async () => {
      await (await fetch(`${project()}/reconciles?limit=200`, { headers: headers() })).arrayBuffer();
    }));

  it('a stream of runs that is gone on with', () =>
    isBounded('stream', async () => {
      const stop = new AbortController();
      const asked = { headers: { ...headers(), 'last-event-id': '0' }, signal: stop.signal };
      const answer = await fetch(`${project()}/reconciles/stream`, asked);
      let bytes = 0;
      for await (const chunk of answer.body ?? []) {
        bytes += (chunk as Uint8Array).length;
        if (bytes > 40_000_000) break;
      }
      stop.abort();
    }));
});

describe('a route that answers with what there is by then', () => {
  it('is within its bounds', async () => {
    const reading = table.filter(({ method, stream }) => method === 'GET' && stream !== true);
    assert.ok(reading.length > 60, String(reading.length));
    for (const route of isLong ? reading : []) await isBounded(route.id, () => send(route));
    if (!isLong) {
      await isBounded('every route that answers', async () => {
        for (const route of reading) await send(route);
      });
    }
  });
});
