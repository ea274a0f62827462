// Which processes of this machine belong to a sandbox, and how they are ended. A process is known by a variable that
// its environment inherits, by its process group, or by descending from one of these; so a detached child is found, and
// one that a parent started without an environment too, as long as that parent lives.

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** `<data directory>.<start of the provider>.<sandbox>.<spawn>`; no part holds a dot. */
export const MARKER = 'SVC_SANDBOX_ID';

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
const GONE_AFTER_MS = 10_000;

function readProcess(pid: number): Found | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return null; // Gone since the directory was read.
  }
  // The name in parentheses may hold anything; the fields after it are plain.
  const [state = 'Z', parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (state === 'Z' || state === 'X') return null;
  return { pid, parent: Number(parent), group: Number(group), marker: readMarker(pid) };
}

function readMarker(pid: number): Marker | null {
  let environ: string;
  try {
    environ = readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return null; // Of another user, so not ours; or gone.
  }
  const at = environ.startsWith(`${MARKER}=`) ? 0 : environ.indexOf(`\0${MARKER}=`) + 1;
  if (at === 0 && !environ.startsWith(`${MARKER}=`)) return null;
  const end = environ.indexOf('\0', at);
  return parseMarker(environ.slice(at + MARKER.length + 1, end === -1 ? undefined : end));
}

function processes(): Found[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((name) => readProcess(Number(name)))
    .filter((found) => found !== null);
}

/** Processes whose marker is wanted, those of `group`, and what descends from either. */
function select(wanted: (marker: Marker) => boolean, group: number | undefined): Found[] {
  const all = processes();
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
export function runningIds(tag: string): string[] {
  return [...new Set(processes().flatMap(({ marker }) => (marker?.tag === tag ? [marker.id] : [])))];
}

/**
 * Kills every process whose marker is wanted or that is in `group`, with all descendants, until a look finds none.
 * Throws when some are still there after ten seconds.
 */
export async function killAll(wanted: (marker: Marker) => boolean, group?: number): Promise<void> {
  let waitedMs = 0;
  let pauseMs = 2;
  for (;;) {
    const found = select(wanted, group);
    if (found.length === 0) return;
    if (waitedMs > GONE_AFTER_MS) {
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
  for (let waitedMs = 0; readProcess(pid) !== null && waitedMs <= GONE_AFTER_MS; waitedMs += 2) await sleep(2);
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // Gone already, or become another user's (a setuid program), which the next look tells.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
