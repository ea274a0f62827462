// The options of every command.

import type { OptionSpec } from './types.ts';

export const globalOptions: readonly OptionSpec[] = [
  { name: 'json', type: 'flag', help: 'one JSON document on stdout; failures as problem documents on stderr' },
  { name: 'url', type: 'string', value: 'URL', help: 'server address (SVC_URL, else client.json)' },
  { name: 'token', type: 'string', value: 'TOKEN', help: 'API token (SVC_TOKEN, else client.json)' },
  { name: 'org', type: 'string', value: 'ORG', help: 'organization (SVC_ORG, else client.json)' },
  { name: 'project', type: 'string', value: 'PROJECT', help: 'project (SVC_PROJECT, else client.json)' },
  {
    name: 'data-dir',
    type: 'string',
    value: 'DIR',
    help: 'where client.json lies (SVC_DATA_DIR)',
    completes: 'directory',
  },
  { name: 'help', short: 'h', type: 'flag', help: 'help for a command' },
  { name: 'version', short: 'V', type: 'flag', help: 'the version' },
];

/** Of every command that destroys: it asks at a terminal only. */
export const YES: OptionSpec = { name: 'yes', short: 'y', type: 'flag', help: 'do not ask' };

export const FROM_FILE: OptionSpec = {
  name: 'from-file',
  type: 'string',
  value: 'FILE',
  help: 'read the value from FILE, or from stdin for -; else it is asked for without an echo',
  completes: 'file',
};
