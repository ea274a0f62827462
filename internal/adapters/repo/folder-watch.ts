// Notices that a folder (or a local branch) may have changed. Events are a dirty bit and nothing else: what changed
// is found out by reading again. Loads chokidar, so import it only when something is to be watched.

import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { editorFile } from './folder.ts';
import { isCrowded, scanFolder } from './folder-scan.ts';

const quietMs = 75;
const longestMs = 500;
const rescanMs = 30_000;
const followMs = 1_000;
/** A notice that the system loses costs as long as this; a large folder is looked at less often. */
const scanMs = 3_000;
const scanShare = 50;

export interface DirtyBit {
  readonly dirty: () => void;
  readonly cancel: () => void;
}

export interface Watching {
  stop(): Promise<void>;
}

/** Calls `tell` after events, once they pause for 75 ms, or at the latest 500 ms after the first. */
export function coalesce(tell: () => void, quiet = quietMs, longest = longestMs): DirtyBit {
  let timer: NodeJS.Timeout | null = null;
  let first = 0;
  const fire = () => {
    timer = null;
    tell();
  };
  return {
    dirty: () => {
      const now = performance.now();
      if (timer === null) first = now;
      else clearTimeout(timer);
      timer = setTimeout(fire, Math.max(0, Math.min(quiet, first + longest - now)));
    },
    cancel: () => {
      if (timer !== null) clearTimeout(timer);
      timer = null;
    },
  };
}

/**
 * Watches `.svc/` in `directory` (or for its coming into being) and the files outside it that were read. Of a `.svc/` with
 * more files than anybody reads only the looks tell, every few seconds.
 */
export async function watchFolder(
  directory: string,
  outside: () => readonly string[],
  onDirty: () => void,
): Promise<Watching> {
  const svc = join(directory, '.svc');
  let current: Watching | null = null;
  let stopped = false;
  let watched = '';
  let existed = false;
  /** As the last look found it. */
  let crowded = false;
  // One switch of watchers at a time; a change that arrives meanwhile is seen by the next look.
  let turn: Promise<void> = Promise.resolve();
  const bits = coalesce(() => {
    onDirty();
    turn = turn.then(arrange);
  });
  const arrange = async (): Promise<void> => {
    if (stopped) return;
    const exists = (await lstat(svc).catch(() => null))?.isDirectory() === true;
    const files = outside().map((path) => join(directory, path));
    if (exists && !existed) crowded = await isCrowded(svc);
    existed = exists;
    const within = exists && !crowded;
    const key = JSON.stringify([exists, within, files]);
    if (key === watched) return;
    watched = key;
    const before = current;
    current = await watchPaths([within ? svc : directory, ...files], bits.dirty, {
      depthZero: !within,
      coalesced: true,
    });
    await before?.stop();
    // What changed at a new place before its watch stood was told to nobody.
    if (before !== null) bits.dirty();
  };
  await arrange();
  // Which files outside are read is known only after the read that an event has led to.
  const following = setInterval(() => {
    turn = turn.then(arrange);
  }, followMs);
  following.unref();
  const looking = lookNowAndThen(svc, outside, directory, async (isFirst) => {
    crowded = await isCrowded(svc);
    if (!isFirst && !stopped) bits.dirty();
  });
  return {
    stop: async () => {
      stopped = true;
      looking.stop();
      clearInterval(following);
      bits.cancel();
      await turn;
      await current?.stop();
    },
  };
}

/** Looks at a `.svc/` and at the files outside it every few seconds; `onOther` after the first look, and where one differs. */
function lookNowAndThen(
  svc: string,
  outside: () => readonly string[],
  directory: string,
  onOther: (isFirst: boolean) => Promise<void>,
): { stop(): void } {
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let seen: string | undefined;
  const look = async (): Promise<void> => {
    const begun = performance.now();
    const files = outside().map((path) => join(directory, path));
    const now = await scanFolder(svc, files, editorFile);
    if (now !== seen) await onOther(seen === undefined);
    seen = now;
    if (stopped) return;
    timer = setTimeout(() => void look(), Math.max(scanMs, (performance.now() - begun) * scanShare));
    timer.unref();
  };
  void look();
  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** Watches paths, whether or not they exist; falls back to polling where the system has no more watches to give. */
export async function watchPaths(
  paths: readonly string[],
  onDirty: () => void,
  options: { readonly depthZero?: boolean; readonly coalesced?: boolean } = {},
): Promise<Watching> {
  const bits = options.coalesced === true ? { dirty: onDirty, cancel: () => undefined } : coalesce(onDirty);
  let watcher: FSWatcher;
  let polling = false;
  let closing: Promise<void> = Promise.resolve();
  const begin = async (): Promise<void> => {
    watcher = watch([...paths], {
      ignoreInitial: true,
      followSymlinks: false,
      persistent: true,
      usePolling: polling,
      interval: 500,
      ignored: (path) => editorFile.test(path) && !paths.includes(path),
      ...(options.depthZero === true ? { depth: 0 } : {}),
    });
    watcher.on('all', bits.dirty);
    watcher.on('error', () => {
      bits.dirty();
      if (polling) return;
      polling = true;
      closing = watcher.close().then(begin);
    });
    // One that breaks while it begins is never ready: the one that polls in its place is.
    await new Promise<void>((resolve) => {
      watcher.once('ready', resolve);
      watcher.once('error', () => resolve());
    });
  };
  await begin();
  await closing;
  const rescan = setInterval(bits.dirty, rescanMs);
  rescan.unref();
  return {
    stop: async () => {
      clearInterval(rescan);
      bits.cancel();
      polling = true;
      await closing;
      await watcher.close();
    },
  };
}
