// svcd with a watch on itself, for tests of what hostile input does to it: the longest time that its event loop stood
// still, written to the file SVC_MEASURE_FILE at each SIGUSR2. Only measured-daemon.ts starts this.

import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const file = process.env['SVC_MEASURE_FILE'] ?? '';
const everyMs = 5;
const delay = monitorEventLoopDelay({ resolution: everyMs });
delay.enable();

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
let [at, cpu, busyMs] = [performance.now(), cpuMs(), 0];

// On a machine that others use too, a loop stands still without anything to do. What it is charged with is what it
// computed between two turns, and never more than the time between them.
setInterval(() => {
  const [now, used] = [performance.now(), cpuMs()];
  busyMs = Math.max(busyMs, Math.min(now - at, used - cpu));
  [at, cpu] = [now, used];
}, everyMs);

process.on('SIGUSR2', () => {
  const told = { busyMs, delayMs: delay.max / 1_000_000 };
  collectGarbage();
  writeFileSync(`${file}.part`, JSON.stringify(told));
  renameSync(`${file}.part`, file);
  delay.reset();
  [at, cpu, busyMs] = [performance.now(), cpuMs(), 0];
});

await import('../../../cmd/svcd/main.ts');
