// Ends what a daemon started when the daemon itself is killed: a shell that waits for the end of its input, which comes
// when the daemon is gone however it went, and then kills what has the daemon's marker. Bubblewrap needs no such help.
// A process without its environment is not found here; the daemon that starts next has no better means either.

import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { type ProcessTable, processTable } from './process-table.ts';

/** For a shell whose `$1` is the beginning of the markers. */
export const guardScript = ({ find }: ProcessTable): string => `
read -r end
tries=0
while [ "$tries" -lt 100 ]; do
  ended=
  for process in $(${find}); do
    kill -9 "$process" 2>/dev/null && ended=1
  done
  [ -z "$ended" ] && exit 0
  tries=$((tries + 1))
  sleep 0.05
done
exit 1`;

export class Guard {
  readonly #prefix: string;
  #shell: ChildProcess | undefined;

  /** Watches over the processes of one start of a provider. */
  constructor(tag: string, boot: string) {
    this.#prefix = `${tag}.${boot}.`;
  }

  /** Returns at once; safe to call before every spawn. */
  start(): void {
    if (this.#shell !== undefined) return;
    const shell = spawn('/bin/sh', ['-c', guardScript(processTable), 'sh', this.#prefix], {
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    this.#shell = shell;
    // One that cannot be started or is killed is tried again with the next spawn; until then the next start reaps.
    const isGone = (): void => {
      if (this.#shell === shell) this.#shell = undefined;
    };
    shell.on('error', isGone).on('exit', isGone);
    shell.stdin?.on('error', isGone);
    shell.unref();
    (shell.stdin as Socket | null)?.unref();
  }

  /** Lets it end, with whatever is still there. */
  stop(): void {
    this.#shell?.stdin?.end();
    this.#shell = undefined;
  }
}
