// `svc completion bash|zsh|fish`: scripts made from the command table. They hold the words; names of
// things are asked of `svc __names` when one is wanted.

import { namesOfArg, namesOfOption } from './completing.ts';
import { globalOptions } from './table-global.ts';
import { commands } from './table.ts';
import type { ArgSpec, CommandSpec, Handler, OptionSpec, ValueKind } from './types.ts';

export const completionCommand: Handler = async (call) => {
  const shell = call.arg('SHELL');
  const script = completionScript(shell as 'bash' | 'zsh' | 'fish');
  call.screen.emit({ shell, script }, () => script);
  return 0;
};

export function completionScript(shell: 'bash' | 'zsh' | 'fish'): string {
  if (shell === 'bash') return bash();
  return shell === 'zsh' ? zsh() : fish();
}

/** First words, and the second words of each group. */
function groups(): Map<string, CommandSpec[]> {
  const found = new Map<string, CommandSpec[]>();
  for (const command of commands) {
    const first = command.words[0] ?? '';
    found.set(first, [...(found.get(first) ?? []), command]);
  }
  return found;
}

const optionNames = (command: CommandSpec): string[] => [
  ...new Set([...command.options, ...globalOptions].map((option) => `--${option.name}`)),
];
const takesValue = (option: OptionSpec): boolean => option.type === 'string' || option.type === 'list';

function bash(): string {
  const cases: string[] = [];
  for (const [first, inside] of groups()) {
    const single = inside.length === 1 && inside[0]?.words.length === 1 ? inside[0] : undefined;
    if (single !== undefined) cases.push(bashCase(single, first));
    else {
      for (const command of inside) cases.push(bashCase(command, command.words.join(' ')));
      const words = inside.map((command) => command.words[1]).join(' ');
      cases.push(`    ${first}) words='${words} --help' ;;`);
    }
  }
  const files = [...valueOptions('file'), ...valueOptions('directory')].map((name) => `--${name}`);
  return `# bash completion for svc
_svc() {
  local cur prev words='' paths='' names='' command='' before='' token skip=''
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  case $prev in
    ${[...new Set(files)].join('|')}) COMPREPLY=($(compgen -f -- "$cur")); return ;;
  esac
  # Readline cuts words at = and :, values may begin behind them.
  [ "$prev" = = ] && prev=\${COMP_WORDS[COMP_CWORD-2]}
  [ "$cur" = = ] && { prev=\${COMP_WORDS[COMP_CWORD-1]}; cur=''; }
  for token in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    # A value may be cut off behind the = of its option.
    if [ "$token" = = ]; then skip=1; continue; fi
    if [ -n "$skip" ]; then skip=''; continue; fi
    case $token in
      ${valued().join('|')}) skip=1 ;;
      -*) ;;
      *) case $command in
           *' '*) ;;
           *) command="\${command:+$command }$token" ;;
         esac ;;
    esac
  done
  before=\${COMP_WORDS[COMP_CWORD-1]}
  case "$command $prev" in
${bashValues().join('\n')}
  esac
  if [ -n "$words$names" ]; then
    [ -n "$names" ] && words="$words $(svc __names $names 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    return
  fi
  case $command in
${cases.join('\n')}
    '') words='${[...groups().keys()].join(' ')} --help --version' ;;
    *) ;;
  esac
  if [ -z "$words" ]; then
    case \${command%% *} in
${[...groups()]
  .filter(([, inside]) => inside.length === 1 && inside[0]?.words.length === 1)
  .map(([first, inside]) => bashCase(inside[0] as CommandSpec, first).replace(/^/gm, '  '))
  .join('\n')}
      *) ;;
    esac
  fi
  if [ -n "$names" ] && [ "\${cur#-}" = "$cur" ]; then
    words=$(svc __names $names "$before" 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [ -n "$paths" ]; then COMPREPLY+=($(compgen -f -- "$cur")); fi
}
complete -o filenames -F _svc svc
`;
}

function bashCase(command: CommandSpec, pattern: string): string {
  const choices = command.args.flatMap((arg) => arg.choices ?? []);
  const paths = command.args.some((arg) => arg.completes !== undefined) ? ' paths=1' : '';
  const quoted = pattern.includes(' ') ? `'${pattern}'` : pattern;
  const kind = command.args.map((arg, index) => namesOfArg(command, arg, index)).find((one) => one !== undefined);
  // Of `get KIND NAME`, the word before says whether the kind is there already.
  const first =
    command.args[0]?.values === 'kind' ? '$([ "$before" = "$command" ] && echo kind || echo name-of-kind)' : kind;
  const names = first === undefined ? '' : ` names="${first}"`;
  return `    ${quoted}) words='${[...choices, ...optionNames(command)].join(' ')}'${paths}${names} ;;`;
}

const spelt = ({ name, short }: OptionSpec): string[] => [`--${name}`, ...(short === undefined ? [] : [`-${short}`])];

/** Options behind which a value stands, as they are typed. */
const valued = (): string[] => [
  ...new Set([...commands.flatMap((command) => command.options), ...globalOptions].filter(takesValue).flatMap(spelt)),
];

/** A line for each option of each command whose value is one of some words, or a name. */
function bashValues(): string[] {
  const line = (pattern: string, option: OptionSpec, command?: CommandSpec): string[] => {
    const kind = namesOfOption(command, option);
    if (option.choices !== undefined) return [`    ${pattern}) words='${option.choices.join(' ')}' ;;`];
    return kind === undefined ? [] : [`    ${pattern}) names=${kind} ;;`];
  };
  return [
    ...commands.flatMap((command) =>
      command.options.filter(takesValue).flatMap((option) => {
        const patterns = spelt(option).map((name) => `'${command.words.join(' ')} ${name}'`);
        return line(patterns.join('|'), option, command);
      }),
    ),
    ...globalOptions.filter(takesValue).flatMap((option) =>
      line(
        spelt(option)
          .map((name) => `*' ${name}'`)
          .join('|'),
        option,
      ),
    ),
  ];
}

const valueOptions = (kind: 'file' | 'directory'): string[] =>
  [...commands.flatMap((command) => command.options), ...globalOptions]
    .filter((option) => option.completes === kind)
    .map((option) => option.name);

// Inside single quotes, and with the characters that _arguments reads escaped.
const zshText = (text: string): string => text.replaceAll("'", "'\\''").replace(/[[\]:]/g, '\\$&');

function zsh(): string {
  const functions: string[] = [];
  const firsts: string[] = [];
  const cases: string[] = [];
  for (const [first, inside] of groups()) {
    const single = inside.length === 1 && inside[0]?.words.length === 1 ? inside[0] : undefined;
    firsts.push(`    '${first}:${zshText(single?.summary ?? inside.map((command) => command.words[1]).join(', '))}'`);
    cases.push(`    ${first}) _svc_${first} ;;`);
    if (single !== undefined) functions.push(`_svc_${first}() {\n${zshArguments(single)}\n}`);
    else functions.push(zshGroup(first, inside));
  }
  return `#compdef svc
# zsh completion for svc
_svc_names() {
  local -a names
  names=(\${(f)"$(svc __names $1 $words[CURRENT-1] 2>/dev/null)"})
  compadd -a names
}
${functions.join('\n')}
_svc() {
  local -a commands
  commands=(
${firsts.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local first=$words[2]
  shift words
  (( CURRENT-- ))
  case $first in
${cases.join('\n')}
  esac
}
if [ "$funcstack[1]" = _svc ]; then
  _svc "$@"
else
  compdef _svc svc
fi
`;
}

function zshGroup(first: string, inside: readonly CommandSpec[]): string {
  const list = inside.map((command) => `    '${command.words[1]}:${zshText(command.summary)}'`).join('\n');
  const cases = inside.map((command) => `    ${command.words[1]})\n${zshArguments(command)} ;;`).join('\n');
  return `_svc_${first}() {
  local -a commands
  commands=(
${list}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local second=$words[2]
  shift words
  (( CURRENT-- ))
  case $second in
${cases}
  esac
}`;
}

function zshArguments(command: CommandSpec): string {
  const own = new Set(command.options.map((option) => option.name));
  const options = [...command.options, ...globalOptions.filter((option) => !own.has(option.name))];
  const specs = options.map((option) => zshOption(option, command));
  const args = command.args.map(
    (arg, index) => `'${index + 1}:${arg.name}:${zshAction(arg, namesOfArg(command, arg, index))}'`,
  );
  return `    _arguments ${[...specs, ...args].join(' ')}`;
}

function zshOption(option: OptionSpec, command: CommandSpec): string {
  const help = `[${zshText(option.help)}]`;
  if (option.type === 'bool') return `'--${option.name}=-${help}::value:(true false)'`;
  const value = takesValue(option)
    ? `:${option.value ?? 'value'}:${zshAction(option, namesOfOption(command, option))}`.replaceAll('=V:', '\\=V:')
    : '';
  const names = spelt(option);
  // Either of its names, and after one not the other, but where both may come again.
  const before = option.type === 'list' ? '*' : `(${names.join(' ')})`;
  if (names.length > 1) return `'${before}'{${names.join(',')}}'${help}${value}'`;
  return `'${option.type === 'list' ? '*' : ''}--${option.name}${help}${value}'`;
}

function zshAction(spec: ArgSpec | OptionSpec, names: ValueKind | undefined): string {
  if (names !== undefined) return ` _svc_names ${names}`;
  if (spec.choices !== undefined) return `(${spec.choices.join(' ')})`;
  if (spec.completes === 'directory') return '_files -/';
  return spec.completes === 'file' ? '_files' : '';
}

const fishText = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll("'", "\\'");

function fish(): string {
  const lines = ['# fish completion for svc', 'complete -c svc -f', ...fishCounter()];
  for (const option of globalOptions) lines.push(fishOption(option, ''));
  const firsts = [...groups().keys()];
  for (const [first, inside] of groups()) {
    const single = inside.length === 1 && inside[0]?.words.length === 1 ? inside[0] : undefined;
    const about = single?.summary ?? inside.map((command) => command.words[1]).join(', ');
    lines.push(`complete -c svc -n '__fish_use_subcommand' -a '${first}' -d '${fishText(about)}'`);
    if (single !== undefined) {
      lines.push(...fishCommand(single, `__fish_seen_subcommand_from ${first}`));
      continue;
    }
    const seconds = inside.map((command) => command.words[1]).join(' ');
    for (const command of inside) {
      const second = command.words[1] ?? '';
      const before = `__fish_seen_subcommand_from ${first}; and not __fish_seen_subcommand_from ${seconds}`;
      lines.push(`complete -c svc -n '${before}' -a '${second}' -d '${fishText(command.summary)}'`);
      lines.push(
        ...fishCommand(command, `__fish_seen_subcommand_from ${first}; and __fish_seen_subcommand_from ${second}`),
      );
    }
  }
  if (firsts.length === 0) throw new Error('the command table is empty');
  return `${lines.join('\n')}\n`;
}

/** `__svc_args N`: there are so many words before the one that is typed, options and their values not counted; `N-`: or more. */
function fishCounter(): string[] {
  return [
    'function __svc_args',
    '  set -l count 0',
    '  set -l skip 0',
    '  for word in (commandline -opc)[2..-1]',
    '    if test $skip = 1',
    '      set skip 0',
    `    else if contains -- $word ${valued().join(' ')}`,
    '      set skip 1',
    "    else if not string match -q -- '-*' $word",
    '      set count (math $count + 1)',
    '    end',
    '  end',
    "  if string match -q -- '*-' $argv[1]",
    "    test $count -ge (string replace -- - '' $argv[1])",
    '  else',
    '    test $count -eq $argv[1]',
    '  end',
    'end',
  ];
}

function fishCommand(command: CommandSpec, condition: string): string[] {
  const lines = command.options.map((option) => fishOption(option, ` -n '${condition}'`, command));
  for (const [index, arg] of command.args.entries()) {
    const names = namesOfArg(command, arg, index);
    const here = `${condition}; and __svc_args ${command.words.length + index}${arg.many === true ? '-' : ''}`;
    if (names !== undefined)
      lines.push(`complete -c svc -n '${here}' -a '(svc __names ${names} (commandline -opc)[-1] 2>/dev/null)'`);
    if (arg.choices !== undefined) lines.push(`complete -c svc -n '${here}' -a '${arg.choices.join(' ')}'`);
    if (arg.completes !== undefined) lines.push(`complete -c svc -n '${here}' -F`);
  }
  return lines;
}

function fishOption(option: OptionSpec, condition: string, command?: CommandSpec): string {
  const short = option.short === undefined ? '' : ` -s ${option.short}`;
  const names = namesOfOption(command, option);
  const words = option.choices?.join(' ') ?? (names === undefined ? undefined : `(svc __names ${names} 2>/dev/null)`);
  const plain = words === undefined ? ' -x' : ` -x -a '${words}'`;
  const value = takesValue(option) ? (option.completes === undefined ? plain : ' -r -F') : '';
  return `complete -c svc${condition} -l ${option.name}${short}${value} -d '${fishText(option.help)}'`;
}
