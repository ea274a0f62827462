import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { backOff, claimDue, freeLostClaims, wishSync } from '../../adapters/store/repositories/polls.ts';
import { enqueueResyncs } from '../../adapters/store/repositories/resyncs.ts';
import { createTestDatabase, insertProject } from '../../base/testkit/postgres.ts';
import { agentFile, type Bench, ended, runsOf, startBench, until, word } from '../sync/sync-testkit.ts';
import { requestSync } from './settings.ts';

test('of a repository that was removed meanwhile nothing is asked, and a sync that it ended is no failure', async () => {
  const database = await createTestDatabase();
  const repositoryId = randomUUID();
  await wishSync(database.db, { repositoryId, reason: 'push' });
  await backOff(database.db, repositoryId, 1_000);
  assert.deepEqual((await database.db.query('select from svc.repository_polls')).rows, []);
  await database.close();
});

test('of two wishes that wait, the one that asks for more stays: a change that a watch sees forgets no resync', async () => {
  const { db, close } = await createTestDatabase();
  const [projectId, repositoryId] = [randomUUID(), randomUUID()];
  await insertProject(db, projectId);
  await db.query(`insert into svc.repositories (id, project_id, name, path) values ($1::uuid, $2::uuid, 'r', '/r')`, [
    repositoryId,
    projectId,
  ]);
  const { rows } = await db.query<{ id: string }>('select org_id as id from svc.projects');
  const scope = { orgId: rows[0]?.id ?? '', projectId };
  const asks: { readonly [reason: string]: () => Promise<void> } = {
    resync: () => enqueueResyncs(db, scope),
    ...Object.fromEntries(
      (['watch', 'push', 'poll', 'manual'] as const).map((reason) => [
        reason,
        () => wishSync(db, { repositoryId, reason }),
      ]),
    ),
  };
  for (const [first, second, stays] of [
    ['resync', 'watch', 'resync'],
    ['resync', 'push', 'resync'],
    ['resync', 'poll', 'resync'],
    ['resync', 'manual', 'manual'],
    ['manual', 'resync', 'manual'],
    ['manual', 'push', 'manual'],
    ['watch', 'push', 'push'],
    ['push', 'resync', 'resync'],
  ] as const) {
    await db.query('delete from svc.repository_polls');
    await asks[first]?.();
    await asks[second]?.();
    const { rows: kept } = await db.query<{ wanted: string }>('select wanted from svc.repository_polls');
    assert.deepEqual(kept, [{ wanted: stays }], `${first}, then ${second}`);
  }
  await close();
});

test('a resync is claimed until it is done: whose daemon is gone, or whose sync breaks off, is compared by the next', async () => {
  const { db, close } = await createTestDatabase();
  const [projectId, id, daemonId, other] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  await insertProject(db, projectId);
  const text = `insert into svc.repositories (id, project_id, name, path) values ($1::uuid, $2::uuid, 'r', '/r')`;
  await db.query(text, [id, projectId]);
  const claim = async (
    by: string,
    ended: { readonly done?: readonly string[]; readonly broken?: readonly string[] } = {},
  ): Promise<string | undefined> => {
    const options = {
      daemonId: by,
      limit: 9,
      resyncSeconds: 600,
      spread: 0,
      full: [],
      crowded: [],
      done: [],
      broken: [],
    };
    return (await claimDue(db, { ...options, ...ended }))[0]?.reason;
  };
  const wish = (reason: 'resync' | 'watch'): Promise<void> => wishSync(db, { repositoryId: id, reason });
  await wish('resync');
  assert.equal(await claim(daemonId), 'resync');
  await wish('watch');
  assert.equal(await claim(daemonId), 'watch');
  await freeLostClaims(db, 15);
  assert.equal(await claim(other), 'resync', 'its daemon is gone');
  assert.equal(await claim(other, { done: [id] }), undefined);
  await db.query('update svc.repository_polls set next_at = now()');
  assert.equal(await claim(other), 'poll', 'it is done');
  await claim(other, { done: [id] });
  await wish('resync');
  assert.equal(await claim(other), 'resync');
  await claim(other, { done: [id], broken: [id] });
  await db.query('update svc.repository_polls set next_at = now()');
  assert.equal(await claim(other), 'resync', 'it broke off');
  // Due again in the moment in which it is done.
  await db.query('update svc.repository_polls set next_at = now()');
  assert.equal(await claim(other, { done: [id] }), 'poll');
  await close();
});

describe('a repository that is suspended', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  const suspend = {
    'by its own call': (name: string) => bench.daemon.api('POST', `P/repositories/${name}/suspend`),
    'among its settings': (name: string) => bench.daemon.api('PATCH', `P/repositories/${name}`, { suspended: true }),
  };
  for (const [how, act] of Object.entries(suspend))
    test(`applies nothing any more, and no run that waits behind another one: ${how}`, async () => {
      const { daemon, server } = bench;
      const name = how.replaceAll(' ', '-');
      const repo = await bench.repository(name);
      const good = await repo.commit({ '.svc/agents/a.yaml': agentFile(name) });
      await bench.watch(name);
      await repo.commit({ '.svc/agents/a.yaml': agentFile(name, 'systemPrompt: not to be applied') });
      let free: () => void = () => undefined;
      const freed = new Promise<void>((resolve) => (free = resolve));
      const asked = server.log.length;
      server.fault = () => ({ kind: 'hold', until: freed });
      const sync = async () => word((await daemon.api('POST', `P/repositories/${name}/sync`)).body['reconcileId']);
      await sync();
      await until('the read that hangs', async () => server.log.length > asked);
      const waiting = await sync();
      assert.equal((await act(name)).status, 200);
      free();
      server.fault = () => null;
      const run = await ended(daemon, waiting);
      assert.deepEqual([word(run['status']), word(run['detail'])], ['superseded', 'the repository was suspended']);
      const { body } = await daemon.api('GET', `P/repositories/${name}`);
      assert.deepEqual([body['suspended'], word(body['commit'])], [true, good]);
    });

  /** What is read of the newest commit hangs until the answer is called; nothing is written of it yet. */
  const pushHeld = async (name: string): Promise<() => void> => {
    const { daemon, server } = bench;
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = server.log.length;
    server.fault = () => ({ kind: 'hold', until: promise });
    const { rows } = await daemon.ctx.db.query<{ id: string }>(
      'select id from svc.repositories where name = $1::text',
      [name],
    );
    await wishSync(daemon.ctx.db, { repositoryId: rows[0]?.id ?? '', reason: 'push' });
    await until('the read that hangs', async () => server.log.length > asked);
    server.fault = () => null;
    return resolve;
  };
  const inHand = async (): Promise<boolean> =>
    (await bench.daemon.ctx.db.query('select from svc.repository_polls where claimed_by is not null')).rowCount > 0;

  test('leaves no run of a look that was under way and had not come to one', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('looked');
    const good = await repo.commit({ '.svc/agents/a.yaml': agentFile('looked-a') });
    await bench.watch('looked');
    // A commit that touches nothing is recorded as soon as it is known.
    await repo.commit({ 'README.md': 'words' });
    const goOn = await pushHeld('looked');
    assert.equal((await suspend['by its own call']('looked')).status, 200);
    goOn();
    await until('the end of the look', async () => !(await inHand()));
    const { body } = await daemon.api('GET', 'P/repositories/looked');
    assert.equal(word(body['appliedCommit']), good);
    assert.equal((await runsOf(daemon, 'looked')).length, 1);
  });

  test('nor does a look of a project that is archived change anything, which had no run yet to be ended', async () => {
    const { daemon } = bench;
    const repo = await bench.repository('kept');
    const good = await repo.commit({ '.svc/agents/a.yaml': agentFile('kept-a') });
    await bench.watch('kept');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('kept-b') });
    const goOn = await pushHeld('kept');
    assert.equal((await daemon.api('PATCH', 'P', { archived: true })).status, 200);
    goOn();
    await until('the end of the look', async () => !(await inHand()));
    const { body } = await daemon.api('GET', 'P/repositories/kept');
    assert.equal(word(body['appliedCommit']), good);
    assert.equal((await runsOf(daemon, 'kept')).length, 1);
    assert.equal((await daemon.api('PATCH', 'P', { archived: false })).status, 200);
  });

  test('nor does one of a project that is archived', async () => {
    const { daemon, server } = bench;
    const repo = await bench.repository('archived');
    const good = await repo.commit({ '.svc/agents/a.yaml': agentFile('archived-a') });
    await bench.watch('archived');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('archived-a', 'systemPrompt: not to be applied') });
    let free: () => void = () => undefined;
    const freed = new Promise<void>((resolve) => (free = resolve));
    const asked = server.log.length;
    server.fault = () => ({ kind: 'hold', until: freed });
    const sync = async () => word((await daemon.api('POST', 'P/repositories/archived/sync')).body['reconcileId']);
    await sync();
    await until('the read that hangs', async () => server.log.length > asked);
    const waiting = await sync();
    assert.equal((await daemon.api('PATCH', 'P', { archived: true })).status, 200);
    free();
    server.fault = () => null;
    const run = await ended(daemon, waiting);
    assert.deepEqual([word(run['status']), word(run['detail'])], ['superseded', 'the project was archived']);
    const { body } = await daemon.api('GET', 'P/repositories/archived');
    assert.equal(word(body['commit']), good);
  });

  test('nor does one that was asked for in the moment in which its project was archived wait for it to be back', async () => {
    const { daemon } = bench;
    const { ctx } = daemon;
    const { rows } = await ctx.db.query<{ id: string; orgId: string }>(
      `select id, org_id as "orgId" from svc.projects where archived_at is not null`,
    );
    const { id = '', orgId = '' } = rows[0] ?? {};
    const actor = { kind: 'system', id: null, name: 'a test' } as const;
    // Let in before it was archived.
    const caller = { project: { id, orgId, slug: 'default', orgSlug: 'default' }, actor };
    const { reconcileId } = await requestSync(ctx, caller, 'archived');
    await ctx.db.query(`update svc.reconciles set started_at = now() - interval '1 minute' where id = $1::uuid`, [
      reconcileId,
    ]);
    const run = await ended(daemon, reconcileId);
    assert.deepEqual([word(run['status']), word(run['detail'])], ['superseded', 'the project was archived']);
  });
});
