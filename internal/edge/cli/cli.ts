// The command line (docs/reference/cli.md): parses arguments against a table of commands kept as data, loads the one
// handler that is asked for, and turns what comes of it into an exit code: 0 done, 1 refused or failed, 2 misused.
// Under --json stdout carries exactly one JSON document (streams: one a line) and failures are problem documents on
// stderr. Never reads the process by itself, never prints a token, holds no business rule: commands that need a
// server are thin clients of the HTTP API, the offline ones call the same compile that the daemon calls.

import { messagesTable } from '../../domain/messages.ts';
import { UsageError, type ProblemDetails, Refusal, refusal } from './failure.ts';
import { createScreen, type Format, isFormat, type Screen } from './screen.ts';
import { cleanDocument } from './text.ts';
import { parseArgv, type Parsed } from './parse.ts';
import { globalOptions } from './table-global.ts';
import type { Call, CommandSpec } from './types.ts';
import type { CliIo } from './io.ts';

export type { CliIo } from './io.ts';

/** Runs one command line (`argv` without the program). Resolves with the exit code; throws only what is a bug. */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  // Asked by a shell at each key, and the quickest things to say: without the table of commands.
  if (argv[0] === '__names') return (await import('./names.ts')).printNames(argv.slice(1), io);
  if (argv.length === 1 && /^(?:--version|-V|version)$/.test(argv[0] ?? '')) {
    const { versionText } = await import('./command-version.ts');
    io.stdout.write(`${await versionText()}\n`);
    return 0;
  }
  let screen = createScreen(io, wantsJson(argv) ? 'json' : 'text');
  try {
    const commands = await commandsFor(argv);
    const parsed = parseArgv(asHelp(argv), commands, globalOptions);
    screen = await screenFor(parsed, io);
    return await dispatch(parsed, commands, io, screen);
  } catch (error) {
    screen.progress('');
    if (error instanceof UsageError) return report(screen, misuseProblem(error), error.hint, 2);
    if (error instanceof Refusal) return await refuse(screen, error);
    throw error;
  }
}

async function screenFor(parsed: Parsed, io: CliIo): Promise<Screen> {
  const { globals, command, args } = parsed;
  const output = globals.get('output') ?? ownOutput(parsed);
  const format = globals.has('json') ? 'json' : ((output ?? 'text') as Format);
  if (format !== 'yaml' && format !== 'name') return createScreen(io, format);
  const { namesOf, yamlOf } = await import('./formats.ts');
  const listed = { kind: command?.words[0] ?? 'svc', about: args[0] };
  return createScreen(io, format, { yaml: yamlOf, names: (value) => namesOf(listed, value) });
}

/** The format that stands in an option of the command's own name: `session files` writes one file there, and lists without. */
function ownOutput({ command, args, strings }: Parsed): string | undefined {
  const output = strings.get('output');
  const isList = command !== undefined && args.length < command.args.length;
  return isList && output !== undefined && isFormat(output) ? output : undefined;
}

/** The table of commands. The offline ones, which have to start fast, need no more than their own part of it. */
async function commandsFor(argv: readonly string[]): Promise<readonly CommandSpec[]> {
  if (argv[0] === 'validate' || argv[0] === 'compile') return (await import('./table-offline.ts')).offlineCommands;
  return (await import('./table.ts')).commands;
}

// `svc help repo add` is `svc repo add --help`.
const asHelp = (argv: readonly string[]): readonly string[] =>
  argv[0] === 'help' ? [...argv.slice(1), '--help'] : argv;

// Known before parsing, because a command line that cannot be parsed is answered in its own manner too.
function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  const before = end === -1 ? argv : argv.slice(0, end);
  return before.some(
    (token, index) =>
      /^(?:--json(?:=true)?|(?:--output=|-o=?)(?:json|yaml))$/.test(token) ||
      (/^(?:--output|-o)$/.test(before[index - 1] ?? '') && /^(?:json|yaml)$/.test(token)),
  );
}

async function dispatch(parsed: Parsed, commands: readonly CommandSpec[], io: CliIo, screen: Screen): Promise<number> {
  const { command, words } = parsed;
  if (parsed.globals.has('version')) {
    const all = await commandsFor([]);
    return dispatch(parseArgv(['version'], all, []), all, io, screen);
  }
  const help = parsed.globals.has('help');
  if (command === undefined || help) {
    const { commandHelp, groupHelp, overview } = await import('./help.ts');
    if (command !== undefined)
      screen.emit(helpJson([command]), () => commandHelp(command, globalOptions, screen.paint));
    else if (words.length === 0) screen.emit(helpJson(commands), () => overview(commands, globalOptions, screen.paint));
    else {
      const inside = commands.filter((each) => words.every((word, index) => each.words[index] === word));
      const shown = groupHelp(words, commands, screen.errPaint);
      if (!help) throw new UsageError(`svc ${words.join(' ')} needs a command`, screen.json ? undefined : shown);
      screen.emit(helpJson(inside), () => groupHelp(words, commands, screen.paint));
    }
    return 0;
  }
  const handler = await command.load();
  const spoken: Call['spoken'] = {};
  try {
    return await handler(makeCall(command, { parsed, io, screen, commands, spoken }));
  } catch (error) {
    if (error instanceof TypeError && spoken.to !== undefined) throw notUnderstood(spoken.to, error);
    throw error instanceof Refusal ? named(error, command, parsed.args) : error;
  }
}

/** Answers are read without being checked first: where a member is missing or another thing, reading it throws. */
const notUnderstood = (url: string, { message }: TypeError): Refusal =>
  refusal(
    'unexpected-answer',
    `${url} answered with something that this command cannot read (${message})`,
    'is an svcd there, and of this version? `svc doctor` looks further',
  );

/** The server says only that something is not there, or not visible: the command line knows what was asked for. */
function named(error: Refusal, { words, args }: CommandSpec, [given]: readonly string[]): Refusal {
  const { problem, hint } = error;
  const isThing = words.length === 2 && /^(?:NAME|ID|SLUG)$/.test(args[0]?.name ?? '');
  if (problem.status !== 404 || problem.detail !== messagesTable.notVisible || !isThing || given === undefined)
    return error;
  return new Refusal({ ...problem, detail: `There is no ${words[0]} ${given}, or it is not visible to you.` }, hint);
}

const helpJson = (list: readonly CommandSpec[]): unknown => ({
  commands: list.map(({ words, summary, args, options }) => ({ command: words.join(' '), summary, args, options })),
});

/** What all commands of one line share. */
interface Line {
  readonly parsed: Parsed;
  readonly io: CliIo;
  readonly screen: Screen;
  readonly commands: readonly CommandSpec[];
  readonly spoken: Call['spoken'];
}

/** A command with what it was given; `only` as in `Call`. */
function makeCall(command: CommandSpec, line: Line, only?: string): Call {
  const { parsed, io, screen, commands, spoken } = line;
  const position = (name: string): number => {
    const index = command.args.findIndex((arg) => arg.name === name);
    if (index === -1) throw new Error(`${command.words.join(' ')} has no argument ${name}`);
    return index;
  };
  return {
    command,
    io,
    screen,
    json: screen.json,
    only,
    spoken,
    arg: (name) => {
      const value = parsed.args[position(name)];
      if (value === undefined) throw new UsageError(`${name} is missing`);
      return value;
    },
    optionalArg: (name) => parsed.args[position(name)],
    manyArgs: (name) => parsed.args.slice(position(name)),
    text: (option) => parsed.strings.get(option),
    global: (option) => parsed.globals.get(option),
    list: (option) => parsed.lists.get(option) ?? [],
    flag: (option) => parsed.flags.get(option) === true,
    bool: (option) => parsed.flags.get(option) !== false,
    run: async (words, args, one) => {
      const other = commands.find((one) => one.words.join(' ') === words);
      if (other === undefined) throw new Error(`there is no command ${words}`);
      const its = await screenFor({ ...parsed, command: other }, io);
      return (await other.load())(makeCall(other, { ...line, parsed: { ...parsed, args }, screen: its }, one));
    },
  };
}

function misuseProblem(error: UsageError): ProblemDetails {
  return { type: 'about:blank', title: 'Misuse', code: 'misuse', detail: error.message };
}

/** Whether failures are documents too. */
const isDocument = (screen: Screen): boolean => screen.json && screen.format !== 'name';

function report(screen: Screen, problem: ProblemDetails, hint: string | undefined, code: number): number {
  if (isDocument(screen))
    screen.note(cleanDocument(JSON.stringify(hint === undefined ? problem : { ...problem, hint })));
  else {
    screen.note(`${screen.errPaint('red', 'svc:')} ${problem.detail ?? problem.title ?? 'failed'}`);
    if (hint !== undefined) screen.note(hint);
  }
  return code;
}

async function refuse(screen: Screen, error: Refusal): Promise<number> {
  if (!isDocument(screen) && error.problem.diagnostics !== undefined && error.problem.diagnostics.length > 0) {
    const { printDiagnostics } = await import('./diagnostics.ts');
    screen.note(printDiagnostics(error.problem.diagnostics, screen.errPaint));
  }
  const { clean } = await import('./text.ts');
  const request = error.problem.requestId === undefined ? '' : ` (request ${error.problem.requestId})`;
  // What the server calls a body is what was typed.
  const said = (error.problem.detail ?? error.problem.title ?? 'failed').replace(/^The body is not as expected\. /, '');
  const detail = clean(`${said}${request}`);
  return report(screen, isDocument(screen) ? error.problem : { ...error.problem, detail }, error.hint, 1);
}
