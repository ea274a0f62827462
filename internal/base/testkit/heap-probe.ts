// Loaded into a daemon that a test starts (`NODE_OPTIONS=--import=…`): at SIGUSR2 it collects what is garbage, and tells on
// stderr what it holds.

import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

export interface Held {
  /** Bytes of living objects of the main thread but code, which the engine makes more of for hours. */
  readonly heap: number;
  /** Bytes that such objects hold outside of the heap. */
  readonly external: number;
  /** Open files and sockets. */
  readonly files: number;
}

if (isMainThread) {
  v8.setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  process.on('SIGUSR2', () => void tell(collect));
}

async function tell(collect: () => void): Promise<void> {
  // What is told that it goes is gone by the next collection.
  for (let turn = 0; turn < 4; turn += 1) {
    collect();
    await sleep(100);
  }
  const heap = v8
    .getHeapSpaceStatistics()
    .filter(({ space_name: name }) => !/code|trusted/.test(name))
    .reduce((sum, space) => sum + space.space_used_size, 0);
  const { external } = process.memoryUsage();
  const held: Held = { heap, external, files: readdirSync('/proc/self/fd').length };
  process.stderr.write(`held ${JSON.stringify(held)}\n`);
}
