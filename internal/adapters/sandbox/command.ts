// The sandbox of an operator's own program, such as one that starts a container: a list of arguments in which
// placeholders are filled, followed by the program to run. What it isolates is the operator's word. A session's variables
// reach the operator's program under names of ours, so that none of them can steer it, and get their own names inside.

import { execFile } from 'node:child_process';
import { Fault } from '../../domain/fault.ts';
import { declaredHome, declaredWork, type SandboxFiles } from './layout.ts';
import type { Kind } from './local.ts';
import type { HostEnvironment } from './process.ts';

export interface SandboxCommand {
  /** The program and its arguments; the session's program and its arguments are put after them. */
  readonly run: readonly string[];
  /** Ends what `run` may have left of a sandbox, and ends with 0 also where there is nothing of it. */
  readonly remove?: readonly string[] | undefined;
}

const placeholder = /\{([^{}]*)\}/g;
const placeholderNames = ['id', 'home', 'work', 'tmp', 'run', 'cwd', 'env-names'];
const prefix = 'SVC_ENV_';
const removeMs = 60_000;

/**
 * Checks an operator's templates. In `run`, `{id}`, `{home}` and `{work}` must be: the sandbox's name, and the
 * directories of the host that it has to show at /home/user and /workspace; `{tmp}` (for /tmp), `{run}` (sockets of
 * channels) and `{cwd}` may be. An argument with `{env-names}` is repeated for the name of every variable that has to be
 * handed in; the values are in the program's environment. `remove` needs `{id}`. Inside there has to be `/bin/sh`.
 * Throws Fault `unprocessable` that says what is wrong.
 */
export function checkTemplates({ run, remove }: SandboxCommand): void {
  check('run', run, ['id', 'home', 'work', 'env-names'], placeholderNames);
  if (remove !== undefined) check('remove', remove, ['id'], ['id', 'home', 'work', 'tmp', 'run']);
}

function check(
  which: string,
  template: readonly string[],
  required: readonly string[],
  known: readonly string[],
): void {
  const wrong = (what: string): Fault =>
    new Fault('unprocessable', 'sandbox-command', `sessions.command.${which} cannot be used: ${what}`);
  const [program, ...args] = template;
  if (program === undefined || program === '') throw wrong('it names no program');
  if (program.includes('{')) throw wrong('its program cannot be a placeholder');
  if (template.some((arg) => arg.includes('\0'))) throw wrong('an argument holds a NUL character');
  const used = args.flatMap((arg) => [...arg.matchAll(placeholder)].map((match) => match[1] ?? ''));
  const unknown = used.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw wrong(`{${unknown}} is no placeholder there; known are ${known.map((name) => `{${name}}`).join(', ')}`);
  }
  const missing = required.find((name) => !used.includes(name));
  if (missing !== undefined) throw wrong(`{${missing}} is in none of its arguments`);
}

/** `find` gives the full path of a program, or null. Throws Fault as `checkTemplates`, and where a program is missing. */
export async function commandKind(
  command: SandboxCommand,
  host: HostEnvironment,
  find: (name: string) => Promise<string | null>,
): Promise<Kind> {
  checkTemplates(command);
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
