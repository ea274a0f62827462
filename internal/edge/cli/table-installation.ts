// The part of the command table about an installation as a whole: what is kept of it, and what an upgrade would do.

import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const directory: ArgSpec = { name: 'DIRECTORY', help: 'of this backup alone', completes: 'directory' };
const settings: readonly OptionSpec[] = [
  { name: 'config', type: 'string', value: 'FILE', help: 'the file of svcd (SVC_CONFIG)', completes: 'file' },
  {
    name: 'database-url',
    type: 'string',
    value: 'URL',
    help: 'the database (SVC_DATABASE_URL; else the embedded one of --data-dir)',
  },
  {
    name: 'master-key-file',
    type: 'string',
    value: 'FILE',
    help: 'the key file (SVC_MASTER_KEY_FILE; else the one of --data-dir)',
    completes: 'file',
  },
];
const here = 'runs where svcd runs, with its settings; no server is asked';

const backup = async (): Promise<typeof import('./command-backup.ts')> => import('./command-backup.ts');
export const installationCommands: readonly CommandSpec[] = [
  {
    words: ['backup'],
    summary: 'save the database as it is at one instant, and the master key; svcd may go on',
    args: [directory],
    options: [...settings, { name: 'without-key', type: 'flag', help: 'leave the master key file out' }],
    notes: [here],
    load: async () => (await backup()).backupCommand,
  },
  {
    words: ['restore'],
    summary: 'put a backup into an empty database or data directory: all of it or nothing',
    args: [directory],
    options: settings,
    notes: [here, 'writes over nothing: a database that is in use, and another key file, are refused'],
    load: async () => (await backup()).restoreCommand,
  },
  {
    words: ['upgrade', 'check'],
    summary: 'what this svc would find and change if its svcd were started here',
    args: [],
    options: settings,
    notes: [here, 'changes nothing; exits 1 where an upgrade would fail'],
    load: async () => (await backup()).upgradeCheck,
  },
];
