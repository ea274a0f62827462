// Named points at which a crash test kills the process, so that "killed at any moment" can be shown at the moments that
// matter. Off unless the daemon was started with SVC_FAILPOINT=name[:count]; then the count-th pass through the point
// of that name is SIGKILL. Off, a call is one comparison.

let armed: { name: string; left: number; readonly strike: () => void } | undefined;

const killThis = (): void => void process.kill(process.pid, 'SIGKILL');

/**
 * Arms one point from the text of the setting, `name` or `name:count` (1 is the first pass); undefined disarms.
 * `strike`: what a test in this process kills at the point instead of the process itself.
 */
export function armFailpoint(text: string | undefined, strike = killThis): void {
  if (text === undefined) {
    armed = undefined;
    return;
  }
  const [name = '', count = '1'] = text.split(':');
  armed = { name, left: Number.parseInt(count, 10) || 1, strike };
}

/** Strikes, which ends the process at once, when this point is armed and its count is used up. */
export function failpoint(name: string): void {
  if (armed === undefined || armed.name !== name) return;
  armed.left -= 1;
  if (armed.left === 0) armed.strike();
}
