// Which process this is, so that others on the same kernel can tell whether it still runs. A host name and a process
// number do not say that: names are cloned, numbers are used again, and every container has its own number 1.

import { readFileSync, readlinkSync } from 'node:fs';

export interface ProcessIdentity {
  /** Of the kernel that runs: each start of a machine has another. */
  readonly bootId: string;
  /** The namespace in which `pid` is the process's number. */
  readonly pidNamespace: string;
  readonly pid: number;
  /** When the process started, in the kernel's ticks since it booted. */
  readonly startTicks: string;
}

/** Undefined where the kernel does not tell it. */
export function processIdentity(): ProcessIdentity | undefined {
  try {
    const startTicks = startTicksOf(process.pid);
    if (startTicks === undefined) return undefined;
    return {
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
      pidNamespace: readlinkSync('/proc/self/ns/pid'),
      pid: process.pid,
      startTicks,
    };
  } catch {
    return undefined;
  }
}

/**
 * Whether a process has certainly ended: it ran on the same kernel, among the same numbers, and its number is nobody's now
 * or somebody else's. False where that cannot be known.
 */
export function hasEnded(other: ProcessIdentity, self: ProcessIdentity | undefined): boolean {
  if (self === undefined || other.bootId !== self.bootId || other.pidNamespace !== self.pidNamespace) return false;
  try {
    process.kill(other.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
  const startTicks = startTicksOf(other.pid);
  return startTicks !== undefined && startTicks !== other.startTicks;
}

/** Undefined where the process is not there, or is not shown to us. */
function startTicksOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program may hold blanks and brackets: what counts comes after the last one (proc(5), field 22).
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
