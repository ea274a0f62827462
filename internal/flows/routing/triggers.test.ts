import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { Sql } from '../../adapters/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { TriggerCache } from './triggers.ts';

let t: TestDatabase;
before(async () => {
  t = await createTestDatabase();
});
after(() => t.close());

test('triggers of the projects that are routed stay compiled, also in a crowd of others', async () => {
  const cache = new TriggerCache({ projects: 3, bytes: 100_000, templateBytes: 1_000 });
  let loads = 0;
  const counting: Sql = {
    query(text, values, name) {
      loads += 1;
      return t.db.query(text, values, name);
    },
  };
  const get = async (project: string): Promise<boolean> => {
    const before = loads;
    await cache.get(counting, project, 1);
    return loads === before;
  };
  const busy = randomUUID();
  assert.equal(await get(busy), false);
  for (let turn = 0; turn < 10; turn += 1) {
    assert.equal(await get(randomUUID()), false);
    assert.equal(await get(busy), true, `at ${turn}`);
  }
  const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()] as const;
  for (const project of [one, two, three]) await get(project);
  assert.equal(await get(one), true);
  assert.equal(await get(busy), false);
  assert.equal(await get(two), false, 'the one that was not asked for the longest has gone');
});

interface Made {
  readonly name: string;
  readonly key: string;
  readonly initialPrompt?: string;
  readonly message?: string;
  readonly where?: { readonly [path: string]: string };
}

/** Answers what a cache asks for from agents in memory, each with one trigger on `key`, and counts what is asked for at once. */
function answering(agents: ReadonlyMap<string, Made>): Sql & {
  readonly asked: number[];
  failAt: number;
} {
  const rowOf = (id: string) => {
    const {
      name,
      key,
      where = {},
      message,
      initialPrompt = null,
    } = agents.get(id) ?? assert.fail(`${id} is not there`);
    const spec = { kind: 'event', event: key, where, fallback: false, routing: { kind: 'spawn' }, message };
    const triggers = [{ ordinal: 0, event: key, scope: null, spec }];
    const nothing = { concurrency: null, bindings: {}, displayTitle: null, mounts: [] };
    return { id, name, revision: 1, initialPrompt, ...nothing, triggers };
  };
  const sql = {
    asked: [] as number[],
    failAt: Number.POSITIVE_INFINITY,
    query<Row>(_text: string, values: readonly unknown[] = []): Promise<{ rows: Row[]; rowCount: number }> {
      const ids = values[1] as readonly string[] | undefined;
      if (ids !== undefined) sql.asked.push(ids.length);
      if (sql.asked.length >= sql.failAt) return Promise.reject(new Error('the connection is lost'));
      const rows =
        ids === undefined ? [...agents].map(([id, one]) => ({ id, digest: `${one.name} ${one.key}` })) : ids.map(rowOf);
      return Promise.resolve({ rows: rows as Row[], rowCount: rows.length });
    },
  };
  return sql;
}

const some = (count: number, key: string) =>
  new Map(Array.from({ length: count }, (_, at) => [`id-${at}`, { name: `agent-${at}`, key }]));

test('a tree of thousands of agents is read in parts, so that the rest of the daemon has its turns between', async () => {
  const sql = answering(some(3_000, 'a.happened'));
  const triggers = await new TriggerCache().get(sql, 'p', 1);
  assert.equal(triggers.index.size, 3_000);
  assert.ok(triggers.listens('a.happened'));
  assert.ok(sql.asked.length > 1 && Math.max(...sql.asked) <= 256, `asked for ${sql.asked.join(', ')} at once`);
});

test('one that breaks off half-way leaves nothing half-made to the next', async () => {
  const cache = new TriggerCache();
  await cache.get(answering(some(600, 'a.happened')), 'p', 1);
  const sql = answering(some(600, 'b.happened'));
  sql.failAt = 2;
  await assert.rejects(cache.get(sql, 'p', 2), /the connection is lost/);
  // As a transaction that began before it, and one of the generation that it was to be.
  const before = await cache.get(answering(some(600, 'a.happened')), 'p', 1);
  assert.deepEqual([before.listens('a.happened'), before.listens('b.happened')], [true, false]);
  const after = await cache.get(answering(some(600, 'b.happened')), 'p', 2);
  assert.deepEqual([after.listens('a.happened'), after.listens('b.happened'), after.index.size], [false, true, 600]);
});

const made = (count: number, of: (at: number) => Partial<Made>) =>
  new Map(
    Array.from({ length: count }, (_, at) => [`id-${at}`, { name: `agent-${at}`, key: 'a.happened', ...of(at) }]),
  );

test('projects are kept by what they hold, not by how many triggers they have', async () => {
  const bytes = 4_000_000;
  const cache = new TriggerCache({ projects: 100, bytes, templateBytes: 1_000 });
  const long = (at: number): string => String(at).padEnd(100_000, '.');
  const holding: readonly ((at: number) => Partial<Made>)[] = [
    (at) => ({ initialPrompt: long(at) }),
    (at) => ({ message: long(at) }),
    (at) => ({ where: { '$.title': long(at) } }),
  ];
  for (const [n, of] of holding.entries()) {
    await cache.get(answering(made(10, of)), `of ${n}`, 1);
    const own = new TriggerCache();
    await own.get(answering(made(10, of)), 'alone', 1);
    assert.ok(own.held.bytes > 1_000_000, `ten texts of kind ${n} are ${own.held.bytes} bytes`);
    await own.get(answering(made(1, of)), 'alone', 2);
    assert.ok(own.held.bytes < 1_000_000, `one of kind ${n} that is left is ${own.held.bytes} bytes`);
    await own.get(answering(new Map()), 'alone', 3);
    assert.ok(own.held.bytes < 1_000, `none of kind ${n} are ${own.held.bytes} bytes`);
  }
  const sql = answering(made(10, holding[0] ?? assert.fail()));
  await cache.get(sql, 'of 0', 1);
  assert.equal(sql.asked.length, 1, 'the one that was not asked for the longest had to go');
  assert.ok(cache.held.bytes <= bytes, `${cache.held.bytes} bytes are held`);
});

test('what many triggers say alike is weighed once, and goes with the last of them', async () => {
  const cache = new TriggerCache();
  const message = '.'.repeat(100_000);
  await cache.get(answering(made(300, () => ({ message }))), 'p', 1);
  const { bytes } = cache.held;
  assert.ok(bytes > 200_000 && bytes < 1_000_000, `${bytes} bytes are held`);
  await cache.get(answering(made(2, () => ({ message }))), 'p', 2);
  assert.ok(cache.held.bytes > 200_000 && cache.held.bytes < 210_000, `${cache.held.bytes} bytes are held`);
});

test('templates that were read are kept up to a bound of bytes, of all projects together', async () => {
  const templateBytes = 1_000_000;
  const cache = new TriggerCache({ projects: 10, bytes: 1_000_000, templateBytes });
  for (const project of ['a', 'b']) {
    const triggers = await cache.get(answering(new Map()), project, 1);
    for (let at = 0; at < 40; at += 1) {
      const { text } = triggers.render(`${project} {{n}} ${'{{x}}'.repeat(500)}${at}`, { n: at }, 1_000);
      assert.equal(text, `${project} ${at} ${at}`);
    }
  }
  const { templateBytes: held } = cache.held;
  assert.ok(held > templateBytes / 2 && held <= templateBytes, `${held} bytes of templates are held`);
});

test('agents with large specs are read a few at a time', async () => {
  const projectId = randomUUID();
  const db = t.db;
  await db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'O')`, [projectId]);
  await db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $1::uuid, 'p', 'P')`, [
    projectId,
  ]);
  await db.query(
    `with agents as (insert into svc.agents (project_id, name, revision, spec, spec_hash, source)
       select $1::uuid, 'agent-' || n, 1, jsonb_build_object('initialPrompt', repeat('p', 500000)), 'h', '{}'
         from generate_series(1, 8) n returning id)
     insert into svc.triggers (project_id, agent_id, ordinal, kind, event, spec, spec_hash, status)
       select $1::uuid, id, 0, 'event', 'a.happened', jsonb_build_object('kind', 'event', 'event', 'a.happened', 'where',
         '{}'::jsonb, 'fallback', false, 'routing', '{"kind": "spawn"}'::jsonb, 'message', repeat('m', 500000)), 'h', 'active'
         from agents`,
    [projectId],
  );
  const answered: number[] = [];
  const weighing: Sql = {
    async query(text, values, name) {
      const answer = await db.query(text, values, name);
      answered.push(JSON.stringify(answer.rows).length);
      return answer as never;
    },
  };
  const triggers = await new TriggerCache().get(weighing, projectId, 1);
  assert.equal(triggers.index.size, 8);
  assert.ok(Math.max(...answered) < 6_000_000, `${answered.join(', ')} characters were read at once`);
});
