import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { type NewEvent, recordEvents, routeTask, wholePayload } from './events.ts';

describe('recorded events', () => {
  let t: TestDatabase;
  const projectId = randomUUID();
  before(async () => {
    t = await createTestDatabase();
    const orgId = randomUUID();
    await t.db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'o')`, [orgId]);
    await t.db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, 'p', 'p')`, [
      projectId,
      orgId,
    ]);
  });
  after(() => t.close());

  const event = (key: string | null, body = '{}'): NewEvent => ({
    id: randomUUID(),
    projectId,
    key: 'webhook.received',
    dedupHash: key === null ? null : createHash('sha256').update(key).digest(),
    raw: Buffer.from(body),
    payload: null,
    receivedAt: new Date('2030-01-01T00:00:00Z'),
  });
  const jobs = async () =>
    (
      await t.db.query<{ payload: { ids: string[] } }>(
        `select j.payload from graphile_worker._private_jobs j
           join graphile_worker._private_tasks k on k.id = j.task_id where k.identifier = $1::text`,
        [routeTask],
      )
    ).rows;

  it('a batch keeps the order of arrival, and its doubles are the first of their key', async () => {
    const batch = [event('b', '{"n":0}'), event(null), event('a', '{"n":2}'), event('b', '{"n":3}'), event(null)];
    const recorded = await recordEvents(t.db, batch, { routing: false });
    assert.deepEqual(
      recorded.map((one) => one.created),
      [true, true, true, false, true],
    );
    assert.equal(recorded[3]?.id, recorded[0]?.id);
    const { rows } = await t.db.query<{ id: string; raw: Buffer }>(
      'select id, raw from svc.events join svc.event_bodies on event_id = id order by seq',
    );
    assert.deepEqual(
      rows.map((row) => row.id),
      [batch[0], batch[1], batch[2], batch[4]].map((one) => one?.id),
    );
    assert.deepEqual(
      rows.map(({ raw }) => raw.toString()),
      ['{"n":0}', '{}', '{"n":2}', '{}'],
    );
    assert.equal((await jobs()).length, 0);
  });

  it('a batch asks once for the routing of what it created', async () => {
    const batch = [event('c'), event('a'), event(null)];
    const recorded = await recordEvents(t.db, batch, { routing: true });
    assert.deepEqual(
      recorded.map((one) => one.created),
      [true, false, true],
    );
    const [job, ...more] = await jobs();
    assert.equal(more.length, 0);
    assert.deepEqual(new Set(job?.payload.ids), new Set([batch[0]?.id, batch[2]?.id]));
    await recordEvents(t.db, [event('c'), event('a')], { routing: true });
    assert.equal((await jobs()).length, 1, 'nothing was created, nothing is asked for');
  });

  it('bodies go with their project', async () => {
    await t.db.query('delete from svc.projects where id = $1::uuid', [projectId]);
    assert.equal((await t.db.query('select 1 from svc.event_bodies')).rows.length, 0);
  });

  it('a payload is put together from its halves', () => {
    const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{"a":1e400}')]);
    assert.equal(wholePayload(marked, Buffer.from('{"x":1}')).toString(), '{"x":1,"raw":{"a":1e400}}');
    assert.equal(wholePayload(Buffer.from('{"a":1}'), null).toString(), '{"a":1}');
    assert.equal(wholePayload(null, Buffer.from('{}')).toString(), '{}');
  });
});
