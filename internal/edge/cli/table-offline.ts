// The part of the command table that compiles a tree here, with or without a server behind it.

import type { CommandSpec, OptionSpec } from './types.ts';

const path = {
  name: 'PATH',
  help: 'the directory that holds .svc/ (default: here)',
  optional: true,
  completes: 'directory',
} as const;
const context: OptionSpec = {
  name: 'context',
  type: 'list',
  value: 'K=V',
  help: 'context variable beneath each document’s own variables',
};
const config: OptionSpec = {
  name: 'config',
  type: 'string',
  value: 'FILE',
  help: 'presets, models and template sources as the daemon has them (SVC_CONFIG)',
  completes: 'file',
};
const prune: OptionSpec = {
  name: 'prune',
  type: 'bool',
  help: 'keep what manual owns and the tree no longer declares',
};
const adopt: OptionSpec = { name: 'adopt', type: 'flag', help: 'take over names that another owner holds' };

export const offlineCommands: readonly CommandSpec[] = [
  {
    words: ['compile'],
    summary: 'compile a tree offline; no server',
    args: [path],
    options: [context, config],
    notes: ['exit status 0 when the tree compiles, 1 when it does not, 2 when PATH is no directory'],
    load: async () => (await import('./command-compile.ts')).compileCommand,
  },
  {
    words: ['validate'],
    summary: 'compile and print the diagnostics only',
    args: [path],
    options: [
      context,
      config,
      { name: 'strict', type: 'flag', help: 'exit status 1 for warnings too, and for root keys that nothing knows' },
      {
        name: 'format',
        type: 'string',
        value: 'FORMAT',
        help: 'on stdout, for a check of a code host or a test report',
        choices: ['github', 'sarif', 'junit'],
      },
    ],
    load: async () => (await import('./command-compile.ts')).validateCommand,
  },
  {
    words: ['diff'],
    summary: 'what apply would change, against the stored state',
    args: [path],
    options: [
      context,
      config,
      prune,
      adopt,
      { name: 'exit-code', type: 'flag', help: 'exit 1 where there is a difference' },
    ],
    load: async () => (await import('./command-apply.ts')).diffCommand,
  },
  {
    words: ['apply'],
    summary: 'compile, diff and apply a tree; its owner is "manual"',
    args: [path],
    options: [context, config, prune, { name: 'dry-run', type: 'flag', help: 'plan only' }, adopt],
    load: async () => (await import('./command-apply.ts')).applyCommand,
  },
  {
    words: ['explain'],
    summary: 'what a field of an agent document is: type, default, limits, example; no server',
    args: [
      { name: 'FIELD', help: 'a path such as triggers.where; all fields of the root where absent', optional: true },
    ],
    options: [],
    notes: ['an index or an alias may be left out; the name of a variant picks it: triggers.routing.bind'],
    load: async () => (await import('./command-explain.ts')).explainCommand,
  },
  {
    words: ['schema'],
    summary: 'JSON Schema for editors',
    args: [
      {
        name: 'KIND',
        help: 'agent (default), environment, identity or config',
        optional: true,
        choices: ['agent', 'environment', 'identity', 'config'],
      },
    ],
    options: [
      {
        name: 'write',
        type: 'string',
        value: 'DIR',
        help: 'write KIND, or all, as files into DIR',
        completes: 'directory',
      },
    ],
    notes: [
      'first line of an agent file, for the YAML plugin of an editor:',
      '  # yaml-language-server: $schema=path/to/agent.schema.json',
    ],
    load: async () => (await import('./command-schema.ts')).schemaCommand,
  },
];
