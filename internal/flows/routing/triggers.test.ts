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
  const cache = new TriggerCache({ projects: 3, triggers: 100 });
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

/** Answers what a cache asks for from agents in memory, each with one trigger on `key`, and counts what is asked for at once. */
function answering(agents: ReadonlyMap<string, { readonly name: string; readonly key: string }>): Sql & {
  readonly asked: number[];
  failAt: number;
} {
  const rowOf = (id: string) => {
    const { name, key } = agents.get(id) ?? assert.fail(`${id} is not there`);
    const spec = { kind: 'event', event: key, where: {}, fallback: false, routing: { kind: 'spawn' } };
    const triggers = [{ ordinal: 0, event: key, scope: null, spec }];
    const nothing = { concurrency: null, bindings: {}, initialPrompt: null, displayTitle: null, mounts: [] };
    return { id, name, revision: 1, ...nothing, triggers };
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
