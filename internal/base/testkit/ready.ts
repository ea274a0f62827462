// How soon a daemon is ready after an end that nobody wanted. Only tests import this.

import assert from 'node:assert/strict';
import { spawnDaemon, tempDataDir } from './daemon.ts';

const withinMs = 10_000;
/** What a start with nothing to take up may be slower by than one beside it, on a machine with other things to do. */
const times = 3;

/**
 * Holds a start against the ten seconds within which the next one is ready, or three times what the first one took here. Where
 * it took longer, a daemon with nothing to take up is started then and there, and tells how slow the machine has become since.
 */
export async function assertReadySoon(tookMs: number, firstMs: number): Promise<void> {
  if (tookMs < Math.max(withinMs, times * firstMs)) return;
  const data = await tempDataDir();
  const since = performance.now();
  const plain = spawnDaemon({ dataDir: data.path });
  try {
    await plain.ready;
    const plainMs = performance.now() - since;
    const said = `ready after ${Math.round(tookMs)} ms, the first start took ${Math.round(firstMs)}, a plain one takes ${Math.round(plainMs)}`;
    assert.ok(tookMs < times * plainMs, said);
  } finally {
    await plain.kill('SIGTERM');
    await data.remove();
  }
}
