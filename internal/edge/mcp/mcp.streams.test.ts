// How often open answers of a session ask whether they may go on.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import type { FlowContext } from '../../flows/context.ts';
import { createStreams } from './streams.ts';

test('answers of one token ask together, once at a time, and end together; of another token they stay', async () => {
  let tell: (sessionId: string | null) => void = () => assert.fail('nobody listens');
  const db = {
    listen: (_channel: string, hear: typeof tell) => {
      tell = hear;
      return Promise.resolve(() => Promise.resolve());
    },
  };
  const streams = createStreams(() => ({ db }) as unknown as FlowContext);
  const asked = { old: 0, new: 0 };
  const broken = { old: 0, new: 0 };
  const open = { old: true, new: true };
  const add = (token: 'old' | 'new'): Promise<() => void> =>
    streams.watch({
      sessionId: 's',
      token,
      isOpen: async () => {
        asked[token] += 1;
        await setImmediate();
        return open[token];
      },
      breakOff: () => (broken[token] += 1),
    });
  const settled = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn += 1) await setImmediate();
  };
  const leave = [];
  for (let at = 0; at < 64; at += 1) leave.push(await add('old'));
  leave.push(await add('new'));
  await settled();
  const before = { ...asked };
  for (let at = 0; at < 100; at += 1) tell('s');
  await settled();
  assert.deepEqual([asked.old - before.old, asked.new - before.new], [2, 2]);
  open.old = false;
  tell(null);
  await settled();
  assert.deepEqual(broken, { old: 64, new: 0 });
  // Ended between the look at its token and the reading of its body: nobody tells of it any more.
  open.new = false;
  leave.push(await add('new'));
  await settled();
  assert.equal(broken.new, 2);
  for (const end of leave) end();
  const after = { ...asked };
  tell('s');
  await settled();
  assert.deepEqual(asked, after);
  await streams.stop();
});

test('answers are watched also where changes could not be heard of at first', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  const db = {
    listen: async () => {
      tries += 1;
      if (tries === 1) throw new Error('the connection that listens cannot be made');
      return () => Promise.resolve();
    },
  };
  const streams = createStreams(() => ({ db }) as unknown as FlowContext);
  let isOpen = true;
  let isBroken = false;
  const leave = await streams.watch({
    sessionId: 's',
    token: 't',
    isOpen: async () => isOpen,
    breakOff: () => (isBroken = true),
  });
  isOpen = false;
  await setImmediate();
  t.mock.timers.tick(1_000);
  for (let turn = 0; turn < 20; turn += 1) await setImmediate();
  assert.deepEqual([tries, isBroken], [2, true]);
  leave();
  await streams.stop();
});
