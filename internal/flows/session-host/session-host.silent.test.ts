// An engine that takes calls and answers none of them, once it was known: a launch that waits for it ends with its daemon.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHostBench } from './host-testkit.ts';

for (const answered of [[], ['/v1.41/version', '/v1.41/info']])
  test(`a daemon that stops waits for no launch that waits for an engine which answers ${answered.length} questions`, async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-silent-'));
    const socket = join(dir, 'engine.sock');
    const asked: string[] = [];
    const engine = createServer(({ url = '' }, response) => {
      asked.push(url);
      if (answered.includes(url)) response.end('{"Version":"1"}');
    });
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    const presets = { base: { provider: 'docker', image: 'any' } };
    const bench = await createHostBench({ config: { file: { sandboxes: { docker: { socket }, presets } } } });
    let stopped: Promise<string> | undefined;
    try {
      await bench.apply({ boxed: {} });
      const session = await bench.start('boxed', '!say ready');
      await bench.until(session, ({ state }) => state === 'provisioning');
      // What it has of the session is asked for where it could be opened.
      if (answered.length > 0) while (!asked.some((url) => url.includes(session))) await sleep(20);
      else await sleep(500);
      stopped = bench.stop().then(() => 'it has stopped');
      assert.equal(await Promise.race([stopped, sleep(5_000, 'it waits', { ref: false })]), 'it has stopped');
    } finally {
      engine.closeAllConnections();
      engine.close();
      await (stopped ?? bench.stop());
      await rm(dir, { recursive: true });
    }
  });
