// What a sync under way and what people ask for do to each other, where the test says when each wish is claimed.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { wishSync } from '../../adapters/store/repositories/polls.ts';
import { pollTurn, SyncLane } from './lane.ts';
import { agentFile, agentNames, type Bench, ended, startBench, until, word } from './sync-testkit.ts';

describe('a look that has read a newer commit', () => {
  let bench: Bench;
  let lane: SyncLane;
  before(async () => {
    bench = await startBench({ config: { roles: ['api'] } });
    const { ctx } = bench.daemon;
    lane = new SyncLane(ctx, ctx.runtime.log);
  });
  after(async () => {
    await lane.stop();
    await bench.stop();
  });
  const act = async (name: string, action: string, body?: object): Promise<string> => {
    const answer = await bench.daemon.api('POST', `P/repositories/${name}/${action}`, body);
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    return word(answer.body['reconcileId']);
  };
  /** Claims what is wanted, until nothing is in hand. */
  const look = async (): Promise<void> => {
    const room = lane.room;
    // The second turn gives back what the first has claimed.
    for (let turn = 0; turn < 2; turn += 1) {
      await pollTurn(bench.daemon.ctx, lane);
      await until('the looks of a turn', async () => lane.room === room);
    }
  };
  const push = async (name: string, hint: string): Promise<void> => {
    const { db } = bench.daemon.ctx;
    const { rows } = await db.query<{ id: string }>('select id from svc.repositories where name = $1::text', [name]);
    await wishSync(db, { repositoryId: rows[0]?.id ?? '', reason: 'push', hint });
  };
  /** Begins the look for a commit, and answers with what lets its server answer. */
  const lookHeld = async (name: string, hint: string): Promise<() => void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = bench.server.log.length;
    bench.server.fault = () => ({ kind: 'hold', until: promise });
    await push(name, hint);
    await pollTurn(bench.daemon.ctx, lane);
    await until('the read that hangs', async () => bench.server.log.length > asked);
    bench.server.fault = () => null;
    return resolve;
  };

  it('leaves a rollback that waits for a daemon to be done', async () => {
    const repo = await bench.repository('back');
    const url = bench.server.url('back.git');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('back-one') });
    const body = { name: 'back', url, intervalSeconds: 3600 };
    assert.equal((await bench.daemon.api('POST', 'P/repositories', body)).status, 201);
    await look();
    await push('back', await repo.commit({ '.svc/agents/a.yaml': agentFile('back-two') }));
    await look();
    const room = lane.room;
    const goOn = await lookHeld('back', await repo.commit({ '.svc/agents/a.yaml': agentFile('back-three') }));
    const rollback = await act('back', 'rollback', {});
    goOn();
    await until('the end of the look', async () => lane.room === room);
    await look();
    const run = await ended(bench.daemon, rollback);
    assert.equal(word(run['status']), 'applied', word(run['detail']));
    assert.deepEqual(await agentNames(bench.daemon), ['back-one']);
  });
});
