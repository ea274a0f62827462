// A project with a great deal of history is deleted in slices: gone for everybody at once, its rows after that, also across
// the end of whoever was at it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { slicedTables } from '../../internal/adapters/store/operations/deletion.ts';
import { armFailpoint } from '../../internal/base/failpoint.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { finishDeletions } from '../../internal/flows/tenancy/tenancy.ts';
import { addHistory } from './history-testkit.ts';

let daemon: TestDaemon;
before(async () => {
  // Its own loop would be at it as well.
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(async () => {
  armFailpoint(undefined);
  await daemon.stop();
});

/** Rows of a project by table, where there are any. */
async function left(projectId: string): Promise<{ [table: string]: number }> {
  const { db } = daemon.ctx;
  const counts: { [table: string]: number } = {};
  const tables = await db.query<{ name: string }>(
    `select c.relname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
      where a.attname = 'project_id' and c.relnamespace = 'svc'::regnamespace and c.relkind in ('r', 'p') order by 1`,
  );
  for (const { name } of tables.rows) {
    const { rowCount } = await db.query(`select from svc.${name} where project_id = $1::uuid`, [projectId]);
    if (rowCount > 0) counts[name] = rowCount;
  }
  return counts;
}

test('a large project answers at once, its name is free, and what it had goes however often that is interrupted', async () => {
  const { db } = daemon.ctx;
  const path = '/api/v1/orgs/default/projects/large';
  assert.equal(
    (await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'large', name: 'Large' })).status,
    201,
  );
  const { rows } = await db.query<{ orgId: string; projectId: string; repositoryId: string }>(
    `with r as (insert into svc.repositories (project_id, name, url) select id, 'site', 'https://git.invalid/x' from svc.projects
       where slug = 'large' returning id, project_id)
     select p.org_id as "orgId", p.id as "projectId", r.id as "repositoryId" from r join svc.projects p on p.id = r.project_id`,
  );
  const of = rows[0] as (typeof rows)[number];
  await addHistory(daemon.database.url, of, 1, 1_200);
  let slices = 0;
  const dying = (): never => {
    slices += 1;
    throw new Error('its process died');
  };
  armFailpoint('project.slice-deleted', dying);
  assert.equal((await daemon.api('DELETE', path)).status, 204);
  assert.equal(slices, 1);
  assert.equal((await daemon.api('GET', path)).status, 404);
  assert.equal((await daemon.api('GET', `/api/v1/orgs/default/projects/${of.projectId}`)).status, 404);
  const listed = await daemon.api('GET', '/api/v1/orgs/default/projects');
  assert.deepEqual(JSON.stringify(listed.body).match(/deleted-|"large"/g), null);
  assert.equal(
    (await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'large', name: 'Again' })).status,
    201,
  );
  assert.ok(((await left(of.projectId))['sessions'] ?? 0) > 1_000);
  // Each life of a daemon does one slice and dies.
  for (let life = 0; life < 3; life += 1) {
    armFailpoint('project.slice-deleted', dying);
    await assert.rejects(finishDeletions(daemon.ctx, AbortSignal.timeout(60_000)));
  }
  armFailpoint(undefined);
  assert.equal(slices, 4);
  assert.ok(((await left(of.projectId))['sessions'] ?? 0) > 900, 'much is left');
  await finishDeletions(daemon.ctx, AbortSignal.timeout(60_000));
  const { audit, ...others } = await left(of.projectId);
  assert.deepEqual(others, {});
  assert.ok((audit ?? 0) >= 1_200, 'the audit stays');
  assert.equal((await db.query('select from svc.projects where id = $1::uuid', [of.projectId])).rowCount, 0);
  for (const table of ['event_bodies', 'event_routes', 'messages', 'inbox', 'turns', 'permissions']) {
    assert.equal((await db.query(`select from svc.${table}`)).rowCount, 0, table);
  }
  assert.equal((await daemon.api('GET', path)).status, 200);
});

test('an organization whose projects are still going is deleted at once, and its row with the last of them', async () => {
  const { db } = daemon.ctx;
  const { api } = daemon;
  assert.equal((await api('POST', '/api/v1/orgs', { slug: 'leaving' })).status, 201);
  const made = await api('POST', '/api/v1/orgs/leaving/projects', { slug: 'large' });
  assert.equal(made.status, 201);
  const projectId = String(made.body['id']);
  const refused = await api('DELETE', '/api/v1/orgs/leaving');
  assert.equal(refused.status, 409);
  assert.match(JSON.stringify(refused.body), /org-not-empty/);
  await db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at, ended_at)
     select gen_random_uuid(), $1::uuid, gen_random_uuid(), 'a', 1, 'manual', 'archived', 't', now(), now(), now()
       from generate_series(1, 200)`,
    [projectId],
  );
  armFailpoint('project.slice-deleted', () => {
    throw new Error('its process died');
  });
  assert.equal((await api('DELETE', '/api/v1/orgs/leaving/projects/large')).status, 204);
  assert.ok(((await left(projectId))['sessions'] ?? 0) > 100, 'much is left');
  assert.equal((await api('DELETE', '/api/v1/orgs/leaving')).status, 204);
  assert.equal((await api('GET', '/api/v1/orgs/leaving')).status, 404);
  const listed = await api('GET', '/api/v1/orgs');
  assert.deepEqual(JSON.stringify(listed.body).match(/deleted-|"leaving"/g), null);
  const row = `select deleted_at from svc.orgs where slug like 'deleted-%'`;
  assert.equal((await db.query(row)).rowCount, 1);
  assert.equal((await api('POST', '/api/v1/orgs', { slug: 'leaving' })).status, 201, 'its name is free');
  armFailpoint(undefined);
  await finishDeletions(daemon.ctx, AbortSignal.timeout(60_000));
  assert.equal((await db.query(row)).rowCount, 0);
  assert.deepEqual(Object.keys(await left(projectId)), ['audit']);
});

test('a project whose deletion is held up or takes long holds up that of no other project', async () => {
  const { api, ctx, database } = daemon;
  const make = async (slug: string): Promise<string> => {
    const made = await api('POST', '/api/v1/orgs/default/projects', { slug });
    assert.equal(made.status, 201);
    return String(made.body['id']);
  };
  const [stuck, small] = [await make('stuck'), await make('small')];
  await ctx.db.query('update svc.projects set deleted_at = now(), archived_at = now() where id = any($1::uuid[])', [
    [stuck, small],
  ]);
  const isThere = async (id: string): Promise<boolean> =>
    (await ctx.db.query('select from svc.projects where id = $1::uuid', [id])).rowCount === 1;
  const held = await database.db.tx(async (tx) => {
    await tx.query('select from svc.projects where id = $1::uuid for update', [stuck]);
    await assert.rejects(finishDeletions(ctx, AbortSignal.timeout(60_000)));
    return [await isThere(stuck), await isThere(small)];
  });
  assert.deepEqual(held, [true, false]);
  await finishDeletions(ctx, AbortSignal.timeout(60_000));
  assert.equal(await isThere(stuck), false);
});

test('every table that a project fills is found by it, and is named where it grows with what happens', async () => {
  const { rows } = await daemon.ctx.db.query<{ name: string; found: boolean }>(
    `select c.relname as name, exists (select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null) as found
       from pg_attribute a join pg_class c on c.oid = a.attrelid
      where a.attname = 'project_id' and c.relnamespace = 'svc'::regnamespace and c.relkind in ('r', 'p') order by 1`,
  );
  const bySetting = rows.filter(({ name }) => !slicedTables.some((one) => one === name)).map(({ name }) => name);
  // A table that is new here either grows with what happens, and is sliced, or is what a project is set up with.
  const known = new Set(settings);
  assert.deepEqual(
    bySetting.filter((name) => !known.has(name)),
    [],
  );
  assert.deepEqual(
    slicedTables.filter((name) => !rows.some((row) => row.name === name && row.found)),
    [],
  );
});

const settings = [
  'errtrack_attempts',
  'oauth_attempts',
  'oauth_grants',
  'errtrack_subscriptions',
  'oauth_tokens',
  'agents',
  'assets',
  'audit',
  'connections',
  'endpoints',
  'events',
  'generated_resources',
  'project_members',
  'receivers',
  'rejected_deliveries',
  'reconciles',
  'repositories',
  'routing_generations',
  'routing_marks',
  'schedules',
  'secrets',
  'server_pauses',
  'sessions',
  'triggers',
  'usage_open',
];
