// Pages of docs/reference that tables make: the command line, the HTTP API, the configuration, the keys and payloads of
// events, the fields of agent documents, the codes of diagnostics. Each is text from the table that the program itself runs
// on, so that a page cannot say anything else; `make reference` writes them, and a test says when one is stale. What a table
// cannot say stands in the pages beside them, written by hand.

import { jsonSchema } from '../../schemas/json-schema.ts';
import { auditActions } from '../domain/audit-actions.ts';
import { diagnosticCodes } from '../domain/codes.ts';
import { eventSources, type EventSource, knownEvents, openEvents, sourceNeeds, targetOf } from '../domain/events.ts';
import { payloadRows } from '../domain/payloads.ts';
import { settings } from '../base/config/config.ts';
import { examplesOf } from '../edge/cli/examples.ts';
import { helpOf } from '../edge/cli/help.ts';
import { usageOf } from '../edge/cli/parse.ts';
import type { CommandSpec, OptionSpec } from '../edge/cli/types.ts';
import { globalOptions } from '../edge/cli/table-global.ts';
import { commands } from '../edge/cli/table.ts';
import { openApi } from '../edge/http/openapi.ts';
import { routes } from '../edge/http/routes.ts';
import { code, madeFrom, page, table } from './text.ts';
import { agentPage } from './agent-page.ts';
import { httpPage, type OpenApiDocument } from './http-page.ts';

/** Text by file name in docs/reference. */
export function referencePages(): { readonly [file: string]: string } {
  return {
    'agent-document.md': agentPage(),
    'audit.md': auditPage(),
    'cli.md': cliPage(commands, globalOptions),
    'configuration.md': configurationPage(jsonSchema('config')),
    'events.md': eventsPage(),
    'http-api.md': httpPage(openApi(routes, { version: '', baseUrl: '' }) as unknown as OpenApiDocument),
    'messages.md': messagesPage(),
  };
}

// docs/reference/audit.md: every action of an entry.

const auditPage = (): string =>
  page([
    madeFrom('the table of actions'),
    '# Audit',
    'An entry of `svc audit list`, `svc audit export` and `GET P/audit` says who did what to what, and is written in the transaction of what it tells: without it nothing happens. `principal.kind` is `user`, `service_account`, `session`, or `system` with the part of the daemon that acted. Values of secrets are in none. `--action` and `?action=` take one of these words; further ones may come, and none changes its meaning.',
    table(
      ['Action', 'What happened'],
      Object.entries(auditActions).map(([action, what]) => [code(action), what]),
    ),
  ]);

// docs/reference/cli.md: every command with its arguments and options.

const optionText = ({ name, short, type, value }: OptionSpec): string => {
  const long = short === undefined ? `--${name}` : `-${short}, --${name}`;
  if (type === 'flag') return long;
  return type === 'bool' ? `${long}=false` : `${long} ${value ?? 'VALUE'}${type === 'list' ? '…' : ''}`;
};

const optionTable = (options: readonly OptionSpec[]): string =>
  table(
    ['Option', ''],
    options.map((one) => [code(optionText(one)), helpOf(one)]),
  );

function commandPart(command: CommandSpec): string[] {
  const { words, summary, args, options, notes } = command;
  const examples = examplesOf(words);
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
    ...(examples.length === 0 ? [] : [`\`\`\`\n${examples.join('\n')}\n\`\`\``]),
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

// docs/reference/configuration.md: the settings of the daemon, and the sections of its file.

interface JsonSchema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: { readonly [name: string]: JsonSchema };
}

const typeOf = ({ type, enum: words }: JsonSchema): string =>
  words === undefined ? (type ?? 'any') : words.map((word) => code(String(word))).join(', ');

function rows(schema: JsonSchema, prefix = ''): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, one]) => [
    [
      code(prefix + name),
      typeOf(one),
      'default' in one ? code(JSON.stringify(one.default)) : '',
      one.description ?? '',
    ],
    ...rows(one, `${prefix}${name}.`),
  ]);
}

export const configurationPage = (schema: JsonSchema): string =>
  page([
    madeFrom('the settings and the schema of the file'),
    '# Configuration',
    'Flags come before the environment, the environment before the file that `SVC_CONFIG` (or `--config`) names, the file before defaults. Relative paths count from the working directory, those in sections of the file from its directory. A setting that cannot be used ends the daemon with exit code 2 and one line that names it. With nothing configured `svcd` is complete: it runs an embedded PostgreSQL below its data directory, makes an organization, a project, an administrator and its token, and writes `client.json` there.',
    '## Settings',
    table(
      ['In the file', 'Environment', 'Flag'],
      settings.map(({ key, env, flag }) => [code(key), code(env), flag === undefined ? '' : code(`--${flag}`)]),
    ),
    '## The file',
    table(['Key', 'Type', 'Default', ''], rows(schema)),
  ]);

// docs/reference/events.md: every key that a source emits, what its events are about, and what apply asks of a trigger on it.

const needs: { readonly [need in (typeof sourceNeeds)[EventSource]]: string } = {
  connection: 'Apply asks for an active connection: named, or the only one.',
  endpoint: 'Apply asks for an `endpoint`, and for `auth` where it is new.',
  nothing: 'Apply asks for nothing more.',
};

function sourcePart(source: EventSource): string[] {
  const listed = [...knownEvents].filter((key) => key.startsWith(`${source}.`));
  const open = openEvents.filter((prefix) => prefix.startsWith(`${source}.`) || prefix === `${source}.`);
  const rows = [...listed, ...open.map((prefix) => `${prefix}<name>`)];
  return [
    `## ${source}`,
    needs[sourceNeeds[source]],
    table(
      ['Key', 'Target'],
      rows.map((key) => [code(key), targetOf(key) ?? 'none']),
    ),
  ];
}

export const eventsPage = (): string =>
  page([
    madeFrom('the tables of events'),
    '# Events',
    'The first word of a key is its source. Keys beyond that are an open set: one that no source emits applies with a warning and never fires. Issues of the error tracker arrive as `svc.errtrack.issue.*`; there is no source of that name. A tick has the key `heartbeat.<agentResourceId>.<ordinal>`, which only its own trigger can match.',
    ...eventSources.flatMap(sourcePart),
    '## Payloads',
    'The paths that `where` and `{{ path }}` read, by the beginning of the key. A path that does not apply is absent; behind `.*` anything may follow. The body of a webhook is its payload as it is.',
    ...payloadRows().flatMap(([prefix, paths]) => [`### ${prefix}`, paths.map(code).join(', ')]),
  ]);

// docs/reference/messages.md: every code of a diagnostic, with the words that its message begins with where they are fixed.

export const messagesPage = (): string =>
  page([
    madeFrom('the table of codes'),
    '# Diagnostics',
    'A diagnostic has a severity, a stable code, a message, and a place: file, line, column and path. Where the second column says something the message begins with it; names may follow.',
    table(
      ['Code', 'The message begins'],
      Object.entries(diagnosticCodes).map(([name, words]) => [code(name), words === null ? '' : String(words)]),
    ),
  ]);
