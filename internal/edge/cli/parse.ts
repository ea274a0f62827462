// argv → a command of the table with its arguments and options. Unknown words are misuse, with the nearest known one.
// `util.parseArgs` takes one table of options for the whole of argv. Here the words of the command stand among the options and
// decide which there are, and of what type: `--org` takes a value, but behind `secret set` it is a flag that may have one.

import { UsageError } from './failure.ts';
import { nearest } from './text.ts';
import type { CommandSpec, OptionSpec, ParsedValues } from './types.ts';

export interface Parsed extends ParsedValues {
  readonly command: CommandSpec | undefined;
  /** The words that named the command or group, also where help was asked for a group. */
  readonly words: readonly string[];
  readonly args: readonly string[];
}

interface Values {
  readonly strings: Map<string, string>;
  readonly lists: Map<string, string[]>;
  readonly flags: Map<string, boolean>;
  readonly globals: Map<string, string>;
}

/**
 * Reads argv against the table. Options may stand anywhere; `--` ends them. Throws `UsageError` on an unknown command or
 * option, a missing or surplus argument or value. With --help nothing is required.
 */
export function parseArgv(
  argv: readonly string[],
  commands: readonly CommandSpec[],
  globals: readonly OptionSpec[],
): Parsed {
  const values: Values = { strings: new Map(), lists: new Map(), flags: new Map(), globals: new Map() };
  const words: string[] = [];
  const args: string[] = [];
  let command: CommandSpec | undefined;
  let index = 0;
  let open = true;
  while (index < argv.length) {
    const token = argv[index] ?? '';
    index++;
    if (open && token === '--') open = false;
    else if (open && token.startsWith('-') && token !== '-')
      index = readOption(argv, index - 1, { command, globals }, values);
    else if (command !== undefined) args.push(token);
    else {
      words.push(token);
      command = commandOf(words, commands);
    }
  }
  if (!values.globals.has('help') && command !== undefined) checkArgs(command, args);
  return { command, words, args, ...values };
}

/** Other words for the last of a command, where it has not that word itself. */
const synonyms: { readonly [word: string]: readonly string[] } = {
  ls: ['list'],
  rm: ['delete', 'remove', 'revoke'],
  delete: ['remove', 'revoke'],
  remove: ['delete', 'revoke'],
  get: ['show'],
  describe: ['show'],
  create: ['add', 'set'],
  add: ['create'],
  update: ['edit'],
};

/** Words that hands know for a command of one word. */
const verbAliases: { readonly [word: string]: string } = { ls: 'get', show: 'describe', list: 'get' };

function commandOf(words: string[], commands: readonly CommandSpec[]): CommandSpec | undefined {
  const first = verbAliases[words[0] ?? ''];
  if (first !== undefined && commands.some((command) => command.words[0] === first)) words[0] = first;
  const named = (all: readonly string[]): readonly CommandSpec[] =>
    commands.filter((command) => all.every((word, index) => command.words[index] === word));
  let matching = named(words);
  const given = words.at(-1) ?? '';
  if (matching.length === 0 && words.length > 1) {
    const [meant] = (synonyms[given] ?? []).filter((word) => named([...words.slice(0, -1), word]).length > 0);
    if (meant !== undefined) {
      words[words.length - 1] = meant;
      matching = named(words);
    }
  }
  if (matching.length === 0) {
    const last = words.length - 1;
    const before = words.slice(0, last);
    const siblings = commands.filter((command) => before.every((word, index) => command.words[index] === word));
    const known = new Set(siblings.map((command) => command.words[last] ?? ''));
    const near = nearest(words[last] ?? '', known);
    throw new UsageError(
      `unknown command "${words.join(' ')}"`,
      near === undefined
        ? `\`svc ${[...before, '--help'].join(' ')}\` lists the commands`
        : `did you mean \`svc ${[...before, ...meantBy(near, words[last] ?? '', siblings, last)].join(' ')}\`?`,
    );
  }
  return matching.find((command) => command.words.length === words.length);
}

/** A group in the plural, such as `agents`, asks for its list. */
function meantBy(near: string, given: string, siblings: readonly CommandSpec[], at: number): string[] {
  const list = siblings.some(({ words }) => words[at] === near && words[at + 1] === 'list' && words.length === at + 2);
  return list && given === `${near}s` ? [near, 'list'] : [near];
}

/** What options there are: those of the command, as far as it is known, and those of every command. */
interface KnownOptions {
  readonly command: CommandSpec | undefined;
  readonly globals: readonly OptionSpec[];
}

/**
 * Reads the option at `at` into `values`, and gives the index behind it and its value. Throws UsageError for one that is not
 * known, and for a value that it does not take.
 */
function readOption(argv: readonly string[], at: number, { command, globals }: KnownOptions, values: Values): number {
  const next = at + 1;
  const [name, inline] = splitOption(argv[at] ?? '');
  // A command's own option wins over a global one of the same name (`secret set --org`).
  const specs = [...(command?.options ?? []), ...globals];
  const found = findOption(name, specs);
  if (found === undefined) throw unknownOption(name, specs, command);
  const { spec, negated } = found;
  const own = !globals.includes(spec);
  if (spec.type === 'flag' || spec.type === 'bool') {
    const on = readBoolean(name, inline, spec) !== negated;
    if (own) values.flags.set(spec.name, on);
    else if (on) values.globals.set(spec.name, 'true');
    // A flag that may name something (`--org=acme`) keeps what it names.
    if (inline !== undefined && spec.value !== undefined) values.strings.set(spec.name, inline);
    return next;
  }
  const value = inline ?? argv[next];
  if (value === undefined || (inline === undefined && value.startsWith('-') && value !== '-')) {
    throw new UsageError(`${name} needs a value`, `write ${name}=${spec.value ?? 'VALUE'}`);
  }
  if (spec.choices !== undefined && !spec.choices.includes(value)) {
    throw new UsageError(`${name} takes ${spec.choices.join(', ')}`);
  }
  if (!own) values.globals.set(spec.name, value);
  else if (spec.type === 'list') values.lists.set(spec.name, [...(values.lists.get(spec.name) ?? []), value]);
  else values.strings.set(spec.name, value);
  return inline === undefined ? next + 1 : next;
}

/** `--name=value`, `-n=value` and `-nvalue`. */
function splitOption(token: string): readonly [name: string, inline: string | undefined] {
  if (/^-[a-zA-Z][^=]/.test(token)) return [token.slice(0, 2), token.slice(2)];
  const equals = token.indexOf('=');
  return equals === -1 ? [token, undefined] : [token.slice(0, equals), token.slice(equals + 1)];
}

function findOption(
  name: string,
  specs: readonly OptionSpec[],
): { readonly spec: OptionSpec; readonly negated: boolean } | undefined {
  for (const spec of specs) {
    if (name === `--${spec.name}` || (spec.short !== undefined && name === `-${spec.short}`)) {
      return { spec, negated: false };
    }
    if (spec.type === 'bool' && name === `--no-${spec.name}`) return { spec, negated: true };
  }
  return undefined;
}

function readBoolean(name: string, inline: string | undefined, spec: OptionSpec): boolean {
  if (inline === undefined || inline === 'true') return true;
  if (inline === 'false') return false;
  if (spec.value !== undefined) return true;
  throw new UsageError(`${name} takes true or false`);
}

function unknownOption(name: string, specs: readonly OptionSpec[], command: CommandSpec | undefined): UsageError {
  const near = nearest(
    name,
    specs.map((spec) => `--${spec.name}`),
  );
  const help = ['svc', ...(command?.words ?? []), '--help'].join(' ');
  const where = command === undefined ? '' : ` for \`svc ${command.words.join(' ')}\``;
  return new UsageError(
    `unknown option ${name}${where}`,
    near === undefined ? `\`${help}\` lists the options` : `did you mean ${near}?`,
  );
}

function checkArgs(command: CommandSpec, args: readonly string[]): void {
  const usage = `usage: ${usageOf(command)}`;
  for (const [index, spec] of command.args.entries()) {
    const value = args[index];
    if (value === undefined) {
      if (spec.optional !== true) {
        const what =
          spec.help === 'its name' && command.words.length > 1 ? `the name of the ${command.words[0]}` : spec.help;
        throw new UsageError(`${spec.name} is missing: ${what}`, usage);
      }
    } else if (value === '' && spec.many !== true) throw new UsageError(`${spec.name} is empty`, usage);
    else if (spec.choices !== undefined && !spec.choices.includes(value)) {
      const near = nearest(value, spec.choices);
      throw new UsageError(
        `${spec.name} is one of ${spec.choices.join(', ')}, not "${value}"`,
        near === undefined ? usage : `did you mean ${near}?`,
      );
    }
  }
  if (args.length > command.args.length && command.args.at(-1)?.many !== true) {
    // What stands there may be the value: it is not said again.
    if (command.options.some((option) => option.name === 'from-file')) {
      throw new UsageError(
        'a value is never an argument',
        'give --from-file FILE, --from-file - for stdin, or type it when asked',
      );
    }
    throw new UsageError(`unexpected argument "${args[command.args.length]}"`, usage);
  }
}

/** `svc repo add NAME [options]`. */
export function usageOf(command: CommandSpec): string {
  const args = command.args.map((arg) => {
    const shown = arg.many === true ? `-- ${arg.name}…` : (arg.choices?.join('|') ?? arg.name);
    return arg.optional === true ? `[${shown}]` : shown;
  });
  return ['svc', ...command.words, ...args, ...(command.options.length > 0 ? ['[options]'] : [])].join(' ');
}
