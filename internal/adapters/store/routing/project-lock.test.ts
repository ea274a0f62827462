import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase, silent, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { Fault } from '../../../domain/fault.ts';
import { type Database, openDatabase, type Sql } from '../store.ts';
import { inApply, inProject, lockProject, unlessBusy } from './project-lock.ts';
import { lockRouting } from './routing-lock.ts';

const isBusy = (error: unknown): boolean =>
  error instanceof Fault && error.kind === 'unavailable' && error.code === 'busy' && error.retryAfterSeconds === 1;

describe('waiting for a project', () => {
  let t: TestDatabase;
  let other: Database;
  before(async () => {
    t = await createTestDatabase();
    other = openDatabase({ url: t.url, log: silent });
  });
  after(async () => {
    await other.close();
    await t.close();
  });

  /** Another daemon's transaction that holds the projects until `free`. */
  async function holding(...projects: readonly string[]): Promise<() => Promise<void>> {
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    let holds: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (holds = resolve));
    const over = other.tx(async (tx) => {
      for (const id of projects) await lockRouting(tx, id);
      holds();
      await freed;
    });
    await held;
    return async () => {
      free();
      await over;
    };
  }

  /** Less than whoever wants a locked project waits; on a machine that is slow by itself, thrice what it takes without a lock. */
  async function unheld(): Promise<number> {
    const since = performance.now();
    for (let n = 0; n < 20; n += 1) await inProject(t.db, randomUUID(), async () => n);
    return Math.max(1_900, 3 * (performance.now() - since));
  }

  it('a hundred who want a locked project hear that it is busy within their time, and all others go on', async () => {
    const [locked, free] = [randomUUID(), randomUUID()];
    const withinMs = await unheld();
    const release = await holding(locked);
    const since = performance.now();
    const toldMs: number[] = [];
    const waiting = Array.from({ length: 100 }, async () => {
      await assert.rejects(
        inProject(t.db, locked, async () => 1),
        isBusy,
      );
      toldMs.push(performance.now() - since);
    });
    for (let n = 0; n < 20; n += 1) assert.equal(await inProject(t.db, free, async () => n), n);
    assert.equal((await t.db.query<{ n: number }>('select 1 as n')).rows[0]?.n, 1);
    assert.ok(performance.now() - since < withinMs, 'those that were not locked did not wait for one that was');
    await Promise.all(waiting);
    // Two seconds; on a machine that is slow by itself the first of them hears of it late.
    const firstMs = Math.min(...toldMs);
    assert.ok(firstMs >= 1_900 && firstMs < withinMs + 1_000, `${firstMs} ms`);
    await release();
    assert.equal(await inProject(t.db, locked, async () => 'mine'), 'mine');
  });

  it('more locked projects than connections hold up nobody else', async () => {
    const projects = Array.from({ length: 12 }, () => randomUUID());
    const withinMs = await unheld();
    const release = await holding(...projects);
    const waiting = projects.map((id) =>
      assert.rejects(
        inProject(t.db, id, async () => 1),
        isBusy,
      ),
    );
    const since = performance.now();
    for (let n = 0; n < 20; n += 1) await inProject(t.db, randomUUID(), async () => n);
    assert.ok(performance.now() - since < withinMs);
    await Promise.all(waiting);
    await release();
  });

  it('who changes what an apply plans against hears busy too, here and from another daemon, and routing goes on', async () => {
    const id = randomUUID();
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    const { promise: isHeld, resolve: holds } = Promise.withResolvers<void>();
    const over = inApply(other, id, async () => {
      holds();
      await freed;
    });
    await isHeld;
    const since = performance.now();
    const waiting = [t.db, t.db.calls, t.db, other].map((db) =>
      assert.rejects(
        inApply(db, id, async () => 1, { patient: true }),
        isBusy,
      ),
    );
    waiting.push(
      assert.rejects(
        t.db.tx((tx) => lockProject(tx, id)),
        isBusy,
      ),
    );
    assert.equal(await inProject(t.db, id, async () => 'routed'), 'routed');
    await Promise.all(waiting);
    const took = performance.now() - since;
    assert.ok(took >= 1_900 && took < 4_500, `${took}`);
    free();
    await over;
    assert.equal(await inApply(t.db, id, async () => 'mine'), 'mine');
  });

  it('is given what was asked for with the lock where that was free, and asks anew where it has waited', async () => {
    const id = randomUUID();
    let asked = 0;
    const early = (tx: Sql) =>
      tx.query<{ n: number }>('select count(*)::int as n from pg_locks', []).then(() => (asked += 1));
    const given = (): Promise<number | undefined> => inApply(t.db, id, async (_tx, read) => read, { early });
    assert.deepEqual([await given(), asked], [1, 1]);
    const { promise: freed, resolve: free } = Promise.withResolvers<void>();
    const { promise: isHeld, resolve: holds } = Promise.withResolvers<void>();
    const over = inApply(other, id, async () => (holds(), freed));
    await isHeld;
    const waiting = given();
    while (asked < 2) await new Promise((resolve) => setImmediate(resolve));
    free();
    assert.equal(await waiting, undefined);
    await over;
    assert.equal(asked, 2);
  });

  it('who waits gets it as soon as it is free, in the order of asking', async () => {
    const id = randomUUID();
    const release = await holding(id);
    const order: number[] = [];
    const waiting = [0, 1, 2].map((n) => inProject(t.db, id, async () => void order.push(n)));
    await release();
    await Promise.all(waiting);
    assert.deepEqual(order, [0, 1, 2]);
  });

  it('what failed gives the project back, and work that can be left is left', async () => {
    const id = randomUUID();
    await assert.rejects(
      inProject(t.db, id, async () => {
        throw new Error('no');
      }),
      /no/,
    );
    assert.equal(await unlessBusy(t.db, id, async () => 'mine'), 'mine');
    const release = await holding(id);
    assert.equal(await unlessBusy(t.db, id, async () => 'mine'), undefined);
    await release();
  });
});
