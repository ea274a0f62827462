// The sandbox that isolates nothing: programs run as the daemon's user and see its machine. It keeps a session's files
// apart, gives it only its own environment, and ends all that a session started; it says that it does no more.

import { dirname } from 'node:path/posix';
import type { Kind } from './local.ts';

/** Settings of the daemon's own environment that its sandboxes need. */
export interface HostEnvironment {
  readonly PATH?: string | undefined;
  readonly HOME?: string | undefined;
}

const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export function processKind(host: HostEnvironment): Kind {
  const path = `${host.PATH ?? defaultPath}:${dirname(process.execPath)}`;
  return {
    name: 'process',
    capabilities: {
      isolation: 'none',
      injectionEdge: false,
      snapshot: true,
      resources: false,
      networkFence: false,
      images: false,
      commit: false,
      warm: false,
      survivesRestart: false,
    },
    dirs: (files) => ({ home: files.home, work: files.work, tmp: files.tmp }),
    diesWithParent: false,
    bindsMounts: false,
    notEnforced: (spec) => [
      'isolation',
      ...(spec.fenced === true ? (['network'] as const) : []),
      ...(spec.resources === undefined ? [] : (['resources'] as const)),
    ],
    launch: (_record, _files, { argv: [file = '', ...args], env, cwd }) => ({
      file,
      args,
      cwd,
      env: { PATH: path, ...env },
    }),
  };
}
