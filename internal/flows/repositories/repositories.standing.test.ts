import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import {
  agentFile,
  agentNames,
  type Bench,
  ended,
  settled,
  startBench,
  syncNow,
  until,
  word,
} from '../sync/sync-testkit.ts';

describe('how a repository stands', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const act = (name: string, action: string, body?: object) =>
    bench.daemon.api('POST', `P/repositories/${name}/${action}`, body);
  const shown = async (name: string) => (await bench.daemon.api('GET', `P/repositories/${name}`)).body;
  const quiet = (name: string) =>
    until(`${name} to be left alone`, async () => {
      const { rows } = await bench.daemon.ctx.db.query(
        `select from svc.repositories r join svc.repository_polls p on p.repository_id = r.id
          where r.name = $1::text and (p.wanted is not null or p.next_at <= now() or p.claimed_by is not null)`,
        [name],
      );
      return rows.length === 0;
    });
  const poll = async (name: string) => {
    await bench.daemon.ctx.db.query(
      `update svc.repository_polls set next_at = now()
        where repository_id = (select id from svc.repositories where name = $1::text)`,
      [name],
    );
    await quiet(name);
  };
  /** Its server is away for one look. */
  const outage = async (name: string) => {
    bench.server.fault = ({ path }) => (path.startsWith(`/${name}.git`) ? { kind: 'status', status: 503 } : null);
    await poll(name);
    assert.equal(word((await shown(name))['condition']), 'unreachable');
    bench.server.fault = () => null;
    await poll(name);
    assert.equal((await shown(name))['condition'], null);
  };
  /** What the first page and the doctor say of it, in words. */
  const told = async (name: string): Promise<string[]> => {
    const { body: overview } = await bench.daemon.api('GET', 'P/overview');
    const { body: doctor } = await bench.daemon.api('GET', 'P/doctor');
    const attention = (overview['attention'] as unknown as { kind: string; subject: string }[])
      .filter(({ subject }) => subject === name)
      .map(({ kind }) => `overview: ${kind}`);
    const checks = (doctor['checks'] as unknown as { name: string; message: string }[])
      .filter(({ message }) => message.startsWith(`repository ${name}:`))
      .map((check) => `doctor: ${check.name}`);
    return [...attention, ...checks];
  };
  /** A repository whose newest commit is held. */
  const held = async (name: string): Promise<string> => {
    const repo = await bench.repository(name);
    await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-a`) });
    await bench.watch(name);
    await repo.commit({ 'README.md': 'x' }, { orphan: true });
    const run = await syncNow(bench.daemon, name);
    assert.equal(word(run['status']), 'held');
    return word(run['id']);
  };
  const approve = async (name: string, reconcileId: string): Promise<JsonBody> => {
    const { status, body } = await act(name, 'approve', { reconcileId });
    assert.equal(status, 202, JSON.stringify(body));
    return ended(bench.daemon, word(body['reconcileId']));
  };

  it('is as before where its source is read again and has nothing new', async () => {
    const repo = await bench.repository('well');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('well-a') });
    await bench.watch('well');
    await outage('well');
    assert.equal(word((await shown('well'))['status']), 'applied');
    assert.deepEqual(await told('well'), []);
    await repo.commit({ '.svc/agents/a.yaml': 'name: a\nharness: nonsense\n' });
    await syncNow(bench.daemon, 'well');
    await outage('well');
    assert.deepEqual(await told('well'), ['overview: failed', 'doctor: sync']);
  });

  it('is held still behind an outage, and what is held can be approved', async () => {
    const run = await held('behind');
    await outage('behind');
    assert.equal(word((await shown('behind'))['status']), 'held');
    assert.deepEqual(await told('behind'), ['overview: held', 'doctor: held']);
    assert.equal(word((await approve('behind', run))['status']), 'applied');
    assert.ok(!(await agentNames(bench.daemon)).includes('behind-a'));
  });

  it('can be approved behind a change of settings that decide nothing of it, and behind no other', async () => {
    const run = await held('settled');
    await bench.daemon.api('PATCH', 'P/repositories/settled', { intervalSeconds: 1800 });
    await quiet('settled');
    await bench.daemon.api('PATCH', 'P/repositories/settled', { context: { team: 'red' } });
    const { status, body } = await act('settled', 'approve', { reconcileId: run });
    assert.deepEqual([status, word(body['code'])], [409, 'reconcile-stale']);
    const newer = await settled(bench.daemon, 'settled', (latest) => word(latest['id']) !== run);
    assert.equal(word(newer['status']), 'held', 'there is another to be approved');
    await bench.daemon.api('PATCH', 'P/repositories/settled', { intervalSeconds: 900 });
    await quiet('settled');
    assert.equal(word((await approve('settled', word(newer['id'])))['status']), 'applied');
  });

  it('has another run to approve once it is resumed, and none while it is suspended', async () => {
    const run = await held('resting');
    await act('resting', 'suspend');
    const { status, body } = await act('resting', 'approve', { reconcileId: run });
    assert.deepEqual([status, word(body['code'])], [409, 'repository-suspended']);
    await act('resting', 'resume');
    const newer = await settled(bench.daemon, 'resting', (latest) => word(latest['id']) !== run);
    assert.equal(word(newer['status']), 'held');
    assert.equal(word((await approve('resting', word(newer['id'])))['status']), 'applied');
  });

  it('is not what a run was that its suspension ended', async () => {
    const repo = await bench.repository('ended');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('ended-a') });
    await bench.watch('ended');
    const { promise, resolve } = Promise.withResolvers<void>();
    bench.server.fault = ({ path }) => (path.startsWith('/ended.git') ? { kind: 'hold', until: promise } : null);
    const { body } = await act('ended', 'sync');
    await until('it to be read', async () =>
      bench.server.log.some((one) => one.path.startsWith('/ended.git') && one.status === 0),
    );
    await act('ended', 'suspend');
    bench.server.fault = () => null;
    resolve();
    assert.equal(word((await ended(bench.daemon, word(body['reconcileId'])))['status']), 'superseded');
    assert.equal(word((await shown('ended'))['status']), 'applied');
  });

  it('leaves no agent with places of files that it was made of before', async () => {
    const { api } = bench.daemon;
    const content = agentFile('handed', 'labels: { from: hand }');
    const { status } = await api('POST', 'P/apply', { files: [{ path: '.svc/agents/hand.yaml', content }] });
    assert.equal(status, 200);
    const placeOf = async () =>
      (await api('GET', 'P/agents/handed?origins=true')).body['origins']?.['labels.from']?.['file'];
    assert.equal(word(await placeOf()), '.svc/agents/hand.yaml');
    const repo = await bench.repository('taker');
    await repo.commit({ '.svc/agents/taken.yaml': agentFile('handed', 'labels: { from: files }') });
    await bench.watch('taker', { adopt: true });
    assert.equal(word(await placeOf()), '.svc/agents/taken.yaml');
    assert.equal((await api('DELETE', 'P/repositories/taker?keepResources=true')).status, 204);
    assert.equal(await placeOf(), undefined, 'what it was made of last is not kept');
  });
});
