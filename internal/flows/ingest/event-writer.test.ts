import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { type Database, openDatabase } from '../../adapters/store/store.ts';
import { createTestDatabase, insertProject, silent, type TestDatabase } from '../../base/testkit/postgres.ts';
import { Fault } from '../../domain/fault.ts';
import { EventWriter } from './event-writer.ts';

describe('events of several projects that wait to be recorded', () => {
  const [busy, other] = [randomUUID(), randomUUID()];
  let t: TestDatabase;
  let db: Database;
  let writer: EventWriter;
  before(async () => {
    t = await createTestDatabase();
    await insertProject(t.db, busy);
    const beside = `insert into svc.projects (id, org_id, slug, name) select $1::uuid, org_id, 'beside', 'Beside' from svc.projects`;
    await t.db.query(beside, [other]);
    db = openDatabase({ url: t.url, log: silent });
    writer = new EventWriter(db, { needsJob: () => false, recorded: () => undefined, recording: () => undefined });
  });
  after(async () => {
    await db.close();
    await t.close();
  });

  const event = (projectId: string): NewEvent => ({
    id: randomUUID(),
    projectId,
    key: 'webhook.received',
    dedupHash: null,
    raw: Buffer.from('{}'),
    payload: null,
    receivedAt: new Date(),
  });
  /** Whose was recorded, or turned away, in the order in which that was heard. */
  const record = (projectId: string, heard: string[]): Promise<void> =>
    writer.record(event(projectId)).then(
      () => void heard.push(projectId),
      (error: unknown) => {
        // On a slow machine the last of so many hear that the database does not answer.
        assert.ok(error instanceof Fault && error.kind === 'unavailable', String(error));
        if (error.code === 'overloaded') heard.push(`${projectId} is turned away`);
      },
    );

  it('are recorded in turn: one goes with the next batch whatever waits before it', async () => {
    const heard: string[] = [];
    // Both connections are there: one that is being opened has its batch wait for that.
    await Promise.all([db.query('select pg_sleep(0.3)'), db.query('select pg_sleep(0.3)')]);
    const all = Array.from({ length: 2_000 }, () => record(busy, heard));
    all.push(record(other, heard));
    await Promise.all(all);
    const before = heard.indexOf(other);
    assert.ok(before >= 0 && before < 1_000, String(before));
  });

  it('are turned away where there are too many, first the last of whoever has the most', async () => {
    const turnedAway: string[] = [];
    const all: Promise<void>[] = [];
    for (let count = 0; count < 10_000; count += 1) all.push(record(busy, turnedAway));
    while (!writer.full(busy)) all.push(record(busy, turnedAway));
    assert.equal(writer.full(other), false);
    assert.throws(() => writer.record(event(busy)), Fault);
    all.push(record(other, turnedAway));
    await Promise.all(all);
    assert.ok(turnedAway.includes(other));
    assert.equal(turnedAway.filter((one) => one === `${busy} is turned away`).length, 1);
  });
});
