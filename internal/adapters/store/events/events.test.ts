import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createTestDatabase, insertProject, type TestDatabase } from '../../../base/testkit/postgres.ts';
import { secretMark } from '../secrets/credentials.ts';
import { recordEvents, recordGuarded, routeTask, type SecretGuard, wholePayload } from './events.ts';
import type { NewEvent } from './new-event.ts';

describe('recorded events', () => {
  let t: TestDatabase;
  const projectId = randomUUID();
  before(async () => {
    t = await createTestDatabase();
    await insertProject(t.db, projectId);
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
      await t.db.query<{ payload: { projects: string[] } }>(
        `select j.payload from graphile_worker._private_jobs j
           join graphile_worker._private_tasks k on k.id = j.task_id where k.identifier = $1::text order by j.id`,
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

  it('a batch of many kinds comes out as it went in', async () => {
    const of = (rest: Partial<NewEvent>): NewEvent => ({ ...event(null), ...rest });
    const endpointId = randomUUID();
    const replayOf = randomUUID();
    const batch = [
      of({ key: 'a\0b', payload: '{"p":"é"}', raw: Buffer.from('{"r":1}') }),
      of({ dedupHash: Buffer.alloc(32, 0), endpointId }),
      of({ dedupHash: Buffer.alloc(32, 255), endpointId, receivedAt: new Date('2030-01-01T00:00:00.001Z') }),
      of({ payload: '{"only":true}', raw: null, depth: 3 }),
      of({ target: { type: 'thread', key: 'x"\0,{}' }, connectionId: endpointId, replayOf }),
      of({ raw: Buffer.alloc(0), payload: '{}' }),
    ];
    await recordEvents(t.db, batch, { routing: false });
    const { rows } = await t.db.query<Record<string, unknown>>(
      `select id, key, dedup_hash, endpoint_id, connection_id, target_type, target_key, received_at, depth, replay_of,
         raw, payload
         from svc.events join svc.event_bodies on event_id = id where id = any($1::uuid[]) order by seq`,
      [batch.map((one) => one.id)],
    );
    assert.deepEqual(
      rows,
      batch.map((one) => ({
        id: one.id,
        key: one.key.replace('\0', '\uFFFD'),
        dedup_hash: one.dedupHash,
        endpoint_id: one.endpointId ?? null,
        connection_id: one.connectionId ?? null,
        target_type: one.target?.type ?? null,
        target_key: one.target?.key.replace('\0', '\uFFFD') ?? null,
        received_at: one.receivedAt,
        depth: one.depth ?? 0,
        replay_of: one.replayOf ?? null,
        raw: one.raw,
        payload: one.payload === null ? null : Buffer.from(one.payload),
      })),
    );
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
    assert.deepEqual(job?.payload.projects, [projectId]);
    await recordEvents(t.db, [event('c'), event('a')], { routing: true });
    assert.equal((await jobs()).length, 1, 'nothing was created, nothing is asked for');
  });

  it('while a job waits that asks for the routing of a project, no other is added', async () => {
    const added = async (): Promise<number> => {
      const before = (await jobs()).length;
      const [recorded] = await recordGuarded(t.db, [{ event: event(randomUUID()) }], { routing: true });
      assert.equal(recorded?.created, true);
      return (await jobs()).length - before;
    };
    const change = async (what: string): Promise<void> => {
      const { rowCount } = await t.db.query(
        `update graphile_worker._private_jobs set ${what} where key = 'event.route:' || $1::text`,
        [projectId],
      );
      assert.equal(rowCount, 1);
    };
    assert.deepEqual([await added(), await added()], [1, 0]);
    assert.deepEqual((await jobs()).at(-1)?.payload, { projects: [projectId] });
    await change(`locked_at = now(), locked_by = 'somebody'`);
    assert.deepEqual([await added(), await added()], [1, 0], 'what was taken may have looked already');
    await change(`run_at = now() + interval '1 hour', attempts = 3`);
    assert.equal(await added(), 0);
    const { rows } = await t.db.query<{ due: boolean; attempts: number }>(
      `select run_at <= now() as due, attempts::int from graphile_worker._private_jobs where key = 'event.route:' || $1::text`,
      [projectId],
    );
    assert.deepEqual(rows, [{ due: true, attempts: 0 }], 'what waits for a later time is made to run now');
  });

  it('a payload is put together from its halves', () => {
    const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{"a":1e400}')]);
    assert.equal(wholePayload(marked, Buffer.from('{"x":1}')).toString(), '{"x":1,"raw":{"a":1e400}}');
    assert.equal(wholePayload(Buffer.from('{"a":1}'), null).toString(), '{"a":1}');
    assert.equal(wholePayload(null, Buffer.from('{}')).toString(), '{}');
  });

  it('an event counts only while its secret is the one that was proven', async () => {
    const { rows } = await t.db.query<{ orgId: string }>(
      'select org_id as "orgId" from svc.projects where id = $1::uuid',
      [projectId],
    );
    const orgId = rows[0]?.orgId ?? '';
    const sealed = Buffer.alloc(80, 1);
    const put = async (project: string | null, bytes: Buffer): Promise<SecretGuard> => {
      const made = await t.db.query<{ id: string }>(
        `insert into svc.secrets (org_id, project_id, name, key_version, sealed)
         values ($1::uuid, $2::uuid, 'HOOK', 1, $3::bytea)
         on conflict (org_id, project_id, name) do update set sealed = excluded.sealed returning id`,
        [orgId, project, bytes],
      );
      return { orgId, projectId, name: 'HOOK', secretId: made.rows[0]?.id ?? '', mark: secretMark(bytes) };
    };
    const record = async (...guards: (SecretGuard | undefined)[]): Promise<boolean[]> => {
      const batch = guards.map((guard) => ({ event: event(randomUUID()), guard }));
      const recorded = await recordGuarded(t.db, batch, { routing: true });
      const ids = batch.map((one) => one.event.id);
      const stored = await t.db.query('select from svc.events where id = any($1::uuid[])', [ids]);
      assert.equal(stored.rowCount, recorded.filter((one) => one !== undefined).length);
      return recorded.map((one) => one?.created === true);
    };
    const general = await put(null, sealed);
    assert.deepEqual(await record(general, undefined, general), [true, true, true]);
    const own = await put(projectId, Buffer.alloc(80, 2));
    assert.deepEqual(await record(general, own, undefined), [false, true, true], 'the project has its own now');
    const rotated = await put(projectId, Buffer.alloc(80, 3));
    assert.deepEqual(await record(own, rotated), [false, true]);
    await t.db.query(`update svc.secrets set expires_at = '2029-12-31' where project_id is not null`);
    assert.deepEqual(await record(rotated, general), [false, true]);
    await t.db.query(`update svc.secrets set idle_expiry_seconds = 60, idle_since = '2029-12-31'`);
    assert.deepEqual(await record(general, undefined), [false, true]);
  });

  it('of one key under two guards, the one that holds is recorded', async () => {
    const stale = { orgId: randomUUID(), projectId, name: 'GONE', secretId: randomUUID(), mark: '00'.repeat(13) };
    const [one, other] = [event('shared by two'), event('shared by two')];
    const recorded = await recordGuarded(t.db, [{ event: one, guard: stale }, { event: other }], { routing: false });
    assert.deepEqual(recorded, [undefined, { id: other.id, routerStatus: 'pending', created: true }]);
    const again = await recordGuarded(t.db, [{ event: event('shared by two'), guard: stale }], { routing: false });
    assert.deepEqual(again, [undefined], 'not even its record is shown');
  });

  it('events go with their project, and none comes to one that is gone', async () => {
    const gone = randomUUID();
    await t.db.query(
      `insert into svc.projects (id, org_id, slug, name)
       select $1::uuid, org_id, 'gone', 'gone' from svc.projects where id = $2::uuid`,
      [gone, projectId],
    );
    const mine = { ...event('k'), projectId: gone };
    await recordEvents(t.db, [mine, event('stays')], { routing: false });
    await t.db.query('delete from svc.projects where id = $1::uuid', [gone]);
    const left = await t.db.query('select from svc.events where project_id = $1::uuid', [gone]);
    const bodies = await t.db.query('select from svc.event_bodies where event_id = $1::uuid', [mine.id]);
    assert.deepEqual([left.rowCount, bodies.rowCount], [0, 0]);
    const late = recordEvents(t.db, [{ ...event('late'), projectId: gone }, event('beside')], { routing: false });
    await assert.rejects(late, { code: '23503' });
  });

  it('bodies go with their project', async () => {
    await t.db.query('delete from svc.projects where id = $1::uuid', [projectId]);
    assert.equal((await t.db.query('select 1 from svc.event_bodies')).rows.length, 0);
  });
});
