// The sandbox of an operator's own program, such as one that starts a container: a list of arguments in which
// placeholders are filled, followed by the program to run. What it isolates is the operator's word. A session's variables
// reach the operator's program under names of ours, so that none of them can steer it, and get their own names inside.

import { execFile } from 'node:child_process';
import { placeholder, type SandboxCommand, templateFault } from '../../base/config/sandbox-command.ts';
import { Fault } from '../../domain/fault.ts';
import { declaredHome, declaredWork, type SandboxFiles } from './layout.ts';
import type { Kind } from './local.ts';
import type { HostEnvironment } from './process.ts';

export type { SandboxCommand } from '../../base/config/sandbox-command.ts';

const prefix = 'SVC_ENV_';
const removeMs = 60_000;

/**
 * `find` gives the full path of a program, or null. Throws Fault `unprocessable` where a template cannot be used, or a
 * program is missing.
 */
export async function commandKind(
  command: SandboxCommand,
  host: HostEnvironment,
  find: (name: string) => Promise<string | null>,
): Promise<Kind> {
  const fault = templateFault(command);
  if (fault !== undefined)
    throw new Fault('unprocessable', 'sandbox-command', `${fault.key} cannot be used: ${fault.what}`);
  const run = await resolved('run', command.run, find);
  const remove = command.remove === undefined ? undefined : await resolved('remove', command.remove, find);
  const outer = { PATH: host.PATH ?? '', ...(host.HOME !== undefined && { HOME: host.HOME }) };
  return {
    name: 'command',
    capabilities: {
      isolation: 'external',
      injectionEdge: false,
      snapshot: true,
      resources: false,
      networkFence: false,
      images: false,
      commit: false,
      warm: false,
      survivesRestart: false,
    },
    dirs: () => ({ home: declaredHome, work: declaredWork, tmp: '/tmp' }),
    diesWithParent: false,
    bindsMounts: false,
    notEnforced: (spec) => [
      ...(spec.fenced === true ? (['network'] as const) : []),
      ...(spec.resources === undefined ? [] : (['resources'] as const)),
    ],
    launch: (record, files, { argv, env, cwd }) => {
      const names = Object.keys(env);
      const args = run.args.flatMap((arg) => {
        const filled = fill(arg, { ...values(record.spec.id, files), cwd });
        if (!filled.includes('{env-names}')) return [filled];
        return names.map((name) => filled.replaceAll('{env-names}', `${prefix}${name}`));
      });
      // Names are checked to be names: the script holds nothing else that is not ours.
      const exported = names.map((name) => `export ${name}="$${prefix}${name}"; unset ${prefix}${name};`).join(' ');
      const handed = Object.fromEntries(names.map((name) => [`${prefix}${name}`, env[name] ?? '']));
      return {
        file: run.program,
        args: [...args, '/bin/sh', '-c', `${exported} exec "$@"`, 'sh', ...argv],
        cwd: '/',
        env: { ...handed, ...outer },
      };
    },
    ...(remove !== undefined && {
      removed: async (id, files) => {
        const args = remove.args.map((arg) => fill(arg, values(id, files)));
        const options = { env: outer, cwd: '/', timeout: removeMs, killSignal: 'SIGKILL' as const };
        await new Promise<void>((resolve, reject) => {
          execFile(remove.program, args, options, (error) => {
            const said = `sessions.command.remove failed for the sandbox ${id} (${error?.code ?? error?.signal ?? ''})`;
            if (error === null) resolve();
            else reject(new Fault('unavailable', 'sandbox-command', said));
          });
        });
      },
    }),
  };
}

async function resolved(which: string, template: readonly string[], find: (name: string) => Promise<string | null>) {
  const [name = '', ...args] = template;
  const program = name.startsWith('/') ? name : await find(name);
  if (program !== null) return { program, args };
  throw new Fault(
    'unprocessable',
    'sandbox-command',
    `sessions.command.${which} cannot be used: ${name} is not in PATH`,
  );
}

const values = (id: string, files: SandboxFiles): Readonly<Record<string, string>> => ({
  id,
  home: files.home,
  work: files.work,
  tmp: files.tmp,
  run: files.run,
});

function fill(arg: string, known: Readonly<Record<string, string>>): string {
  return arg.replaceAll(placeholder, (whole, name: string) => known[name] ?? whole);
}
