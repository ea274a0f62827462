// Named points at which a crash test kills the process, so that "killed at any moment" can be shown at the moments that
// matter. Off unless the daemon was started with SVC_FAILPOINT=name[:count]; then the count-th pass through the point
// of that name is SIGKILL; with name@subject, a pass with that subject aborts, and with name:memory@subject it takes memory until
// the runtime finds none; with name:stop, the first pass is SIGSTOP, so that something else can be killed meanwhile. Several
// points are divided by commas. Off, a call is one comparison.

interface Armed {
  readonly name: string;
  readonly subject: string | undefined;
  left: number;
  readonly strike: () => void;
}

let armed: readonly Armed[] | undefined;

/** As the runtime itself does where it finds no memory. */
const abort = (): void => process.abort();
/** The runtime itself does it then, after whatever it tries first. */
const exhaust = (): void => {
  const held: object[][] = [];
  for (;;) held.push(Array.from({ length: 1_000 }, () => ({})));
};
const killThis = (): void => void process.kill(process.pid, 'SIGKILL');
const stopThis = (): void => void process.kill(process.pid, 'SIGSTOP');

/**
 * Arms points from the text of the setting, each `name`, `name:count` (1 is the first pass), `name:stop`, or `name@subject` or
 * `name:memory@subject`, at which one piece of work ends the process whenever it comes by; undefined disarms. `strike`: what a
 * test in this process kills at the point instead of the process itself.
 */
export function armFailpoint(text: string | undefined, strike?: () => void): void {
  armed = text?.split(',').map((point) => parsed(point, strike));
}

function parsed(text: string, strike: (() => void) | undefined): Armed {
  const [point = '', subject] = text.split('@');
  const [name = '', count = '1'] = point.split(':');
  if (subject !== undefined)
    return { name, subject, left: 1, strike: strike ?? (count === 'memory' ? exhaust : abort) };
  if (count === 'stop') return { name, subject, left: 1, strike: strike ?? stopThis };
  return { name, subject, left: Number.parseInt(count, 10) || 1, strike: strike ?? killThis };
}

/** Strikes, which ends the process at once, when this point is armed and its count is used up. */
export function failpoint(name: string, subject?: string): void {
  if (armed === undefined) return;
  for (const one of armed) {
    if (one.name !== name || one.subject !== subject) continue;
    one.left -= 1;
    if (one.left === 0) one.strike();
  }
}
