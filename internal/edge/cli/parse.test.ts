import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandsWithExamples, examplesOf } from './examples.ts';
import { UsageError } from './failure.ts';
import { commandHelp } from './help.ts';
import { parseArgv } from './parse.ts';
import { globalOptions } from './table-global.ts';
import { commands } from './table.ts';

const parse = (line: string) =>
  parseArgv(
    line.split(' ').filter((word) => word !== ''),
    commands,
    globalOptions,
  );

function misuse(line: string): UsageError {
  try {
    parse(line);
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error));
    return error;
  }
  assert.fail(`${line} was accepted`);
}

test('arguments, values and repeated options are read wherever they stand', () => {
  const parsed = parse(
    '--json repo add --branch=main demo --context a=b --url https://x/y.git --context c=d=e --suspend',
  );
  assert.deepEqual(parsed.command?.words, ['repo', 'add']);
  assert.deepEqual(parsed.args, ['demo']);
  assert.equal(parsed.strings.get('branch'), 'main');
  assert.deepEqual(parsed.lists.get('context'), ['a=b', 'c=d=e']);
  assert.equal(parsed.flags.get('suspend'), true);
  assert.ok(parsed.globals.has('json'));
});

test('an option of a command wins over the one of every command', () => {
  const parsed = parse('--url http://server repo add demo --url https://x/y.git');
  assert.equal(parsed.globals.get('url'), 'http://server');
  assert.equal(parsed.strings.get('url'), 'https://x/y.git');
  const secret = parse('secret set NAME --org --from-file -');
  assert.equal(secret.flags.get('org'), true);
  assert.equal(secret.strings.get('from-file'), '-');
  assert.equal(parse('secret list --org=acme').strings.get('org'), 'acme');
  assert.equal(parse('agent list --org acme').globals.get('org'), 'acme');
});

test('after -- everything is an argument', () => {
  assert.deepEqual(parse('session send ID -- --hello').args, ['ID', '--hello']);
});

test('misuse says what is wrong and the nearest word', () => {
  const cases: readonly [line: string, message: RegExp, hint: RegExp][] = [
    ['repo lst', /unknown command "repo lst"/, /svc repo list/],
    ['rpo list', /unknown command "rpo"/, /svc repo/],
    ['frobnicate', /unknown command/, /svc --help/],
    ['repo list --jsn', /unknown option --jsn/, /--json/],
    ['repo add', /NAME is missing/, /usage: svc repo add NAME/],
    ['repo list extra', /unexpected argument "extra"/, /usage/],
    ['repo add demo --branch', /--branch needs a value/, /--branch=B/],
    ['repo add demo --branch --suspend', /--branch needs a value/, /--branch=B/],
    ['completion powershell', /SHELL is one of bash, zsh, fish/, /./],
    ['repo add demo --adopt=maybe', /true or false/, /^$/],
  ];
  for (const [line, message, hint] of cases) {
    const error = misuse(line);
    assert.match(error.message, message, line);
    assert.match(error.hint ?? '', hint, line);
  }
});

test('with --help nothing is required', () => {
  assert.deepEqual(parse('repo add --help').command?.words, ['repo', 'add']);
  assert.deepEqual(parse('repo -h').words, ['repo']);
});

test('no command is named twice, and each can be loaded', async () => {
  const names = commands.map((command) => command.words.join(' '));
  assert.equal(new Set(names).size, names.length);
  for (const command of commands) assert.equal(typeof (await command.load()), 'function', command.words.join(' '));
});

test('every example of the help is read as the command that it stands under', () => {
  const words = commands.map((command) => command.words.join(' '));
  for (const name of commandsWithExamples()) {
    assert.ok(words.includes(name), name);
    for (const line of examplesOf(name.split(' '))) {
      // As a shell would split it, without what it sends elsewhere.
      const typed = [...line.replace(/ > \S+$/, '').matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
        ([, double, single, plain]) => double ?? single ?? plain ?? '',
      );
      assert.equal(typed.shift(), 'svc', line);
      assert.equal(parseArgv(typed, commands, globalOptions).command?.words.join(' '), name, line);
    }
  }
});

test('help names every value that an option takes, and how programs are set apart', () => {
  const plain = (_: string, text: string): string => text;
  for (const command of commands) {
    const text = commandHelp(command, globalOptions, plain);
    for (const choice of command.options.flatMap(({ choices = [] }) => choices))
      assert.ok(text.includes(choice), choice);
  }
  const exec = commands.find(({ words }) => words.join(' ') === 'session exec');
  assert.ok(exec !== undefined);
  assert.match(commandHelp(exec, globalOptions, plain), /svc session exec ID -- ARGV…/);
});
