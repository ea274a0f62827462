import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json } from '../../domain/json.ts';
import type { Where } from '../../domain/spec.ts';
import { createBucket } from './bucket.ts';
import { compileWhere, matchesAll } from './clause.ts';

interface Asking {
  readonly where: Where;
}
const wheresList: readonly Where[] = [
  {},
  { n: 1 },
  { n: 1 },
  { n: 2, m: 1 },
  { m: 1, n: 2 },
  { n: { in: [1, 2] } },
  { n: { in: [2, 3] }, m: { exists: true } },
  { n: 1, m: { notIn: [2] } },
  { n: { changedTo: 1 } },
  { m: { exists: false } },
  { '$.a.b': 1 },
  { ab: 1 },
];
const payloads: readonly Json[] = [
  {},
  { n: 1 },
  { n: 2 },
  { n: 3 },
  { n: 1, m: 1 },
  { n: 2, m: 1 },
  { n: 3, m: 2 },
  { n: 1, changes: { n: { from: 2 } }, previous: { n: 2 } },
  { a: { b: 1 } },
  { ab: 1 },
  { a: { b: 1 }, ab: 1 },
];
const find = (bucket: ReturnType<typeof createBucket<Asking>>, payload: Json): Set<Asking> => {
  const found: Asking[] = [];
  bucket.find(payload, found);
  assert.equal(new Set(found).size, found.length, 'each once');
  return new Set(found);
};

test('what is found is what matches, whoever came and left before', () => {
  for (let turn = 0; turn < wheresList.length; turn += 1) {
    const bucket = createBucket<Asking>();
    const here = new Set<Asking>();
    const check = (): void => {
      assert.equal(bucket.isEmpty(), here.size === 0);
      for (const payload of payloads) {
        const matching = [...here].filter(({ where }) => matchesAll(compileWhere(where), payload));
        assert.deepEqual(find(bucket, payload), new Set(matching));
      }
    };
    for (const where of [...wheresList.slice(turn), ...wheresList.slice(0, turn)]) {
      const asking = { where };
      bucket.place(bucket.count(asking, compileWhere(where)));
      here.add(asking);
      check();
    }
    // Some leave in the order in which they came, some the other way round.
    const leaving = turn % 2 === 0 ? [...here] : [...here].toReversed();
    for (const asking of leaving) {
      bucket.remove(asking, compileWhere(asking.where));
      here.delete(asking);
      check();
    }
  }
});

/** A payload that counts how often each of its members is read. */
function counted(values: { readonly [key: string]: Json }): { readonly payload: Json; reads(key: string): number } {
  const reads = new Map<string, number>();
  const payload = {};
  for (const [key, value] of Object.entries(values)) {
    const get = (): Json => {
      reads.set(key, (reads.get(key) ?? 0) + 1);
      return value;
    };
    Object.defineProperty(payload, key, { enumerable: true, get });
  }
  return { payload: payload as Json, reads: (key) => reads.get(key) ?? 0 };
}
const filled = (wheres: readonly Where[]) => {
  const bucket = createBucket<Asking>();
  const entries = wheres.map((where) => bucket.count({ where }, compileWhere(where)));
  for (const entry of entries) bucket.place(entry);
  return bucket;
};

test('an event reads a path once, however many ask for a value of it', () => {
  for (const one of [(at: number): Where => ({ n: at }), (at: number): Where => ({ n: { in: [at, -at] } })]) {
    const bucket = filled(Array.from({ length: 200 }, (_, at) => one(at + 1)));
    const { payload, reads } = counted({ n: 7 });
    assert.deepEqual([find(bucket, payload).size, reads('n')], [1, 1]);
  }
});

test('a trigger is found by what fewest ask for', () => {
  for (const one of [(at: number): Where => ({ all: 1, own: at }), (at: number): Where => ({ own: at, all: 1 })]) {
    const bucket = filled(Array.from({ length: 200 }, (_, at) => one(at)));
    const { payload, reads } = counted({ all: 1, own: 7 });
    assert.deepEqual([find(bucket, payload).size, reads('own'), reads('all')], [1, 1, 1]);
  }
});

test('who has left is not counted among those who ask', () => {
  const bucket = createBucket<Asking>();
  const left = Array.from({ length: 50 }, (): Asking => ({ where: { x: 1 } }));
  for (const one of left) bucket.place(bucket.count(one, compileWhere(one.where)));
  for (const one of left) bucket.remove(one, compileWhere(one.where));
  for (const where of [{ y: 1 }, { y: 1 }, { y: 1 }, { y: 1, x: 1 }])
    bucket.place(bucket.count({ where }, compileWhere(where)));
  const { payload, reads } = counted({ y: 0, x: 1 });
  assert.deepEqual([find(bucket, payload).size, reads('x')], [0, 1], 'the last is found by x');
});
