// Which processes of this machine belong to a sandbox, and how they are ended. A process is known by a variable that
// its environment inherits, by its process group, or by descending from one of these; so a detached child is found, and
// one that a parent started without an environment too, as long as that parent lives.

import { setTimeout as sleep } from 'node:timers/promises';
import { processTable } from './process-table.ts';

/** What `markerName` says of a process; no part holds a dot. */
export interface Marker {
  readonly tag: string;
  readonly boot: string;
  readonly id: string;
  readonly spawn: string;
}

export const markerText = (marker: Marker): string => `${marker.tag}.${marker.boot}.${marker.id}.${marker.spawn}`;

function parseMarker(text: string): Marker | null {
  const [tag, boot, id, spawn, ...more] = text.split('.');
  if (tag === undefined || boot === undefined || id === undefined || spawn === undefined || more.length > 0)
    return null;
  return { tag, boot, id, spawn };
}

interface Found {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly marker: Marker | null;
}

/** Time to wait for killed processes to be gone, in milliseconds. */
const goneAfterMs = 10_000;

/** The part of the time that looks may take; each reads of every process of the machine, and in one go. */
const lookShare = 0.25;
let looking: Promise<Found[]> = Promise.resolve([]);
let nextLook: Promise<Found[]> | undefined;
let restsUntil = 0;

/**
 * A look that begins after it is asked for, one for all that ask before it begins: when a daemon drains, each of its
 * sandboxes looks several times.
 */
function listed(): Promise<Found[]> {
  nextLook ??= lookAfter(looking);
  return nextLook;
}

async function lookAfter(last: Promise<Found[]>): Promise<Found[]> {
  await last.catch(() => undefined);
  await sleep(Math.max(0, restsUntil - performance.now()));
  looking = nextLook ?? last;
  nextLook = undefined;
  const begun = performance.now();
  const all = await processTable.list();
  const now = performance.now();
  restsUntil = now + (now - begun) * (1 / lookShare - 1);
  return all.map((one) => ({ ...one, marker: one.marker === null ? null : parseMarker(one.marker) }));
}

/** Processes whose marker is wanted, those of `group`, and what descends from either. */
async function select(wanted: (marker: Marker) => boolean, group: number | undefined): Promise<Found[]> {
  const all = await listed();
  const chosen = new Map<number, Found>();
  for (const found of all) {
    if ((found.marker !== null && wanted(found.marker)) || found.group === group) chosen.set(found.pid, found);
  }
  for (let grown = true; grown; ) {
    grown = false;
    for (const found of all) {
      if (chosen.has(found.pid) || !chosen.has(found.parent)) continue;
      chosen.set(found.pid, found);
      grown = true;
    }
  }
  return [...chosen.values()];
}

/** Ids of the sandboxes of a data directory that have a process now. */
export async function runningIds(tag: string): Promise<string[]> {
  return [...new Set((await listed()).flatMap(({ marker }) => (marker?.tag === tag ? [marker.id] : [])))];
}

/**
 * Kills every process whose marker is wanted or that is in `group`, with all descendants, until a look finds none.
 * Throws when some are still there after ten seconds.
 */
export async function killAll(wanted: (marker: Marker) => boolean, group?: number): Promise<void> {
  let waitedMs = 0;
  let pauseMs = 2;
  for (;;) {
    const found = await select(wanted, group);
    if (found.length === 0) return;
    if (waitedMs > goneAfterMs) {
      throw new Error(`processes ${found.map(({ pid }) => pid).join(', ')} of a sandbox do not end`);
    }
    // Stopped first, so that none of them can start another while the rest is being killed.
    for (const { pid } of found) signal(pid, 'SIGSTOP');
    for (const { pid } of found) signal(pid, 'SIGKILL');
    await sleep(pauseMs);
    waitedMs += pauseMs;
    pauseMs = Math.min(pauseMs * 2, 100);
  }
}

/** Waits until a process is gone or has nothing left but its number, which the first of a namespace is last. */
export async function whenDead(pid: number): Promise<void> {
  for (let waitedMs = 0; (await processTable.isRunning(pid)) && waitedMs <= goneAfterMs; waitedMs += 2) await sleep(2);
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // Gone already, or become another user's (a setuid program), which the next look tells.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
