// The part of the command table about whom a project tells of what happens in it.

import { conditionsList } from '../../domain/notification.ts';
import { dryRun, fromFile, reason, yes } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const nameArg: ArgSpec = { name: 'NAME', help: 'its name' };
const notify = async (): Promise<typeof import('./command-notify.ts')> => import('./command-notify.ts');
const condition: OptionSpec = {
  name: 'on',
  type: 'list',
  value: 'CONDITION',
  help: `what it is told of; every condition when absent: ${conditionsList.join(', ')}`,
};
const receiverSettings: readonly OptionSpec[] = [
  { name: 'connection', type: 'string', value: 'NAME', help: 'chat: the connection' },
  { name: 'channel', type: 'string', value: 'ID', help: 'chat: the channel' },
  { name: 'url', type: 'string', value: 'URL', help: 'webhook: where it is sent' },
  { ...fromFile, help: 'webhook: what it is signed with, from FILE, or stdin for -' },
  condition,
];
export const notifyCommands: readonly CommandSpec[] = [
  {
    words: ['notify', 'list'],
    summary: 'whom the project tells of what happens in it',
    args: [],
    options: [],
    load: async () => (await notify()).notifyList,
  },
  {
    words: ['notify', 'add'],
    summary: 'tell a chat channel or a signed webhook of what happens',
    args: [{ name: 'KIND', help: 'chat or webhook', choices: ['chat', 'webhook'] }, nameArg],
    options: receiverSettings,
    load: async () => (await notify()).notifyAdd,
  },
  {
    words: ['notify', 'edit'],
    summary: 'change a receiver; what is not given stays',
    args: [nameArg],
    options: [
      ...receiverSettings,
      { name: 'suspend', type: 'flag', help: 'tell it nothing for now' },
      { name: 'resume', type: 'flag', help: 'tell it again' },
    ],
    load: async () => (await notify()).notifyEdit,
  },
  {
    words: ['notify', 'remove'],
    summary: 'tell a receiver nothing any more',
    args: [nameArg],
    options: [yes, reason, dryRun],
    load: async () => (await notify()).notifyRemove,
  },
  {
    words: ['notify', 'test'],
    summary: 'send a test, and say whether the receiver has taken it',
    args: [nameArg],
    options: [],
    load: async () => (await notify()).notifyTest,
  },
  {
    words: ['notify', 'log'],
    summary: 'what people were told, newest first',
    args: [],
    options: [],
    load: async () => (await notify()).notifyLog,
  },
];
