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
