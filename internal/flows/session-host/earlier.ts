// Which daemons had this data directory before: they are gone, since one process at a time has it, and what they ran can
// be taken over without waiting for their leases. Kept only where sandboxes outlive their daemon.

import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';

/** Lives that followed one another so quickly that none took over what the one before had left. */
const livesMax = 16;
const lasting = new Set<string>(['docker', 'kubernetes']);

/** Whether it runs sessions in sandboxes that outlive it. */
export const leavesSandboxes = (ctx: FlowContext, ports: Pick<HostPorts, 'providers'>): boolean =>
  [ctx.config.sandbox, ...ports.providers].some((name) => lasting.has(name));

/** The daemons of this data directory before this one, which is noted behind them. */
export async function earlierHosts(ctx: FlowContext, ports: Pick<HostPorts, 'providers'>): Promise<readonly string[]> {
  if (!leavesSandboxes(ctx, ports)) return [];
  const path = join(ctx.config.dataDir, 'session-hosts');
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const before = text
    .split('\n')
    .filter((line) => /^[0-9a-f-]{36}$/.test(line) && line !== ctx.daemonId)
    .slice(1 - livesMax);
  // Renamed into place: a reader never sees half of it.
  await writeFile(`${path}.new`, [...before, ctx.daemonId, ''].join('\n'), { mode: 0o600 });
  await rename(`${path}.new`, path);
  return before;
}
