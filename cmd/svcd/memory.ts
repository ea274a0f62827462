// Gives memory back when there is nothing to do. V8 keeps the room that a burst of work, or the start itself, made it take
// for young objects, tens of megabytes, until something asks: a full collection of a small heap takes some 40 ms. It takes
// compiled code along, so that what comes next runs cold: a pause between two bursts is no idleness.

import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const lookMs = 5_000;
/** Idle: less than this of a core since the last look. */
const idleShare = 0.05;
/** Worth the pause. */
const roomBytes = 8 * 1_048_576;
const atMostEveryMs = 120_000;
/** Idle looks in a row; the first time one will do, for a start compiles little that is run again. */
const quietLooks = 12;

type Collect = (options: { readonly type: 'major'; readonly flavor: 'last-resort' }) => void;

/** Looks every few seconds for as long as the process lives, which it does not keep alive. */
export function giveMemoryBack(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  let usage = process.cpuUsage();
  let nextMs = 0;
  let idleLooks = 0;
  let wantedLooks = 1;
  const look = (): void => {
    const used = process.cpuUsage(usage);
    usage = process.cpuUsage();
    const isIdle = (used.user + used.system) / 1_000 < lookMs * idleShare;
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')?.space_size ?? 0;
    idleLooks = isIdle ? idleLooks + 1 : 0;
    if (idleLooks < wantedLooks || young < roomBytes || performance.now() < nextMs) return;
    nextMs = performance.now() + atMostEveryMs;
    wantedLooks = quietLooks;
    collect({ type: 'major', flavor: 'last-resort' });
  };
  setInterval(look, lookMs).unref();
}
