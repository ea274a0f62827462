import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon } from '../base/testkit/daemon.ts';
import { isWithin } from '../base/testkit/parsing.ts';
import { land, landed, roomFor } from './in-flight.ts';
import { type InHandWork, processInHand, WorkGate } from './in-hand.ts';

test('of two that are tried alone one comes after the other, though the first takes so long that others are let in', async () => {
  const gate = new WorkGate(1);
  const first = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const seen: string[] = [];
  const slow = gate.alone(async () => {
    seen.push('slow begins');
    begun.resolve();
    await first.promise;
    seen.push('slow ends');
  });
  await begun.promise;
  const next = gate.alone(async () => {
    seen.push('next');
  });
  // What is not alone waits only so long.
  const leave = await gate.enter();
  seen.push('beside');
  leave();
  first.resolve();
  await Promise.all([slow, next]);
  assert.deepEqual(seen, ['slow begins', 'beside', 'slow ends', 'next']);
  await assert.rejects(
    gate.alone(() => Promise.reject(new Error('it failed'))),
    /it failed/,
  );
  assert.equal(await gate.alone(async () => 'after a failure'), 'after a failure');
});

test('who waits to be tried alone, or beside what is, gives up with its signal, and who comes next keeps its place', async () => {
  const gate = new WorkGate(1_000);
  const first = Promise.withResolvers<void>();
  const seen: string[] = [];
  const slow = gate.alone(() => first.promise.then(() => void seen.push('slow ends')));
  await sleep(10);
  const stop = new AbortController();
  const never = (): never => assert.fail('it has begun');
  const waiting = [gate.alone(async () => never(), stop.signal), gate.enter(stop.signal).then(never)];
  const last = gate.alone(async () => void seen.push('last'));
  const began = performance.now();
  stop.abort(new Error('nobody wants it any more'));
  for (const one of waiting) await assert.rejects(one, /nobody wants it any more/);
  assert.ok(performance.now() - began < 500);
  await sleep(100);
  first.resolve();
  await Promise.all([slow, last]);
  assert.deepEqual(seen, ['slow ends', 'last']);
  // Also where it waits for others to be done.
  const [leave, again] = [await gate.enter(), new AbortController()];
  const beside = gate.alone(async () => never(), again.signal);
  await sleep(10);
  again.abort(new Error('nobody wants it any more'));
  await assert.rejects(beside, /nobody wants it any more/);
  leave();
  assert.equal(await gate.alone(async () => 'goes on'), 'goes on');
});

test('what is parked is known as such before it is let go, so that an end in between leaves nothing that nobody is told of', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    const { db } = daemon.database;
    await db.query(`insert into svc.suspects (kind, id, ends) values ('notice', 'sick', 3)`);
    const notice = (park: () => Promise<void>) => ({
      kind: 'notice' as const,
      rows: ['sick'],
      leaseSeconds: 60,
      idOf: (id: string) => id,
      nameOf: (id: string) => id,
      projectOf: () => '',
      tell: () => assert.fail('it is not told any more'),
      park,
    });
    await assert.rejects(
      processInHand(
        daemon.ctx,
        notice(() => Promise.reject(new Error('the end'))),
      ),
      /the end/,
    );
    const ends = await db.query<{ ends: number }>(`select ends from svc.suspects where id = 'sick'`);
    assert.deepEqual(ends.rows, [{ ends: 4 }]);
    let isParked = false;
    await processInHand(
      daemon.ctx,
      notice(async () => {
        isParked = true;
      }),
    );
    assert.ok(isParked);
  } finally {
    await daemon.stop();
  }
});

test('what is tried alone has a note of its own beside what is in flight still, and neither takes away the other', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const slow = Promise.withResolvers<void>();
  try {
    const { db } = daemon.database;
    await db.query(`insert into svc.suspects (kind, id, ends) values ('notice', 'sick', 2)`);
    const noted = async (): Promise<unknown> =>
      (await db.query('select ids, alone from svc.in_hand order by alone')).rows;
    let seen: unknown[] = [];
    await processInHand(daemon.ctx, {
      kind: 'notice',
      rows: ['slow', 'sick'],
      leaseSeconds: 60,
      idOf: (id) => id,
      nameOf: (id) => id,
      projectOf: (id) => id,
      async tell(id) {
        if (id === 'slow') return slow.promise;
        const both = await noted();
        slow.resolve();
        let alone = both;
        while ((alone as unknown[]).length > 1) alone = await noted();
        seen = [both, alone];
      },
      park: () => assert.fail('it is tried'),
    });
    await landed(daemon.ctx);
    const alone = { ids: ['sick'], alone: true };
    assert.deepEqual(seen, [[{ ids: ['slow', 'sick'], alone: false }, alone], [alone]]);
    assert.deepEqual(await noted(), []);
  } finally {
    slow.resolve();
    await daemon.stop();
  }
});

const noticesOf = (rows: readonly string[], tell: (id: string) => Promise<void>): InHandWork<string> => ({
  kind: 'notice',
  rows,
  leaseSeconds: 60,
  idOf: (id) => id,
  nameOf: (id) => id,
  projectOf: (id) => id,
  tell,
  park: () => assert.fail('it is tried'),
});

test('a turn waits for none that is tried alone at a server that swallows, and a daemon that stops for one alone', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const silent = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  try {
    const { db } = daemon.database;
    const suspects = Array.from({ length: 10 }, (_, index) => `sick-${index}`);
    await db.query(`insert into svc.suspects (kind, id, ends) select 'notice', unnest($1::text[]), 2`, [suspects]);
    const told: string[] = [];
    const tell = async (id: string): Promise<void> => {
      told.push(id);
      await silent[told.length - 1]?.promise;
    };
    const turn = processInHand(daemon.ctx, noticesOf(suspects, tell));
    assert.equal(await Promise.race([turn.then(() => 'over'), sleep(20_000, 'it waits', { ref: false })]), 'over');
    assert.deepEqual(told, ['sick-0']);
    const well = Promise.withResolvers<void>();
    await processInHand(
      daemon.ctx,
      noticesOf(['well'], async () => well.resolve()),
    );
    await well.promise;
    assert.deepEqual(told, ['sick-0'], 'one after the other');
    silent[0].resolve();
    while (told.length < 2) await sleep(20);
    assert.deepEqual(told, ['sick-0', 'sick-1']);
    assert.equal(roomFor(daemon.ctx, 'look', 20).limit, 20);
    land(daemon.ctx);
    // A loop that is stopped after others would take again and again what it gives back at once, and wear it out.
    assert.equal(roomFor(daemon.ctx, 'look', 20).limit, 0);
    silent[1].resolve();
    await landed(daemon.ctx);
    assert.deepEqual(told, ['sick-0', 'sick-1']);
    const left = await db.query<{ left: number }>(`select count(*)::int as left from svc.suspects`);
    assert.deepEqual(left.rows, [{ left: 8 }]);
  } finally {
    for (const one of silent) one.resolve();
    await daemon.stop();
  }
});

test('who waits for others to be done hears of it, also where one that was tried alone ends meanwhile', async () => {
  const gate = new WorkGate(2_000, 50);
  const first = Promise.withResolvers<void>();
  // It takes its time: the others are let in again, and the next is not kept waiting for it.
  const long = gate.alone(() => first.promise);
  await sleep(2_100);
  const leave = await gate.enter();
  const began = performance.now();
  const next = gate.alone(async () => performance.now() - began);
  await sleep(100);
  first.resolve();
  await long;
  leave();
  const waitedMs = await next;
  assert.ok(isWithin(waitedMs, 1_000), `it waited ${waitedMs} ms for nobody`);
});

test('what was claimed in a turn that could not note it is told in the next one', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    const { db } = daemon.database;
    const told: string[] = [];
    const tell = async (id: string): Promise<void> => void told.push(id);
    await db.query('alter table svc.in_hand rename to elsewhere');
    await assert.rejects(processInHand(daemon.ctx, noticesOf(['first'], tell)));
    await assert.rejects(processInHand(daemon.ctx, noticesOf(['second'], tell)));
    await db.query('alter table svc.elsewhere rename to in_hand');
    await processInHand(daemon.ctx, noticesOf([], tell));
    assert.deepEqual(told, ['first', 'second']);
    await processInHand(daemon.ctx, noticesOf([], tell));
    assert.equal(told.length, 2);
    // Their claims would be over by then: whoever claims them next tells them.
    await db.query('alter table svc.in_hand rename to elsewhere');
    await assert.rejects(processInHand(daemon.ctx, { ...noticesOf(['late'], tell), leaseSeconds: 5 }));
    await db.query('alter table svc.elsewhere rename to in_hand');
    await processInHand(daemon.ctx, noticesOf([], tell));
    assert.equal(told.length, 2);
  } finally {
    await daemon.stop();
  }
});
