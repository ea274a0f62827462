import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestDatabase, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { jsonbSlices } from './jsonb-slices.ts';

let database: TestDatabase;
before(async () => {
  database = await createTestDatabase();
});
after(() => database.close());

const stored = async (rows: readonly object[]): Promise<{ readonly read: unknown[]; readonly sizes: number[] }> => {
  const read: unknown[] = [];
  const sizes: number[] = [];
  for await (const slice of jsonbSlices(rows)) {
    sizes.push(slice.length);
    const answer = await database.db.query<{ rows: unknown[] }>('select $1::jsonb as rows', [slice]);
    read.push(...(answer.rows[0]?.rows ?? []));
  }
  return { read, sizes };
};

test('the server reads the rows that were given, of whatever size, in statements of some megabytes', async () => {
  assert.deepEqual(await stored([]), { read: [], sizes: [] });
  const small = [{ a: 1 }, { b: 'ф"\\\n😀' }, {}];
  assert.deepEqual(await stored(small), { read: small, sizes: [Buffer.byteLength(JSON.stringify(small)) + 1] });
  const sizes = [10, 65_530, 65_536, 70_000, 5_000_000, 1, 1_800_000, 1_800_000, 1_800_000];
  const rows = sizes.map((size, at) => ({ at, text: 'ф'.repeat(size / 2) }));
  const large = await stored(rows);
  assert.deepEqual(large.read, rows);
  assert.equal(large.sizes.length, 4);
  // A row that is larger by itself is a statement by itself.
  assert.deepEqual(large.sizes.filter((size) => size > 4_500_000).length, 1);
});

test('a slice is let go when the next is asked for, and when nobody asks any more', async () => {
  const rows = Array.from({ length: 3 }, (_, at) => ({ at, text: 'x'.repeat(3_000_000) }));
  const seen: Buffer[] = [];
  for await (const slice of jsonbSlices(rows)) {
    assert.deepEqual(
      seen.map((one) => one.length),
      seen.map(() => 0),
    );
    assert.ok(slice.length > 3_000_000);
    seen.push(slice);
    if (seen.length === 2) break;
  }
  assert.deepEqual(
    seen.map((one) => one.length),
    [0, 0],
  );
});
