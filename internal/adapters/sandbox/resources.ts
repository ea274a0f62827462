// Limits of processors and memory for all processes of a sandbox together: through a scope of the service manager, by
// which an unprivileged daemon has such limits, or through control groups where the daemon may make some (cgroups.ts).
// Limits of single processes would not be the same, and are not passed off as it. Where there is neither, the sandbox
// says that resources are not enforced.

import { execFile } from 'node:child_process';
import type { SandboxSpec } from './types.ts';

export interface ManagerEnvironment {
  readonly XDG_RUNTIME_DIR?: string | undefined;
  readonly DBUS_SESSION_BUS_ADDRESS?: string | undefined;
}

export interface ResourceLimiter {
  readonly works: boolean;
  /** Why not, or by what means. */
  readonly why: string;
  /** The command that runs `argv` within the limits, and the environment that this command itself needs. */
  wrap(
    argv: readonly string[],
    resources: SandboxSpec['resources'],
    /** Of the sandbox. */
    id: string,
  ): Promise<{ readonly argv: readonly string[]; readonly env: Readonly<Record<string, string>> }>;
  /** Whether the kernel has ended a program of the sandbox for want of memory since it was asked last. */
  outOfMemory?(id: string): Promise<boolean>;
  /** When nothing of the sandbox runs any more. */
  release?(id: string): Promise<void>;
}

const probeMs = 5_000;

export function noLimiter(why: string): ResourceLimiter {
  return { works: false, why, wrap: async (argv) => ({ argv, env: {} }) };
}

/** Tries a scope with both limits; `systemdRun` is the program's path. */
export async function probeLimiter(systemdRun: string | null, host: ManagerEnvironment): Promise<ResourceLimiter> {
  if (systemdRun === null) return noLimiter('there is no systemd-run here');
  const env: Record<string, string> = {};
  for (const name of ['XDG_RUNTIME_DIR', 'DBUS_SESSION_BUS_ADDRESS'] as const) {
    const value = host[name];
    if (value !== undefined) env[name] = value;
  }
  const scope = (resources: { readonly cpuCount?: number; readonly memoryMB?: number }): [string, ...string[]] => [
    systemdRun,
    ...['--user', '--scope', '--quiet', '--collect'],
    ...(resources.memoryMB === undefined ? [] : ['-p', `MemoryMax=${resources.memoryMB}M`, '-p', 'MemorySwapMax=0']),
    ...(resources.cpuCount === undefined ? [] : ['-p', `CPUQuota=${resources.cpuCount * 100}%`]),
    '--',
  ];
  const [file, ...args] = [...scope({ cpuCount: 1, memoryMB: 128 }), 'true'];
  const said = await new Promise<string | null>((resolve) => {
    execFile(file, args, { env, timeout: probeMs }, (error, _out, err) => {
      resolve(error === null ? null : err.trim().split('\n')[0] || 'it failed');
    });
  });
  if (said !== null) return noLimiter(`the user's service manager makes no scope: ${said}`);
  return {
    works: true,
    why: 'scopes of the user service manager',
    wrap: async (argv, resources) =>
      resources === undefined ? { argv, env: {} } : { argv: [...scope(resources), ...argv], env },
  };
}
