// What a doctor says where the daemon that is asked runs no sessions, and to whom it tells what is not its project's.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Api, apiClient } from '../../base/testkit/daemon.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

type Check = Readonly<Record<'name' | 'status' | 'message' | 'hint', string>>;
const doctor = async (api: Api, P = 'P'): Promise<readonly Check[]> =>
  (await api('GET', `${P}/doctor`)).body['checks'] as unknown as readonly Check[];

describe('a daemon that answers and does nothing else', () => {
  let front: HostBench;
  let back: HostBench | undefined;
  before(async () => {
    const file = { providers: { model: { 'provider-a': { keyFile: '/nowhere/on/this/machine' } } } };
    front = await createHostBench({ config: { roles: ['api'], file } });
    await front.apply({ plain: {}, rare: { harness: 'harness-b' } });
  });
  after(async () => {
    await back?.stop();
    await front.stop();
  });

  it('says which roles nobody has, and asks nobody for keys that are the other daemons’ to have', async () => {
    const checks = await doctor(front.daemon.api);
    const roles = checks.filter(({ name }) => name === 'roles');
    assert.deepEqual(
      roles.map(({ status, message }) => [status, message]),
      [
        ['warning', 'no daemon has the role sync: repositories are not read'],
        ['warning', 'no daemon has the role route: events are not routed'],
        ['warning', 'no daemon has the role schedule: schedules do not fire'],
        ['warning', 'no daemon has the role session: sessions are not run'],
      ],
    );
    assert.match(roles[3]?.hint ?? '', /^start one: svcd --roles session; svc daemon list /);
    assert.deepEqual(
      checks.filter(({ name }) => name === 'model-key'),
      [],
    );
    const { body } = await front.daemon.api('GET', 'P/overview');
    const needs = body['attention'] as unknown as readonly { subject: string }[];
    assert.equal(needs.filter(({ subject }) => subject === 'roles').length, 4);
  });

  it('says what sessions of the others wait for, once somebody runs them', async () => {
    const { database, token } = front.daemon;
    const { masterKeyFile } = front.daemon.ctx.config;
    const roles = ['sync', 'route', 'schedule', 'session'] as const;
    back = await createHostBench({ database, token, config: { masterKeyFile, roles }, lacks: 'harness-b' });
    const waiting = await front.start('rare', '!say at last');
    await front.until(waiting, ({ reason }) => reason === 'harness');
    const checks = await doctor(front.daemon.api);
    assert.deepEqual(
      checks.filter(({ name }) => name === 'roles'),
      [],
    );
    const harness = checks.filter(({ name }) => name === 'harness');
    assert.equal(harness.length, 1, JSON.stringify(checks));
    assert.equal(harness[0]?.status, 'error');
    assert.match(harness[0]?.message ?? '', /harness-b.* \(1 session waits\)$/);
    assert.equal(harness[0]?.hint, 'where daemons run sessions: svc harness install harness-b');
  });
});

describe('what is the installation’s', () => {
  let bench: HostBench;
  let neighbour: Api;
  const theirs = '/api/v1/orgs/neighbour/projects/own';
  before(async () => {
    const keyFile = { keyFile: '/nowhere/on/this/machine' };
    bench = await createHostBench({ config: { file: { providers: { model: { 'provider-a': keyFile } } } } });
    const { api, url, database } = bench.daemon;
    await bench.apply({ plain: {} });
    assert.equal((await api('POST', '/api/v1/orgs', { slug: 'neighbour' })).status, 201);
    assert.equal((await api('POST', '/api/v1/orgs/neighbour/projects', { slug: 'own' })).status, 201);
    await api('POST', '/api/v1/orgs/neighbour/members', { email: 'next@example.com', role: 'admin' });
    const made = await api('POST', '/api/v1/orgs/neighbour/tokens', { email: 'next@example.com', name: 'test' });
    neighbour = apiClient(url, String(made.body['token']));
    await database.db.query(`select graphile_worker.add_job('t.parked', max_attempts => 1)`);
    await database.db.query(
      `update graphile_worker._private_jobs set attempts = 1, last_error = 'repository acme-canary broke' where max_attempts = 1`,
    );
  });
  after(() => bench.stop());

  it('is told to who operates it, and to a neighbour no more than that there is something', async () => {
    const session = randomUUID();
    await mkdir(join(bench.daemon.dataDir, 'sandboxes', session, 'home'), { recursive: true });
    const own = await doctor(bench.daemon.api);
    const { body: seen } = await bench.daemon.api('GET', 'P/overview');
    for (const text of [JSON.stringify(own), JSON.stringify(seen)]) {
      assert.match(text, /1 job t\.parked gave up: repository acme-canary broke/);
      assert.ok(text.includes(session), text);
    }
    const told = await doctor(neighbour, theirs);
    const { body: page } = await neighbour('GET', `${theirs}/overview`);
    for (const text of [JSON.stringify(told), JSON.stringify(page)]) {
      assert.doesNotMatch(text, /acme-canary|t\.parked/);
      assert.ok(!text.includes(session), text);
    }
    assert.deepEqual(
      told.filter(({ name }) => name === 'jobs').map(({ status, message }) => [status, message]),
      [['warning', 'jobs of the installation gave up']],
    );
    // What the list of sandboxes says to nobody else, and where the machine's files lie.
    const why = (checks: readonly Check[]) => checks.find(({ name }) => name === 'sandbox')?.message ?? '';
    assert.match(why(own), /^(bubblewrap|process): \S/);
    assert.match(why(told), /^(bubblewrap|process); the network is /);
    const environment = { name: 'plain', image: { kind: 'preset', name: 'base' } };
    const content = JSON.stringify({ name: 'theirs', harness: 'harness-a', environment });
    const files = [{ path: '.svc/agents/a.json', content }];
    assert.equal((await neighbour('POST', `${theirs}/apply`, { files })).status, 200);
    const keys = (await doctor(neighbour, theirs)).filter(({ name }) => name === 'model-key');
    assert.deepEqual(
      keys.map(({ message }) => message),
      ['there is no key of provider-a: the file that providers.model.provider-a.keyFile names is not there'],
    );
    // Of one project, who looks first decides nothing for who looks next.
    const ours = await bench.daemon.api('GET', `${theirs}/overview`);
    assert.match(JSON.stringify(ours.body), /acme-canary/);
  });
});
