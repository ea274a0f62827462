// The part of the command table about what sessions run in: presets on this machine, sandboxes of the installation.

import type { CommandSpec } from './types.ts';

const preset = async (): Promise<typeof import('./command-preset.ts')> => import('./command-preset.ts');
const presetTable = { name: 'NAME', help: 'its name, as environments say it' } as const;

const presets: readonly CommandSpec[] = [
  {
    words: ['preset', 'build'],
    summary: 'make the root file system of a preset, for bubblewrap, under the data directory',
    args: [presetTable],
    options: [
      {
        name: 'from',
        type: 'string',
        value: 'PATH',
        help: 'a directory, or an archive made by tar, plain or packed by gzip or zstd',
        completes: 'file',
      },
    ],
    notes: [
      'kept by content: the digest says the same for the same names, modes and contents',
      'an entry with .., an absolute path, a device, a pipe or a socket is refused; /dev, /proc, /sys, /run and /tmp are the sandbox’s own',
    ],
    load: async () => (await preset()).presetBuild,
  },
  {
    words: ['preset', 'list'],
    summary: 'root file systems that were built on this machine',
    args: [],
    options: [],
    load: async () => (await preset()).presetList,
  },
  {
    words: ['preset', 'show'],
    summary: 'one of them: its digest, what it was made from, where it is',
    args: [presetTable],
    options: [],
    load: async () => (await preset()).presetShow,
  },
  {
    words: ['preset', 'remove'],
    summary: 'remove one; refused while a session’s sandbox stands on it',
    args: [presetTable],
    options: [],
    load: async () => (await preset()).presetRemove,
  },
];

const sandbox = async (): Promise<typeof import('./command-sandbox.ts')> => import('./command-sandbox.ts');

const sandboxes: readonly CommandSpec[] = [
  {
    words: ['sandbox', 'show'],
    summary: 'what sessions run in: providers, versions, what each can do and why not the rest',
    args: [],
    options: [],
    load: async () => (await sandbox()).sandboxShow,
  },
  {
    words: ['sandbox', 'list'],
    summary: 'sandboxes of all daemons that are reached, also those that no live session owns',
    args: [],
    options: [],
    load: async () => (await sandbox()).sandboxList,
  },
  {
    words: ['sandbox', 'reap'],
    summary: 'end and remove sandboxes that no live session owns',
    args: [],
    options: [],
    load: async () => (await sandbox()).sandboxReap,
  },
];

export const sandboxCommands: readonly CommandSpec[] = [...presets, ...sandboxes];
