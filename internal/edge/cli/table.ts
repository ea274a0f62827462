// Every command as data: words, arguments, options, help, and the file that does it, loaded only when asked for.
// Parsing, help and shell completion are made from this table and from nothing else.

import { harnessNames } from '../../domain/spec.ts';
import { accountTable } from './table-account.ts';
import { everydayCommands } from './table-everyday.ts';
import { installationCommands } from './table-installation.ts';
import { offlineCommands } from './table-offline.ts';
import { sandboxCommands } from './table-sandbox.ts';
import { resourceCommands } from './table-resources.ts';
import type { CommandSpec } from './types.ts';

const tools: readonly CommandSpec[] = [
  {
    words: ['harness', 'list'],
    summary: 'what runs each harness on this machine, and what is missing',
    args: [],
    options: [],
    load: async () => (await import('./command-harness.ts')).harnessList,
  },
  {
    words: ['harness', 'install'],
    summary: 'install the public adapter of a harness, at its pinned version, into the data directory',
    args: [{ name: 'HARNESS', help: harnessNames.join(' or '), choices: harnessNames }],
    options: [],
    notes: ['npm fetches about 400 MB for each; the program of harness-a is under its vendor’s own licence'],
    load: async () => (await import('./command-harness.ts')).harnessInstall,
  },
  {
    words: ['overview'],
    summary: 'is anything wrong, what changed last, what runs, what comes',
    args: [],
    options: [],
    load: async () => (await import('./command-overview.ts')).overviewCommand,
  },
  {
    words: ['spend'],
    summary: 'what agents have cost, by agent, day or session',
    args: [],
    options: [
      {
        name: 'by',
        type: 'string',
        value: 'WHAT',
        help: 'agent (default), day, or session: dearest first',
        choices: ['agent', 'day', 'session'],
      },
      { name: 'days', type: 'string', value: 'N', help: 'UTC days back, 1 to 366 (default 30); not by session' },
      { name: 'agent', type: 'string', value: 'NAME', help: 'by session: its sessions alone' },
      { name: 'limit', type: 'string', value: 'N', help: 'by session: how many (default 50)' },
    ],
    load: async () => (await import('./command-spend.ts')).spendCommand,
  },
  {
    words: ['doctor'],
    summary: 'what is wrong with this installation, and what to do',
    args: [],
    options: [{ name: 'retry-jobs', type: 'flag', help: 'give jobs that gave up their attempts back first' }],
    load: async () => (await import('./command-doctor.ts')).doctorCommand,
  },
  {
    words: ['completion'],
    summary: 'a completion script for a shell',
    args: [{ name: 'SHELL', help: 'bash, zsh or fish', choices: ['bash', 'zsh', 'fish'] }],
    options: [],
    notes: [
      'bash: svc completion bash > ~/.local/share/bash-completion/completions/svc',
      'zsh:  svc completion zsh > "${fpath[1]}/_svc"',
      'fish: svc completion fish > ~/.config/fish/completions/svc.fish',
    ],
    load: async () => (await import('./command-completion.ts')).completionCommand,
  },
  {
    words: ['version'],
    summary: 'the version of this program',
    args: [],
    options: [],
    load: async () => (await import('./command-version.ts')).versionCommand,
  },
];

export const commands: readonly CommandSpec[] = [
  ...offlineCommands,
  ...everydayCommands,
  ...resourceCommands,
  ...accountTable,
  ...installationCommands,
  ...sandboxCommands,
  ...tools,
];
