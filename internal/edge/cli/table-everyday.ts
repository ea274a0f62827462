// The part of the command table that hands know from elsewhere: get and describe, a first tree, contexts, daemons.

import { selector, watch } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const kind: ArgSpec = { name: 'KIND', help: 'agents, repos, sessions, events, …; or KIND/NAME', values: 'kind' };
const nameArg: ArgSpec = {
  name: 'NAME',
  help: 'one of them, by name, id or a piece of its id',
  optional: true,
  values: 'name-of-kind',
};
const narrowing: readonly OptionSpec[] = [
  selector,
  watch,
  { name: 'agent', type: 'string', value: 'A', help: 'of this agent only', values: 'agent' },
  { name: 'repo', type: 'string', value: 'NAME', help: 'runs of this repository only', values: 'repo' },
  { name: 'key', type: 'string', value: 'K', help: 'events with this key, webhook.* or !svc.*' },
  { name: 'live', type: 'flag', help: 'live sessions only' },
  { name: 'limit', type: 'string', value: 'N', help: 'how many, newest first, where there may be many' },
];
const contextArg: ArgSpec = { name: 'NAME', help: 'its name', values: 'context' };
const context = async (): Promise<typeof import('./command-context.ts')> => import('./command-context.ts');

export const everydayCommands: readonly CommandSpec[] = [
  {
    words: ['init'],
    summary: 'a first agent with a fragment beneath it, in a directory; no server',
    args: [{ name: 'DIR', help: 'where .svc/ is made (default: here)', optional: true, completes: 'directory' }],
    options: [
      { name: 'name', type: 'string', value: 'AGENT', help: 'name of the agent (default: triage)' },
      {
        name: 'harness',
        type: 'string',
        value: 'H',
        help: 'what runs it (default: harness-a)',
        choices: ['harness-a', 'harness-b'],
      },
      { name: 'event', type: 'string', value: 'KEY', help: 'what wakes it (default: webhook.received)' },
      { name: 'cron', type: 'string', value: 'CRON', help: 'a schedule instead, such as "0 7 * * 1-5"' },
      { name: 'timezone', type: 'string', value: 'ZONE', help: 'of the schedule (default: UTC)' },
      {
        name: 'schema',
        type: 'string',
        value: 'URL',
        help: 'schema for editors (default: the known server’s, else a file that is written)',
      },
      { name: 'force', type: 'flag', help: 'write over files that are there' },
      { name: 'yes', short: 'y', type: 'flag', help: 'do not ask, take the defaults' },
    ],
    notes: ['it asks at a terminal for what is not given'],
    load: async () => (await import('./command-init.ts')).initCommand,
  },
  {
    words: ['dev'],
    summary: 'run one agent of a tree in a sandbox here, on a daemon that is thrown away; no server',
    args: [
      { name: 'AGENT', help: 'the agent’s name in the tree' },
      { name: 'PATH', help: 'the directory that holds .svc/ (default: here)', optional: true, completes: 'directory' },
    ],
    options: [
      { name: 'message', type: 'list', value: 'TEXT', help: 'tell it this; several one after the other' },
      {
        name: 'event',
        type: 'list',
        value: 'FILE',
        help: 'an event as JSON: { "key": …, "payload": … }, or a payload with --key; - for stdin',
        completes: 'file',
      },
      { name: 'key', type: 'string', value: 'KEY', help: 'the key of events that name none', values: 'event-key' },
      { name: 'replay', type: 'list', value: 'ID', help: 'an event that the server has stored' },
      {
        name: 'secrets',
        type: 'string',
        value: 'FILE',
        help: 'values of secrets, NAME=value a line; - for stdin. Without one a made-up value stands',
        completes: 'file',
      },
      { name: 'keep', type: 'string', value: 'DIR', help: 'keep the daemon’s data here', completes: 'directory' },
      { name: 'timeout', type: 'string', value: '10m', help: 'give up after this (default 10m)' },
      { name: 'context', type: 'list', value: 'K=V', help: 'context variable beneath each document’s own variables' },
      {
        name: 'config',
        type: 'string',
        value: 'FILE',
        help: 'presets, models and template sources as the daemon has them (SVC_CONFIG)',
        completes: 'file',
      },
    ],
    notes: [
      'Tools and mounts that need a connection are left out, and said so.',
      'The message is what its trigger makes of the event; exit 1 where no trigger takes it.',
    ],
    load: async () => (await import('./command-dev.ts')).devCommand,
  },
  {
    words: ['lsp'],
    summary: 'a language server for editors, over stdin and stdout',
    args: [],
    options: [
      {
        name: 'config',
        type: 'string',
        value: 'FILE',
        help: 'presets, models and template sources as the daemon has them (SVC_CONFIG)',
        completes: 'file',
      },
      { name: 'stdio', type: 'flag', help: 'over stdin and stdout, as always' },
    ],
    load: async () => (await import('./command-lsp.ts')).lspCommand,
  },
  {
    words: ['get'],
    summary: 'things of a kind as a table, or one of them',
    args: [kind, nameArg],
    options: narrowing,
    notes: ['svc get agents -o wide · svc get agent triage -o yaml · svc get sessions -l team=web --watch'],
    load: async () => (await import('./command-get.ts')).getCommand,
  },
  {
    words: ['describe'],
    summary: 'all that is known of a thing',
    args: [kind, nameArg],
    options: [],
    load: async () => (await import('./command-get.ts')).describeCommand,
  },
  {
    words: ['context', 'list'],
    summary: 'servers that have a name here, and which is in use',
    args: [],
    options: [],
    load: async () => (await context()).contextList,
  },
  {
    words: ['context', 'use'],
    summary: 'speak to this server from now on',
    args: [contextArg],
    options: [],
    notes: ['SVC_CONTEXT=NAME does it for one command; --url and SVC_URL go before both'],
    load: async () => (await context()).contextUse,
  },
  {
    words: ['context', 'add'],
    summary: 'give a server, an organization and a project a name',
    args: [{ name: 'NAME', help: 'its name' }],
    options: [
      {
        name: 'from-file',
        type: 'string',
        value: 'FILE',
        help: 'read the token from FILE, or from stdin for -; else it is asked for without an echo',
        completes: 'file',
      },
    ],
    notes: ['svc context add prod --url https://svc.example.com --org acme --project web'],
    load: async () => (await context()).contextAdd,
  },
  {
    words: ['context', 'remove'],
    summary: 'forget it, with its token',
    args: [contextArg],
    options: [],
    load: async () => (await context()).contextRemove,
  },
  {
    words: ['daemon', 'list'],
    summary: 'daemons of the installation, what each does and whether it lives',
    args: [],
    options: [watch],
    load: async () => (await import('./command-daemon.ts')).daemonList,
  },
];
