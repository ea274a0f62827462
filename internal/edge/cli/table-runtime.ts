// The part of the command table about what came in and what runs: events, sessions, bindings.

import { sessionStates } from '../../domain/session-state.ts';
import { dryRun, reason, selector, watch, yes } from './table-global.ts';
import type { ArgSpec, CommandSpec, OptionSpec } from './types.ts';

const id: ArgSpec = { name: 'ID', help: 'its id, or a piece from the beginning or the end of it' };
const limit: OptionSpec = { name: 'limit', type: 'string', value: 'N', help: 'how many, newest first (default 50)' };
const agent: OptionSpec = { name: 'agent', type: 'string', value: 'A', help: 'of this agent only' };

const event = async (): Promise<typeof import('./command-event.ts')> => import('./command-event.ts');
const eventCommands: readonly CommandSpec[] = [
  {
    words: ['event', 'list'],
    summary: 'events, newest first',
    args: [],
    options: [
      {
        name: 'key',
        type: 'string',
        value: 'K',
        help: 'with this key; webhook.* for all that begin so, !svc.* for the others',
      },
      {
        name: 'status',
        type: 'string',
        value: 'S',
        help: 'what routing made of it',
        choices: ['pending', 'routed', 'unmatched', 'failed'],
      },
      { name: 'severity', type: 'string', value: 'S', help: 'warning or error', choices: ['warning', 'error'] },
      { name: 'endpoint', type: 'string', value: 'E', help: 'that came in by this endpoint only' },
      watch,
      limit,
    ],
    load: async () => (await event()).eventList,
  },
  {
    words: ['event', 'show'],
    summary: 'an event and what came of it',
    args: [id],
    options: [],
    load: async () => (await event()).eventShow,
  },
  {
    words: ['event', 'explain'],
    summary: 'why an event did what it did: every trigger on its key, clause by clause',
    args: [id],
    options: [],
    load: async () => (await event()).eventExplain,
  },
  {
    words: ['event', 'replay'],
    summary: 'record it once more and route it anew',
    args: [id],
    options: [],
    load: async () => (await event()).eventReplay,
  },
];

const session = async (): Promise<typeof import('./command-session.ts')> => import('./command-session.ts');
const sessionCommands: readonly CommandSpec[] = [
  {
    words: ['session', 'list'],
    summary: 'sessions, newest first',
    args: [],
    options: [
      agent,
      selector,
      { name: 'state', type: 'string', value: 'S', help: 'in this state only', choices: sessionStates },
      { name: 'live', type: 'flag', help: 'live ones only' },
      watch,
      limit,
    ],
    load: async () => (await session()).sessionList,
  },
  {
    words: ['session', 'show'],
    summary: 'a session and what it holds',
    args: [id],
    options: [],
    load: async () => (await session()).sessionShow,
  },
  {
    words: ['session', 'logs'],
    summary: 'what it was told, did and answered',
    args: [id],
    options: [
      { name: 'follow', short: 'f', type: 'flag', help: 'stay and print messages and states until it has ended' },
      { name: 'tail', type: 'string', value: 'N', help: 'begin with its newest N messages (default: with its first)' },
    ],
    notes: ['with -f and --json each message and each change of state is one line'],
    load: async () => (await session()).sessionLogs,
  },
  {
    words: ['session', 'calls'],
    summary: 'what a session has called outside, and what became of each call',
    args: [id],
    options: [limit],
    load: async () => (await session()).sessionCalls,
  },
  {
    words: ['session', 'files'],
    summary: 'files that a session left; with PATH, one of them',
    args: [id, { name: 'PATH', help: 'which one, as the list says it', optional: true }],
    options: [
      {
        name: 'output',
        short: 'o',
        type: 'string',
        value: 'FILE',
        help: 'write it there; without PATH, the format of the list',
        completes: 'file',
      },
      limit,
    ],
    load: async () => (await session()).sessionFiles,
  },
  {
    words: ['session', 'diff'],
    summary: 'how its work trees differ from what was mounted',
    args: [id],
    options: [],
    load: async () => (await session()).sessionDiff,
  },
  {
    words: ['session', 'send'],
    summary: 'send it a message, which interrupts what it does',
    args: [id, { name: 'MESSAGE', help: 'the text; - for stdin' }],
    options: [],
    load: async () => (await session()).sessionSend,
  },
  {
    words: ['session', 'allow'],
    summary: 'allow what it asks for',
    args: [id, { name: 'REQUEST', help: 'which request (default: the oldest that is open)', optional: true }],
    options: [{ name: 'always', type: 'flag', help: 'and whatever is like it, as long as the session lives' }],
    load: async () => (await session()).sessionAllow,
  },
  {
    words: ['session', 'reject'],
    summary: 'reject what it asks for',
    args: [id, { name: 'REQUEST', help: 'which request (default: the oldest that is open)', optional: true }],
    options: [],
    load: async () => (await session()).sessionReject,
  },
  {
    words: ['session', 'interrupt'],
    summary: 'stop the turn that runs in it; the session goes on',
    args: [id],
    options: [],
    load: async () => (await session()).sessionInterrupt,
  },
  {
    words: ['session', 'exec'],
    summary: 'run a program in its sandbox, with stdin, and end as it ends',
    args: [id, { name: 'ARGV', help: 'after --, the program and its arguments', many: true }],
    options: [],
    notes: ['exit code 255: the session cannot be reached'],
    load: async () => (await import('./command-exec.ts')).sessionExec,
  },
  {
    words: ['session', 'archive'],
    summary: 'end it',
    args: [id],
    options: [yes, reason, dryRun],
    load: async () => (await session()).sessionArchive,
  },
  {
    words: ['binding', 'list'],
    summary: 'who holds which target',
    args: [],
    options: [agent, selector, { name: 'all', type: 'flag', help: 'released ones too' }, watch, limit],
    load: async () => (await session()).bindingList,
  },
  {
    words: ['binding', 'release'],
    summary: 'release a binding, over its holder’s head',
    args: [id],
    options: [yes, reason, dryRun],
    load: async () => (await session()).bindingRelease,
  },
];

export const runtimeCommands: readonly CommandSpec[] = [...eventCommands, ...sessionCommands];
