import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { DataDirInUse, lockDataDir } from './data-lock.ts';

describe('the lock of a data directory', () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-lock-'));
  });
  after(() => rm(dir, { recursive: true }));

  it('is held by one at a time, and names the holder', async () => {
    const lock = await lockDataDir(dir);
    await assert.rejects(
      lockDataDir(dir),
      (error: unknown) => error instanceof DataDirInUse && error.message.includes(`process ${process.pid}`),
    );
    await lock.release();
    await (await lockDataDir(dir)).release();
    assert.deepEqual(await readdir(dir), []);
  });

  it('is taken over, by one of many, from a process that is gone or was another of its number', async () => {
    for (const stale of ['999999999 1', `${process.pid} 1`, 'garbage', '']) {
      await writeFile(join(dir, 'svcd.lock.old'), stale);
      const tries = await Promise.allSettled(Array.from({ length: 5 }, () => lockDataDir(dir)));
      const won = tries.filter((one) => one.status === 'fulfilled');
      assert.equal(won.length, 1, JSON.stringify(stale));
      for (const one of won) await one.value.release();
      assert.deepEqual(await readdir(dir), []);
    }
  });
});
