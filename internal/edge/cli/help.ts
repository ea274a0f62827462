// Help from the command table: for everything, for a group and for one command.

import { examplesOf } from './examples.ts';
import { usageOf } from './parse.ts';
import type { Paint } from './text.ts';
import type { CommandSpec, OptionSpec } from './types.ts';

/** All commands, one line each, grouped by first word. */
export function overview(commands: readonly CommandSpec[], globals: readonly OptionSpec[], paint: Paint): string {
  const width = Math.max(...commands.map((command) => command.words.join(' ').length));
  const lines = [
    'svc: agents from git. Compile, apply and watch what runs.',
    '',
    paint('bold', 'usage'),
    '  svc COMMAND [arguments] [options]',
    '  svc COMMAND --help',
    '',
    paint('bold', 'commands'),
  ];
  // Commands of one word stand together, a group of several by itself.
  let wasGroup = false;
  for (const group of Map.groupBy(commands, ({ words }) => words[0] ?? '').values()) {
    const isGroup = group.some(({ words }) => words.length > 1);
    if (wasGroup || (isGroup && lines.length > 7)) lines.push('');
    wasGroup = isGroup;
    for (const command of group) lines.push(`  ${command.words.join(' ').padEnd(width)}  ${command.summary}`);
  }
  return [...lines, '', paint('bold', 'options everywhere'), ...optionLines(globals), '', ...exits].join('\n');
}

const exits = ['exit status: 0 done, 1 refused or failed (the reason is on stderr), 2 misused'];

/** The commands of a group, such as `repo`. */
export function groupHelp(words: readonly string[], commands: readonly CommandSpec[], paint: Paint): string {
  const inside = commands.filter((command) => words.every((word, index) => command.words[index] === word));
  const width = Math.max(...inside.map((command) => usageOf(command).length));
  return [
    paint('bold', `svc ${words.join(' ')}`),
    ...inside.map((command) => `  ${usageOf(command).padEnd(width)}  ${command.summary}`),
  ].join('\n');
}

export function commandHelp(command: CommandSpec, globals: readonly OptionSpec[], paint: Paint): string {
  const lines = [command.summary, '', paint('bold', 'usage'), `  ${usageOf(command)}`];
  if (command.args.length > 0) {
    const width = Math.max(...command.args.map((arg) => arg.name.length));
    lines.push('', paint('bold', 'arguments'));
    for (const arg of command.args) lines.push(`  ${arg.name.padEnd(width)}  ${arg.help}`);
  }
  if (command.options.length > 0) lines.push('', paint('bold', 'options'), ...optionLines(command.options));
  const own = new Set(command.options.map((option) => option.name));
  const rest = globals.filter((option) => !own.has(option.name));
  lines.push('', paint('bold', 'options everywhere'), ...optionLines(rest));
  if (command.notes !== undefined) lines.push('', ...command.notes);
  const examples = examplesOf(command.words);
  if (examples.length > 0) lines.push('', paint('bold', 'for example'), ...examples.map((line) => `  ${line}`));
  return lines.join('\n');
}

function optionLines(options: readonly OptionSpec[]): string[] {
  const left = options.map((option) => {
    const name = option.short === undefined ? `--${option.name}` : `-${option.short}, --${option.name}`;
    if (option.type === 'bool') return `${name}=false`;
    if (option.type === 'flag') return name;
    return `${name} ${option.value ?? 'VALUE'}${option.type === 'list' ? '…' : ''}`;
  });
  const width = Math.max(...left.map((text) => text.length));
  return options.map((option, index) => `  ${(left[index] ?? '').padEnd(width)}  ${helpOf(option)}`);
}

/** What an option is for, with the values that it takes where its text does not say them. */
export function helpOf({ help, value, choices = [] }: OptionSpec): string {
  const said = `${help} ${value ?? ''}`;
  return choices.every((choice) => said.includes(choice)) ? help : `${help}: ${choices.join(', ')}`;
}
