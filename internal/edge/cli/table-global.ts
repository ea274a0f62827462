// The options of every command.

import type { OptionSpec } from './types.ts';

export const globalOptions: readonly OptionSpec[] = [
  { name: 'json', type: 'flag', help: 'one JSON document on stdout; failures as problem documents on stderr' },
  {
    name: 'output',
    short: 'o',
    type: 'string',
    value: 'FORMAT',
    help: 'json, yaml, name (what it is called, one a line), or wide (a table with nothing cut)',
    choices: ['json', 'yaml', 'wide', 'name'],
  },
  { name: 'url', type: 'string', value: 'URL', help: 'server address (SVC_URL, else client.json)' },
  { name: 'token', type: 'string', value: 'TOKEN', help: 'API token (SVC_TOKEN, else client.json)' },
  { name: 'org', type: 'string', value: 'ORG', help: 'organization (SVC_ORG, else client.json)' },
  { name: 'project', type: 'string', value: 'PROJECT', help: 'project (SVC_PROJECT, else client.json)' },
  {
    name: 'data-dir',
    type: 'string',
    value: 'DIR',
    help: 'where client.json lies (SVC_DATA_DIR, else dataDir of the file that SVC_CONFIG names)',
    completes: 'directory',
  },
  { name: 'help', short: 'h', type: 'flag', help: 'help for a command' },
  { name: 'version', short: 'V', type: 'flag', help: 'the version' },
];

/** Of every command that destroys: it asks at a terminal only. */
export const reason: OptionSpec = {
  name: 'reason',
  type: 'string',
  value: 'TEXT',
  help: 'why; it stands in the audit',
};
export const dryRun: OptionSpec = { name: 'dry-run', type: 'flag', help: 'say what would follow; change nothing' };
export const yes: OptionSpec = { name: 'yes', short: 'y', type: 'flag', help: 'do not ask' };

export const fromFile: OptionSpec = {
  name: 'from-file',
  type: 'string',
  value: 'FILE',
  help: 'read the value from FILE, or from stdin for -; else it is asked for without an echo',
  completes: 'file',
};
/** Of every list. */
export const watch: OptionSpec = {
  name: 'watch',
  short: 'w',
  type: 'flag',
  help: 'stay and print what changes, until Ctrl-C',
};
/** Of every list of what belongs to agents. */
export const selector: OptionSpec = {
  name: 'selector',
  short: 'l',
  type: 'list',
  value: 'LABEL=VALUE',
  help: 'of agents with these labels: a=b, a!=b, a (has it), !a; several by comma',
};
