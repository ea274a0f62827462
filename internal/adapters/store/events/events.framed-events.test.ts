import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { frameOf } from './body-frames.ts';
import { copyEvent, eventById, eventPayloads, listEvents, pastEvents } from './event-reads.ts';
import { recordEvents } from './events.ts';
import type { NewEvent } from './new-event.ts';
import { readBodies } from '../routing/routing.ts';

let t: TestDatabase;
const projectId = randomUUID();
const now = new Date('2030-01-01T00:00:00Z');
const raw = Buffer.from(`\uFEFF{"a":"${randomBytes(3_000).toString('hex')}","b":"${'b'.repeat(8_000)}"}`);
const frame = frameOf(raw) as Buffer;

const event = (rest: Partial<NewEvent>): NewEvent => ({
  id: randomUUID(),
  projectId,
  key: 'webhook.received',
  dedupHash: null,
  raw,
  payload: null,
  receivedAt: now,
  ...rest,
});
const framed = event({ frame });
const small = event({ raw: Buffer.from('{}') });
const unframable = event({ frame: undefined });
const normalized = event({ frame, payload: '{"c":1}' });
const damaged = event({ frame: Buffer.from(frame).fill(0, 40, 80) });

before(async () => {
  t = await createTestDatabase();
  await insertProject(t.db, projectId);
  await recordEvents(t.db, [framed, small, unframable, normalized, damaged], { routing: false });
});
after(() => t.close());

it('a frame is stored in the place of its body, with the size of that', async () => {
  const { rows } = await t.db.query<{ raw: Buffer; bytes: number | null }>(
    'select raw, raw_bytes as bytes from svc.events join svc.event_bodies on event_id = id order by seq',
  );
  assert.deepEqual(rows.slice(0, 4), [
    { raw: frame, bytes: raw.length },
    { raw: small.raw, bytes: null },
    { raw, bytes: null },
    { raw: frame, bytes: raw.length },
  ]);
});

it('whoever reads a body gets what was received', async () => {
  const whole = Buffer.concat([Buffer.from('{"c":1,"raw":'), raw.subarray(3), Buffer.from('}')]);
  for (const [{ id }, payload] of [
    [framed, raw],
    [unframable, raw],
    [normalized, whole],
  ] as const) {
    assert.deepEqual((await eventById(t.db, projectId, id))?.payload, payload);
    assert.deepEqual((await eventPayloads(t.db, projectId, [id])).get(id)?.payload, payload);
  }
  const { bodies } = await readBodies(t.db, [framed.id, normalized.id], 1_000_000);
  assert.deepEqual(bodies.get(framed.id), { id: framed.id, raw, payload: null });
  assert.deepEqual(bodies.get(normalized.id), { id: normalized.id, raw, payload: Buffer.from('{"c":1}') });
});

it('sizes, and the bounds on them, are of what was received', async () => {
  const list = async (payloadMax: number) =>
    new Map((await listEvents(t.db, projectId, { payloadMax, limit: 10 })).rows.map((row) => [row.id, row]));
  const at = (await list(raw.length)).get(framed.id);
  assert.deepEqual([at?.size, at?.payload], [raw.length, raw]);
  const below = (await list(raw.length - 1)).get(framed.id);
  assert.deepEqual([below?.size, below?.payload], [raw.length, null]);
  assert.equal((await list(raw.length)).get(normalized.id)?.payload, null);
  const past = await pastEvents(t.db, projectId, { keys: [framed.key], since: now, limit: 10, among: 10 });
  assert.deepEqual(
    past.events.map(({ size }) => size),
    [raw.length, raw.length + 7, raw.length, 2, raw.length],
  );
  const ids = [small.id, framed.id, unframable.id];
  assert.equal((await readBodies(t.db, ids, 2 + raw.length)).reached, 2);
  assert.equal((await readBodies(t.db, ids, 1 + raw.length)).reached, 1);
});

it('a repeated event has the same body', async () => {
  for (const from of [framed, normalized]) {
    const id = randomUUID();
    assert.equal(await t.db.tx((tx) => copyEvent(tx, { projectId, of: from.id, id, now })), true);
    const [was, is] = [await eventById(t.db, projectId, from.id), await eventById(t.db, projectId, id)];
    assert.deepEqual(is?.payload, was?.payload);
    assert.equal(is?.size, was?.size);
  }
});

it('a damaged frame is told of by whoever reads its event, and keeps nobody from the others', async () => {
  await assert.rejects(eventById(t.db, projectId, damaged.id), { code: 'event-body-unreadable' });
  const { rows } = await listEvents(t.db, projectId, { payloadMax: 100_000, limit: 10 });
  const listed = rows.find(({ id }) => id === damaged.id);
  assert.deepEqual([listed?.payload, listed?.size], [null, raw.length]);
  const ids = [damaged.id, framed.id];
  assert.deepEqual([...(await eventPayloads(t.db, projectId, ids)).keys()], [framed.id]);
  const read = await readBodies(t.db, ids, 1_000_000);
  assert.deepEqual([[...read.bodies.keys()], [...read.damaged], read.reached], [[framed.id], [damaged.id], 2]);
});
