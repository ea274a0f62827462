// The processes of this machine with their environments: from /proc where the kernel shows it, else from `ps`. A program of
// which the system keeps the environment to itself (macOS does so with its own) has no marker here; it is found by its
// group and by its parents alone.

import { execFile } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';

/** A variable that everything a sandbox starts inherits: `<data directory>.<start of the provider>.<sandbox>.<spawn>`. */
export const markerName = 'SVC_SANDBOX_ID';

export interface Listed {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** The marker's text; null for a process without one, and for one whose environment is not shown. */
  readonly marker: string | null;
}

export interface ProcessTable {
  /** All that run, but this one; none that ended and was not collected. */
  list(): Promise<Listed[]>;
  isRunning(pid: number): Promise<boolean>;
  /** For a shell: prints the numbers of the processes whose marker begins with `$1`. */
  readonly find: string;
}

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

function readStat(pid: number): Omit<Listed, 'marker'> | null {
  const stat = readProcFile(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in parentheses may hold anything; the fields after it are plain.
  const [state = 'Z', parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' || state === 'X' ? null : { pid, parent: Number(parent), group: Number(group) };
}

function readMarker(pid: number): string | null {
  const environ = readProcFile(`/proc/${pid}/environ`);
  if (environ === null) return null;
  const at = environ.startsWith(`${markerName}=`) ? 0 : environ.indexOf(`\0${markerName}=`) + 1;
  if (at === 0 && !environ.startsWith(`${markerName}=`)) return null;
  const end = environ.indexOf('\0', at);
  return environ.slice(at + markerName.length + 1, end === -1 ? undefined : end);
}

export const fromProc: ProcessTable = {
  list: async () =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .flatMap((name) => {
        const found = readStat(Number(name));
        return found === null ? [] : [{ ...found, marker: readMarker(found.pid) }];
      }),
  isRunning: async (pid) => readStat(pid) !== null,
  find: `for one in /proc/[0-9]*; do
    grep -qz "^${markerName}=$1" "$one/environ" 2>/dev/null && echo "\${one#/proc/}"
  done`,
};

/** Every process, the environment behind its command. `-e` shows it everywhere but on macOS, where it means all processes. */
const allArgs = process.platform === 'darwin' ? ['-A', '-E', '-ww'] : ['axeww'];

function ps(args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('/bin/ps', args, { maxBuffer: 256 * 1024 * 1024, encoding: 'latin1', env: {} }, (error, out) => {
      // 1: there is no such process.
      if (error === null || error.code === 1) resolve(out);
      else reject(new Error(`ps cannot list the processes: ${error.message.split('\n', 1)[0]}`));
    });
  });
}

const row = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s*(.*)$/;
const ended = /^[ZX]/;
const markerIn = new RegExp(`\\s${markerName}=(\\S+)`);

export const fromPs: ProcessTable = {
  list: async () => {
    const text = await ps([...allArgs, '-o', 'pid=,ppid=,pgid=,stat=,command=']);
    return text.split('\n').flatMap((line) => {
      const [, pid, parent, group, state = 'Z', rest = ''] = row.exec(line) ?? [];
      if (ended.test(state) || Number(pid) === process.pid) return [];
      return [
        { pid: Number(pid), parent: Number(parent), group: Number(group), marker: markerIn.exec(rest)?.[1] ?? null },
      ];
    });
  },
  isRunning: async (pid) => {
    const state = (await ps(['-o', 'stat=', '-p', String(pid)])).trim();
    return state !== '' && !ended.test(state);
  },
  // The name and its value stand apart in what awk is given, so that it does not find itself.
  find: `/bin/ps ${allArgs.join(' ')} -o pid=,stat=,command= | awk -v value="$1" '$2 !~ /^[ZX]/ && index($0, " ${markerName}=" value) { print $1 }'`,
};

export const processTable: ProcessTable = existsSync('/proc/self/stat') ? fromProc : fromPs;
