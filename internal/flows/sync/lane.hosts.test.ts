// Servers of git and how a daemon treats them: one that was paused is left alone by all daemons until somebody reaches it, and
// what is read at a time is bounded for each server and each repository, not by the sum of them.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { pollTurn, scheduleAll, SyncLane } from './lane.ts';
import { agentFile, type Bench, ended, startBench, until, word } from './sync-testkit.ts';

const api = { roles: ['api'], allowPrivateNetwork: true } as const;

/** A daemon whose looks the test takes: what it claims in one turn, to its end. */
interface Looker {
  readonly ctx: TestDaemon['ctx'];
  readonly lane: SyncLane;
}
const lookerOf = ({ ctx }: TestDaemon): Looker => ({ ctx, lane: new SyncLane(ctx, ctx.runtime.log) });

async function look({ ctx, lane }: Looker): Promise<void> {
  const empty = lane.room;
  // The second turn gives back what the first has claimed.
  for (let turn = 0; turn < 2; turn += 1) {
    await pollTurn(ctx, lane);
    await until('the looks of a turn', async () => lane.room === empty);
  }
}

describe('a server that three repositories in a row could not read', () => {
  let bench: Bench;
  let other: TestDaemon;
  before(async () => {
    bench = await startBench({ config: api });
    const { database, token } = bench.daemon;
    other = await startTestDaemon({ database, token, config: api });
    for (const name of ['one', 'two', 'three', 'four']) {
      const repo = await bench.repository(name);
      await repo.commit({ '.svc/agents/a.yaml': agentFile(`${name}-a`) });
      const body = { name, url: bench.server.url(`${name}.git`), intervalSeconds: 3600 };
      assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    }
  });
  after(async () => {
    await other.stop();
    await bench.stop();
  });

  const asked = (name: string): number =>
    bench.server.log.filter(({ path }) => path.startsWith(`/${name}.git/`)).length;
  const byHand = async (name: string, by: Looker): Promise<readonly [string, string]> => {
    const { body } = await bench.daemon.api('POST', `P/repositories/${name}/sync`);
    await look(by);
    const run = await ended(bench.daemon, word(body['reconcileId']));
    return [word(run['status']), word(run['condition'])];
  };
  const makeDue = (name: string) =>
    bench.daemon.ctx.db.query(
      `update svc.repository_polls set next_at = now()
        where repository_id = (select id from svc.repositories where name = $1::text)`,
      [name],
    );
  const isPaused = async (): Promise<boolean> =>
    (await bench.daemon.ctx.db.query('select from svc.host_pauses where retry_at > now()')).rowCount > 0;
  const fail = async (by: Looker): Promise<void> => {
    bench.server.fault = () => ({ kind: 'status', status: 429, headers: { 'retry-after': '600' } });
    for (const name of ['one', 'two', 'three']) {
      assert.equal(await isPaused(), false, `before ${name}`);
      assert.deepEqual(await byHand(name, by), ['failed', 'rate-limited']);
    }
    assert.equal(await isPaused(), true);
  };

  it('waits with the turns of all its repositories at all daemons, and with no sync by hand, until one is read', async () => {
    const [first, second] = [lookerOf(bench.daemon), lookerOf(other)];
    await look(first);
    await fail(first);
    const before = asked('four');
    assert.ok(before > 0);
    await makeDue('four');
    for (const one of [first, second]) await look(one);
    assert.equal(asked('four'), before, 'its turn waits, though nothing is known of itself');
    assert.deepEqual(await byHand('four', second), ['failed', 'rate-limited']);
    assert.ok(asked('four') > before, 'by hand it is tried at once');
    bench.server.fault = () => null;
    assert.equal((await byHand('four', second))[0], 'unchanged');
    assert.equal(await isPaused(), false, 'whoever reaches it ends its pause');
    const since = asked('four');
    await makeDue('four');
    await look(first);
    assert.ok(asked('four') > since, 'also for the daemon that had paused it');
  });

  it('waits with them after a restart, and after a crash of the database', async () => {
    await fail(lookerOf(bench.daemon));
    const before = asked('four');
    for (const again of [async () => undefined, () => other.ctx.db.query('truncate svc.repository_polls')]) {
      await again();
      const started = lookerOf(other);
      await scheduleAll(other.ctx);
      await makeDue('four');
      await look(started);
      assert.equal(asked('four'), before);
    }
    bench.server.fault = () => null;
    assert.equal((await byHand('four', lookerOf(other)))[0], 'unchanged');
    assert.equal(await isPaused(), false);
  });
});
