// Which processes of this machine belong to a sandbox, and how they are ended. A process is known by a variable that
// its environment inherits, by its process group, or by descending from one of these; so a detached child is found, and
// one that a parent started without an environment too, as long as that parent lives.

import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** `<data directory>.<start of the provider>.<sandbox>.<spawn>`; no part holds a dot. */
export const markerName = 'SVC_SANDBOX_ID';

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

/** One for all readings: such a file tells no size, and a buffer for each of some thousand is work for the collector. */
const readInto = Buffer.allocUnsafeSlow(65_536);

/** Of a process that is gone, or of another user: null. */
function readProcFile(path: string): string | null {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    let text = '';
    for (let read = 1; read > 0; ) {
      read = readSync(file, readInto, 0, readInto.length, null);
      text += readInto.toString('latin1', 0, read);
    }
    return text;
  } catch {
    return null;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function readStat(pid: number): Omit<Found, 'marker'> | null {
  const stat = readProcFile(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in parentheses may hold anything; the fields after it are plain.
  const [state = 'Z', parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' || state === 'X' ? null : { pid, parent: Number(parent), group: Number(group) };
}

function readProcess(pid: number): Found | null {
  const found = readStat(pid);
  return found && { ...found, marker: readMarker(pid) };
}

function readMarker(pid: number): Marker | null {
  const environ = readProcFile(`/proc/${pid}/environ`);
  if (environ === null) return null;
  const at = environ.startsWith(`${markerName}=`) ? 0 : environ.indexOf(`\0${markerName}=`) + 1;
  if (at === 0 && !environ.startsWith(`${markerName}=`)) return null;
  const end = environ.indexOf('\0', at);
  return parseMarker(environ.slice(at + markerName.length + 1, end === -1 ? undefined : end));
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
  for (let waitedMs = 0; readStat(pid) !== null && waitedMs <= goneAfterMs; waitedMs += 2) await sleep(2);
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // Gone already, or become another user's (a setuid program), which the next look tells.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
