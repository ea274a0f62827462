// Named points at which a crash test kills the process, so that "killed at any moment" can be shown at the moments that
// matter. Off unless the daemon was started with SVC_FAILPOINT=name[:count]; then the count-th pass through the point
// of that name is SIGKILL. Off, a call is one comparison.

let armed: { name: string; left: number } | undefined;

/** Arms one point from the text of the setting, `name` or `name:count` (1 is the first pass); undefined disarms. */
export function armFailpoint(text: string | undefined): void {
  if (text === undefined) {
    armed = undefined;
    return;
  }
  const [name = '', count = '1'] = text.split(':');
  armed = { name, left: Number.parseInt(count, 10) || 1 };
}

/** Ends the process at once when this point is armed and its count is used up. */
export function failpoint(name: string): void {
  if (armed === undefined || armed.name !== name) return;
  armed.left -= 1;
  if (armed.left === 0) process.kill(process.pid, 'SIGKILL');
}
