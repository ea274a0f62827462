// Whether a process runs, seen from outside. Where the system has /proc, a process that has ended and was not yet
// collected counts as gone: it holds nothing any more.

import { readdir, readFile, stat } from 'node:fs/promises';

export interface ProcessState {
  readonly alive: boolean;
  /** Clock ticks since boot; tells a process from a later one of the same number. `-` where the system does not tell. */
  readonly started: string;
}

/** Never throws; a number that is none is not alive. */
export async function processState(pid: number): Promise<ProcessState> {
  if (!Number.isInteger(pid) || pid <= 0) return { alive: false, started: '-' };
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return { alive: false, started: '-' };
  }
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { alive: fields[0] !== 'Z' && fields[0] !== 'X', started: fields[19] ?? '-' };
}

/** Processes whose working directory is `directory`; none where the system does not tell. */
export async function processesIn(directory: string): Promise<number[]> {
  const wanted = await stat(directory);
  const names = await readdir('/proc').catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      if (!/^\d+$/.test(name)) return undefined;
      const at = await stat(`/proc/${name}/cwd`).catch(() => undefined);
      return at?.ino === wanted.ino && at.dev === wanted.dev ? Number(name) : undefined;
    }),
  );
  return found.filter((pid) => pid !== undefined);
}
