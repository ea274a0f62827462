import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { inApply } from '../../internal/adapters/store/routing/project-lock.ts';
import { lockRouting } from '../../internal/adapters/store/routing/routing-lock.ts';
import { openDatabase } from '../../internal/adapters/store/store.ts';
import { type CutProxy, startCutProxy } from '../../internal/base/testkit/cut-proxy.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase, silent, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { applyAgents, hook, runnable } from '../../internal/flows/routing/routing-testkit.ts';

/** What an answer may take: 6 s, and what a loaded machine adds. */
const answeredMs = 8_000;

describe('a daemon whose database or project is held up', () => {
  let database: TestDatabase;
  let network: CutProxy;
  let daemon: TestDaemon;
  let path: string;
  const logged: string[] = [];
  before(async () => {
    database = await createTestDatabase();
    network = await startCutProxy(database.url);
    const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) });
    daemon = await startTestDaemon({ database, config: { databaseUrl: network.url }, log });
    const paths = await applyAgents(daemon.api, { one: { triggers: [hook('crowd', { kind: 'spawn' })] } });
    path = paths['crowd'] ?? '';
  });
  after(async () => {
    await daemon.stop();
    await network.stop();
    await database.close();
  });

  const post = (): Promise<Response> => fetch(`${daemon.url}${path}`, { method: 'POST', body: '{"n": 1}' });
  const problem = async (answer: Response): Promise<[number, string, boolean]> => [
    answer.status,
    ((await answer.json()) as { code: string }).code,
    answer.headers.get('retry-after') !== null,
  ];
  const headers = (): { authorization: string } => ({ authorization: `Bearer ${daemon.token}` });
  const project = '/api/v1/orgs/default/projects/default';

  it('whoever asks for very much that takes long has others wait for none of it', async () => {
    assert.equal((await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'busy' })).status, 201);
    const busy = '/api/v1/orgs/default/projects/busy/secrets/kept';
    assert.equal((await daemon.api('PUT', busy, { value: 'v' })).status, 201);
    const other = openDatabase({ url: database.url, log: silent });
    const free = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const over = other.tx(async (tx) => {
      await tx.query('select from svc.secrets for update');
      held.resolve();
      await free.promise;
    });
    await held.promise;
    let answered = 0;
    const asked = Array.from({ length: 12 }, async () => {
      const { status } = await daemon.api('PUT', busy, { value: 'w' });
      answered += 1;
      return status;
    });
    // As many as may be are in the database, and the others wait for them.
    while (daemon.ctx.db.waiting() < 6) await sleep(5);
    assert.equal((await daemon.api('GET', 'P/agents/one')).status, 200);
    assert.equal(answered, 0, 'it was waited for what another project has asked for');
    free.resolve();
    await over;
    assert.deepEqual(new Set(await Promise.all(asked)), new Set([200]));
    await other.close();
  });

  it('whoever wants a project that is locked hears busy, with a time to come back, and others are served', async () => {
    const { body } = await daemon.api('POST', 'P/agents/one/sessions', { message: 'Hello' });
    const other = openDatabase({ url: database.url, log: silent });
    const { rows } = await database.db.query<{ id: string }>('select id from svc.projects');
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    let holds: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (holds = resolve));
    const over = other.tx(async (tx) => {
      await lockRouting(tx, rows[0]?.id ?? '');
      holds();
      await freed;
    });
    await held;
    const begun = performance.now();
    assert.equal((await daemon.api('GET', 'P/agents')).status, 200);
    assert.equal((await post()).status, 202);
    const plainMs = performance.now() - begun;
    const since = performance.now();
    const said = Array.from({ length: 12 }, () =>
      fetch(`${daemon.url}${project}/sessions/${String(body['id'])}/messages`, {
        method: 'POST',
        headers: { ...headers(), 'content-type': 'application/json' },
        body: JSON.stringify({ text: 'x' }),
      }),
    );
    assert.equal((await daemon.api('GET', 'P/agents')).status, 200);
    assert.equal((await post()).status, 202);
    // Less than those wait; on a machine that is slow by itself, thrice what others take while nobody waits.
    assert.ok(performance.now() - since < Math.max(2_000, 3 * plainMs), 'others were served meanwhile');
    for (const answer of await Promise.all(said)) assert.deepEqual(await problem(answer), [503, 'busy', true]);
    free();
    await over;
    await other.close();
    const again = await daemon.api('POST', `P/sessions/${String(body['id'])}/messages`, { text: 'now' });
    assert.equal(again.status, 202);
  });

  it('who applies to a project that is changed by somebody else hears busy, and one that takes long is carried out', async () => {
    const other = openDatabase({ url: database.url, log: silent });
    const { rows } = await database.db.query<{ id: string }>('select id from svc.projects');
    const file = {
      path: '.svc/agents/two.yaml',
      content: JSON.stringify({ name: 'two', ...runnable }),
    };
    const { promise: isHeld, resolve: holds } = Promise.withResolvers<void>();
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    const over = inApply(other, rows[0]?.id ?? '', async () => {
      holds();
      await freed;
    });
    await isHeld;
    const send = (method: string, path: string, body?: object): Promise<Response> =>
      fetch(`${daemon.url}${project}${path}`, {
        method,
        headers: { ...headers(), 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    const asked = [
      send('POST', '/apply', { files: [file] }),
      send('POST', '/apply', { files: [file] }),
      send('DELETE', '/agents/one'),
      send('POST', '/endpoints', { name: 'held' }),
    ];
    for (const answer of await Promise.all(asked)) assert.deepEqual(await problem(answer), [503, 'busy', true]);
    free();
    await over;
    await other.close();
    // Longer than a call may wait for an answer: as an apply of thousands of agents does on a slow disk.
    await database.db.query(`create function svc.slow() returns trigger language plpgsql as
      $$ begin perform pg_sleep(6); return null; end $$`);
    await database.db.query(
      'create trigger slow after insert on svc.agents for each statement execute function svc.slow()',
    );
    const applied = await send('POST', '/apply', { files: [file] });
    await database.db.query('drop function svc.slow() cascade');
    assert.deepEqual([applied.status, ((await applied.json()) as { status: string }).status], [200, 'applied']);
  });

  it('a table that is locked is unavailable to all who wait for it, in time', async () => {
    const blocker = new pg.Client({ connectionString: database.url });
    await blocker.connect();
    await blocker.query('begin; lock table svc.events in access exclusive mode');
    const since = performance.now();
    const answers = await Promise.all(Array.from({ length: 80 }, post));
    const took = performance.now() - since;
    await blocker.query('rollback');
    await blocker.end();
    for (const answer of answers) assert.deepEqual(await problem(answer), [503, 'unavailable', true]);
    assert.ok(took < answeredMs, `${took} ms`);
    assert.equal((await post()).status, 202);
    // What was turned away for it is told in the log, by the endpoint that it came to; once, and by its number later.
    const told = logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'delivery.rejected');
    assert.deepEqual(
      [...new Set(told.map(({ endpoint, why }) => `${endpoint}: ${why}`))],
      ['crowd: The database cannot be reached at the moment; try again.'],
    );
    assert.ok(told.length <= 2, `${told.length} lines`);
  });

  it('whoever asks for what stands in locked tables hears that it is unavailable, in time: readers, doctor and rotation', async () => {
    const blocker = new pg.Client({ connectionString: database.url });
    await blocker.connect();
    const tables = ['events', 'agents', 'sessions', 'reconciles', 'secrets', 'schedules', 'triggers', 'key_rotations'];
    await blocker.query(
      `begin; lock table ${tables.map((table) => `svc.${table}`).join(', ')} in access exclusive mode`,
    );
    const unknown = '01890000-0000-7000-8000-000000000000';
    const paths = [
      ...['agents', 'agents/one', 'events', `events/${unknown}`, `events/${unknown}/explain`, 'sessions'],
      ...[`sessions/${unknown}`, 'reconciles', 'secrets', 'schedules', 'triggers', 'overview', 'doctor'],
    ];
    const since = performance.now();
    const answers = await Promise.all([
      ...paths.map((of) => fetch(`${daemon.url}${project}/${of}`, { headers: headers() })),
      fetch(`${daemon.url}/api/v1/keys/rotate`, { method: 'POST', headers: headers() }),
    ]);
    const took = performance.now() - since;
    await blocker.query('rollback');
    await blocker.end();
    const told = await Promise.all(
      answers.map(async (answer, at) => [paths[at] ?? 'rotate', ...(await problem(answer))]),
    );
    assert.deepEqual(
      told,
      [...paths, 'rotate'].map((of) => [of, 503, 'unavailable', true]),
    );
    assert.ok(took < answeredMs, `${took} ms`);
    assert.equal((await daemon.api('GET', 'P/doctor')).status, 200);
  });

  it('a database that says nothing is unavailable on every route, in time, and served again when it is back', async () => {
    network.cut();
    const since = performance.now();
    const asked = [
      ...Array.from({ length: 20 }, post),
      ...['/api/v1/me', `${project}/agents`, `${project}/events`, `${project}/sessions`].map((at) =>
        fetch(`${daemon.url}${at}`, { headers: headers() }),
      ),
      fetch(`${daemon.url}${project}/agents/one/sessions`, {
        method: 'POST',
        headers: { ...headers(), 'content-type': 'application/json' },
        body: '{}',
      }),
    ];
    const ready = fetch(`${daemon.url}/readyz`);
    const answers = await Promise.all(asked);
    assert.equal((await ready).status, 503);
    const took = performance.now() - since;
    network.mend();
    for (const answer of answers) assert.deepEqual(await problem(answer), [503, 'unavailable', true]);
    assert.ok(took < answeredMs, `${took} ms`);
    assert.equal((await daemon.api('GET', 'P/agents')).status, 200);
  });
});
