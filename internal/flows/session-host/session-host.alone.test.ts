// Sessions that ended the process twice, and wait to be tried alone behind another that takes its time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { turnSuspect } from '../../adapters/store/operations/in-hand.ts';
import { gateOf } from '../in-hand.ts';
import { createHostBench } from './host-testkit.ts';

for (const what of ['launch', 'turn'] as const)
  test(`a daemon that stops waits for no ${what} that waits to be tried alone`, async () => {
    const bench = await createHostBench();
    const { ctx, database } = bench.daemon;
    const slow = Promise.withResolvers<void>();
    let trying: Promise<void> | undefined;
    let stopped: Promise<string> | undefined;
    try {
      await bench.apply({ plain: {} });
      const session = await bench.start('plain', '!say ready');
      await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('ready'));
      trying = gateOf(ctx).alone(() => slow.promise);
      const suspect = what === 'turn' ? turnSuspect(session) : session;
      await database.db.query(`insert into svc.suspects (kind, id, ends) values ('session', $1::text, 2)`, [suspect]);
      if (what === 'launch')
        await database.db.query(`update svc.sessions set leased_by = null, lease_until = null, epoch = epoch + 1`);
      await bench.send(session, '!say never');
      const inHand = async (): Promise<number> =>
        (await database.db.query(`select from svc.in_hand where $1::text = any(ids)`, [suspect])).rowCount;
      while ((await inHand()) === 0) await sleep(20);
      stopped = bench.stop().then(() => 'it has stopped');
      assert.equal(await Promise.race([stopped, sleep(20_000, 'it waits', { ref: false })]), 'it has stopped');
    } finally {
      slow.resolve();
      await trying;
      await (stopped ?? bench.stop());
    }
  });
