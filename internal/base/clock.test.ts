import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { SharedClock } from './clock.ts';

/** A machine's steady clock and a server, each with a time of its own, and a network between them. */
const world = (steadyMs: number, serverMs: number) => ({
  steady: () => steadyMs,
  pass: (ms: number) => {
    steadyMs += ms;
    serverMs += ms;
  },
  server: () => serverMs,
});

describe('the clock', () => {
  it('goes by the machine until the server was heard, and by the server from then on', async () => {
    const { steady, pass, server } = world(1_000, 5_000_000);
    const clock = new SharedClock(() => 5_060_000, steady);
    assert.equal(clock.now().getTime(), 5_060_000);
    assert.equal(await clock.learn(async () => server()), 60_000);
    pass(700);
    assert.equal(clock.now().getTime(), server());
  });

  it('is never off by more than the question took, and keeps what may be right', async () => {
    const ms = fc.integer({ min: 0, max: 400 });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: -100_000, max: 100_000 }),
        fc.array(fc.tuple(ms, ms), { minLength: 1, maxLength: 9 }),
        async (skew, trips) => {
          const { steady, pass, server } = world(10, 9_000_000);
          const clock = new SharedClock(() => 9_000_000 + skew, steady);
          for (const [there, back] of trips) {
            const before = clock.now().getTime() - server();
            await clock.learn(async () => {
              pass(there);
              const told = server();
              pass(back);
              return told;
            });
            const after = clock.now().getTime() - server();
            assert.ok(Math.abs(after) <= there + back);
            if (before > -back && before < there) assert.ok(Math.abs(after - before) < 1);
          }
        },
      ),
    );
  });
});
