import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { FreshReads } from './fresh.ts';

it('nobody gets a value that was read before it asked, and reads are shared', async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(fc.boolean(), { maxLength: 40 }), async (scheduler, steps) => {
      const reads = new FreshReads<number>();
      let value = 0;
      let calls = 0;
      const load = async (): Promise<number> => {
        calls += 1;
        const seen = value;
        await scheduler.schedule(Promise.resolve());
        return seen;
      };
      const asked: Promise<void>[] = [];
      for (const isChange of steps) {
        if (isChange) value += 1;
        else {
          const least = value;
          asked.push(reads.get('k', load).then((got) => assert.ok(got >= least)));
        }
      }
      await scheduler.waitFor(Promise.all(asked));
      assert.ok(calls <= 3, `${calls} reads`);
    }),
  );
});

it('a read that fails fails those who waited for it, and no others', async () => {
  const reads = new FreshReads<string>();
  const fail = async (): Promise<string> => Promise.reject(new Error('gone'));
  const failed = [reads.get('k', fail), reads.get('k', fail), reads.get('k', fail)];
  for (const result of await Promise.allSettled(failed)) assert.equal(result.status, 'rejected');
  assert.equal(await reads.get('k', async () => 'back'), 'back');
});
