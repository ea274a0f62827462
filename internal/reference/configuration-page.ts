// docs/reference/configuration.md: the settings of the daemon, and the sections of its file.

import { settings } from '../base/config/config.ts';
import { code, madeFrom, page, table } from './text.ts';

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
    'Flags come before the environment, the environment before the file that `SVC_CONFIG` (or `--config`) names, the file before defaults. A setting that cannot be used ends the daemon with exit code 2 and one line that names it. With nothing configured `svcd` is complete: it runs an embedded PostgreSQL below its data directory, makes an organization, a project, an administrator and its token, and writes `client.json` there.',
    '## Settings',
    table(
      ['In the file', 'Environment', 'Flag'],
      settings.map(({ key, env, flag }) => [code(key), code(env), flag === undefined ? '' : code(`--${flag}`)]),
    ),
    '## The file',
    table(['Key', 'Type', 'Default', ''], rows(schema)),
  ]);
