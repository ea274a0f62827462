// Of many sessions that start together one fills a cache, and the others wait for it: as long as they are wanted.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Mirrors } from './mirrors.ts';
import { SetupCache } from './setup-cache.ts';

type InTurn = (work: () => Promise<string>, signal?: AbortSignal) => Promise<string>;

for (const [what, open] of Object.entries({
  'a setup step': async (dataDir: string): Promise<InTurn> => {
    const cache = await SetupCache.open(dataDir);
    return (work, signal) => cache.inTurn('a'.repeat(64), work, signal);
  },
  'a mirror': async (dataDir: string): Promise<InTurn> => {
    const mirrors = await Mirrors.open(dataDir, { keepMs: 1e9, maxBytes: 1e9, now: Date.now });
    const mirror = mirrors.of({ scope: 'a', url: 'https://git.test/a.git' });
    return (work, signal) => mirrors.inTurn(mirror, work, signal);
  },
}))
  test(`who waits for ${what} of another session and is given up waits no longer, and takes no turn`, async (t) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'svc-turns-'));
    t.after(() => rm(dataDir, { recursive: true, force: true }));
    const inTurn = await open(dataDir);
    const { promise: isDone, resolve: end } = Promise.withResolvers<void>();
    const done: string[] = [];
    const work = (name: string, until?: Promise<void>) => async (): Promise<string> => {
      await until;
      done.push(name);
      return name;
    };
    const first = inTurn(work('first', isDone));
    const given = new AbortController();
    const second = inTurn(work('second'), given.signal);
    const third = inTurn(work('third'), new AbortController().signal);
    given.abort(new Error('it was archived'));
    const late = sleep(20_000, undefined, { ref: false }).then(() => 'it waits');
    await assert.rejects(Promise.race([second, late]), /it was archived/);
    assert.deepEqual(done, []);
    end();
    assert.deepEqual(await Promise.all([first, third]), ['first', 'third']);
    assert.deepEqual(done, ['first', 'third']);
  });
