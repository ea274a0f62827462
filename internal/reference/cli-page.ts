// docs/reference/cli.md: every command with its arguments and options.

import { usageOf } from '../edge/cli/parse.ts';
import type { CommandSpec, OptionSpec } from '../edge/cli/types.ts';
import { code, madeFrom, page, table } from './text.ts';

const optionText = ({ name, short, type, value }: OptionSpec): string => {
  const long = short === undefined ? `--${name}` : `-${short}, --${name}`;
  if (type === 'flag') return long;
  return type === 'bool' ? `${long}=false` : `${long} ${value ?? 'VALUE'}${type === 'list' ? '…' : ''}`;
};

const optionTable = (options: readonly OptionSpec[]): string =>
  table(
    ['Option', ''],
    options.map((one) => [code(optionText(one)), one.help]),
  );

function commandPart(command: CommandSpec): string[] {
  const { words, summary, args, options, notes } = command;
  return [
    `## ${words.join(' ')}`,
    `${summary}.`,
    `\`\`\`\n${usageOf(command)}\n\`\`\``,
    ...(args.length === 0
      ? []
      : [
          table(
            ['Argument', ''],
            args.map((one) => [code(one.name), one.help]),
          ),
        ]),
    ...(options.length === 0 ? [] : [optionTable(options)]),
    ...(notes === undefined ? [] : [notes.map((note) => `- ${noteText(note)}`).join('\n')]),
  ];
}

export const cliPage = (commands: readonly CommandSpec[], globals: readonly OptionSpec[]): string =>
  page([
    madeFrom('the table of commands'),
    '# The command line',
    '`svc` finds its server by `--url` and `--token`, then `SVC_URL` and `SVC_TOKEN`, then `client.json` in the data directory. With `--json` one JSON document goes to stdout and nothing else. It exits with 0 when done, 1 when refused or failed, with the reason on stderr, and 2 when misused.',
    '## Options of every command',
    optionTable(globals),
    ...commands.flatMap(commandPart),
  ]);

/** Lines to type, or to write, stand as code; several of them stand with points between. */
const noteText = (note: string): string =>
  /^(?:svc |#)/.test(note.trim())
    ? note
        .trim()
        .split(' · ')
        .map((line) => `\`${line}\``)
        .join(' · ')
    : note;
