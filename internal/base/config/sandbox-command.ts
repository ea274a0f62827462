// The templates of an operator's own program for sandboxes, `sessions.command`: what may stand in them and what must. In
// `run`, `{id}`, `{home}` and `{work}` must be: the sandbox's name, and the directories of the host that it has to show at
// /home/user and /workspace; `{tmp}` (for /tmp), `{run}` (sockets of channels) and `{cwd}` may be. An argument with
// `{env-names}` is repeated for the name of every variable that has to be handed in; the values are in the program's
// environment. `remove` needs `{id}`. Inside there has to be `/bin/sh`.

export interface SandboxCommand {
  /** The program and its arguments; the session's program and its arguments are put after them. */
  readonly run: readonly string[];
  /** Ends what `run` may have left of a sandbox, and ends with 0 also where there is nothing of it. */
  readonly remove?: readonly string[] | undefined;
}

export const placeholder = /\{([^{}]*)\}/g;

/** Why a template cannot be used, with its key; undefined where both can. */
export function templateFault({
  run,
  remove,
}: SandboxCommand): { readonly key: string; readonly what: string } | undefined {
  const ofRun = faultOf(
    run,
    ['id', 'home', 'work', 'env-names'],
    ['id', 'home', 'work', 'tmp', 'run', 'cwd', 'env-names'],
  );
  if (ofRun !== undefined) return { key: 'sessions.command.run', what: ofRun };
  const ofRemove = remove && faultOf(remove, ['id'], ['id', 'home', 'work', 'tmp', 'run']);
  return ofRemove === undefined ? undefined : { key: 'sessions.command.remove', what: ofRemove };
}

function faultOf(
  template: readonly string[],
  required: readonly string[],
  known: readonly string[],
): string | undefined {
  const [program, ...args] = template;
  if (program === undefined || program === '') return 'it names no program';
  if (program.includes('{')) return 'its program cannot be a placeholder';
  if (template.some((arg) => arg.includes('\0'))) return 'an argument holds a NUL character';
  const used = args.flatMap((arg) => [...arg.matchAll(placeholder)].map((match) => match[1] ?? ''));
  const unknown = used.find((name) => !known.includes(name));
  if (unknown !== undefined)
    return `{${unknown}} is no placeholder there; known are ${known.map((name) => `{${name}}`).join(', ')}`;
  const missing = required.find((name) => !used.includes(name));
  return missing === undefined ? undefined : `{${missing}} is in none of its arguments`;
}
